"""What needs a person on a live page: exact words, the gravest first."""

import pytest

from controlplane.decisions.propagation import PartlySilent
from controlplane.selectors.live import Coverage
from dashboards.base import Refusal
from dashboards.documents import document_of
from tests.dashboards.factory import NOW, ladder, pool_line, scene, summary, view


def needs(**fields: object) -> list[tuple[str, str, str]]:
    document = document_of(scene(**fields), is_historical=False)
    told = [*document["needs"], *document["gap_needs"]]
    return [(one["tone"], one["title"], one["detail"]) for one in told]


def test_a_silent_gateway_is_named() -> None:
    one_of_two = Coverage(1, 2, ("gw-b",), NOW)
    shown = scene(at=view(coverage=one_of_two))
    document = document_of(shown, is_historical=False)
    assert document["coverage"] == {
        "live": 1,
        "seen": 2,
        "missing": ["gw-b"],
        "sentence": "1 of 2 gateways report: gw-b is silent",
    }
    assert needs(at=view(coverage=one_of_two)) == [
        ("crit", "gw-b is silent", "1 of 2 gateways report: gw-b is silent")
    ]


ONE_OF_TWO = PartlySilent("vm-1", 1, 2)


def test_a_silent_process_is_not_told_as_a_silent_gateway() -> None:
    detail = "Its other processes serve; it does not count as live until all of them report."
    partly = view(coverage=Coverage(0, 1, ("vm-1",), NOW, (ONE_OF_TWO,)))
    assert document_of(scene(at=partly), is_historical=False)["coverage"] == {
        "live": 0,
        "seen": 1,
        "missing": ["vm-1"],
        "sentence": "0 of 1 gateway reports in full; vm-1: 1 of 2 processes is silent",
    }
    assert needs(at=partly) == [("warn", "vm-1: 1 of 2 processes is silent", detail)]
    both = view(coverage=Coverage(1, 3, ("gw-b", "vm-1"), NOW, (PartlySilent("vm-1", 1, 3),)))
    sentence = "1 of 3 gateways report in full; gw-b is silent; vm-1: 2 of 3 processes are silent"
    assert needs(at=both) == [
        ("crit", "gw-b is silent", sentence),
        ("warn", "vm-1: 2 of 3 processes are silent", detail),
    ]


def test_what_needs_attention_is_facts_the_gravest_first() -> None:
    assert needs() == []
    pools = (
        pool_line("a", "degraded", reason="a/1 failed: no answer", ready=1, wanted=2),
        pool_line("b", "down", reason="no supervisor leads, so nothing starts", ready=0),
        pool_line("c", "stopped", ready=0, wanted=0),
    )
    refused = (Refusal("gw-a", 41, "routes.rt_1"),)
    cut = view(covered=(1.0, 0.0, 0.0, 1.0), summary=summary(has_unknown_cost=True))
    assert needs(pools=pools, refusals=refused, at=cut) == [
        ("crit", "b has no ready worker", "0 of 1 ready: no supervisor leads, so nothing starts"),
        ("warn", "gw-a refused version 41", "routes.rt_1"),
        ("warn", "a is degraded", "1 of 2 ready: a/1 failed: no answer"),
        ("warn", "Some requests have no price", "Their model lacks one; costs leave them out."),
        (
            "idle",
            "2 of 4 buckets have no data",
            "No gateway reported then; it is shown as a gap, not as 0.",
        ),
    ]


@pytest.mark.parametrize(
    ("covered", "told"),
    [
        ((0.0, 0.0, 1.0, 1.0), []),
        ((0.0, 0.0, 0.0, 0.0), []),
        ((0.0, 1.0, 0.0, 1.0), ["1 of 4 buckets has no data"]),
        ((1.0, 0.0, 0.0, 0.0), ["2 of 4 buckets have no data"]),
        ((1.0, 1.0, 1.0, 0.0), []),
    ],
)
def test_only_gaps_after_the_first_report_need_attention(
    covered: tuple[float, ...], told: list[str]
) -> None:
    assert [title for _, title, _ in needs(at=view(covered=covered))] == told


@pytest.mark.parametrize(
    ("share", "told"),
    [
        (None, []),
        (0.04, []),
        (0.05, [("warn", "5 % of requests failed")]),
        (1.0, [("crit", "100 % of requests failed")]),
    ],
)
def test_many_failures_need_attention(share: float | None, told: list[tuple[str, str]]) -> None:
    found = needs(at=view(summary=summary(failure_share=share)))
    assert [(tone, title) for tone, title, _ in found] == told


def test_without_its_store_the_page_says_so_once() -> None:
    blind = view(coverage=Coverage(0, 0, (), None))
    assert [one[1] for one in needs(at=blind, has_store=False, pools=())] == [
        "The state store is not answering"
    ]
    assert [one[1] for one in needs(at=blind, pools=())] == ["No gateway reports"]


def test_a_route_that_serves_less_well_is_told_with_its_steps_and_since_when() -> None:
    ladders = (ladder(), ladder("code", now=0, since=None), ladder("none", now=None, since=None))
    assert needs(at=view(ladders=ladders)) == [
        (
            "warn",
            "chat serves less well",
            "2 of 3 steps (trim batch, smaller model) since 15:00.",
        )
    ]
