"""What makes cache policies, purges and a route's use of them unfit to serve."""

from dataclasses import replace

import pytest

from inference.contract.kinds import CacheTier, PurgeKind, TaskClass
from inference.contract.params import MAX_CACHE_TTL_S
from inference.contract.snapshot import (
    CachePolicyRecord,
    MatchRecord,
    PurgeRecord,
    RouteRecord,
)
from tests.decisions.test_validation import ROUTE, found

POLICY = CachePolicyRecord("cch_a", "org_a", "answers")
FOREIGN = CachePolicyRecord("cch_b", "org_b", "answers")
PURGE = PurgeRecord("pur_a", "org_a", PurgeKind.TAG, "app=search", 1)


def of_policy(**changes: object) -> list[tuple[str, str]]:
    """Field and code of every problem of one policy."""
    return [row[2:] for row in found(caches=(replace(POLICY, **changes),))]  # type: ignore[arg-type]


def of_purge(**changes: object) -> list[tuple[str, str]]:
    return [row[2:] for row in found(purges=(replace(PURGE, **changes),))]  # type: ignore[arg-type]


def test_policies_and_purges_as_they_are_made_are_sound() -> None:
    route = replace(ROUTE, cache_policy_id="cch_a", similarity_min=0.97)
    assert found(caches=(POLICY, FOREIGN), purges=(PURGE,), routes=(route,)) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"organisation_id": "org_x"}, ("organisation_id", "unknown")),
        ({"name": " "}, ("name", "invalid")),
        ({"tiers": (CacheTier.LOCAL, CacheTier.LOCAL)}, ("tiers", "duplicate")),
        ({"tiers": (CacheTier.SEMANTIC,)}, ("tiers", "invalid")),
        ({"tiers": (CacheTier.EMBEDDING,)}, ("tiers", "invalid")),
        ({"ttl_s": {TaskClass.CODE: -1}}, ("ttl_s.code", "out_of_range")),
        ({"ttl_s": {TaskClass.CODE: MAX_CACHE_TTL_S + 1}}, ("ttl_s.code", "out_of_range")),
        ({"similarity_min": 0.49}, ("similarity_min", "out_of_range")),
        ({"similarity_min": 1.01}, ("similarity_min", "out_of_range")),
        ({"check_percent": 100.5}, ("check_percent", "out_of_range")),
        ({"stale_s": -1}, ("stale_s", "out_of_range")),
        ({"max_entry_bytes": 0}, ("max_entry_bytes", "out_of_range")),
        ({"memory_percent": 0}, ("memory_percent", "out_of_range")),
        ({"edge_s": MAX_CACHE_TTL_S + 1}, ("edge_s", "out_of_range")),
        ({"bypass": (MatchRecord(),) * 51}, ("bypass", "out_of_range")),
        (
            {"bypass": (MatchRecord(), MatchRecord(tags=("two words",)))},
            ("bypass.1.tags.0", "invalid"),
        ),
    ],
)
def test_what_a_policy_may_not_be(changes: dict[str, object], problem: tuple[str, str]) -> None:
    assert of_policy(**changes) == [problem]


def test_the_bounds_themselves_are_within() -> None:
    at_most = {"ttl_s": {TaskClass.CODE: MAX_CACHE_TTL_S}, "check_percent": 100, "stale_s": 0}
    assert of_policy(**at_most, similarity_min=1.0, memory_percent=1) == []


def test_an_organisation_has_a_name_once() -> None:
    twice = (POLICY, replace(POLICY, id="cch_c"), FOREIGN)
    assert found(caches=twice) == [
        ("caches", "cch_a", "name", "duplicate"),
        ("caches", "cch_c", "name", "duplicate"),
    ]


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"organisation_id": "org_x"}, ("organisation_id", "unknown")),
        ({"epoch": 0}, ("epoch", "out_of_range")),
        ({"value": "two words"}, ("value", "invalid")),
        ({"kind": PurgeKind.NAMESPACE, "value": "-docs"}, ("value", "invalid")),
        ({"kind": PurgeKind.PREFIX, "value": ""}, ("value", "invalid")),
    ],
)
def test_what_a_purge_may_not_be(changes: dict[str, object], problem: tuple[str, str]) -> None:
    assert of_purge(**changes) == [problem]


def test_the_beginning_of_namespaces_may_end_in_a_separator() -> None:
    assert of_purge(kind=PurgeKind.PREFIX, value="docs/") == []


@pytest.mark.parametrize(
    ("route", "problem"),
    [
        (replace(ROUTE, cache_policy_id="cch_x"), ("cache_policy_id", "unknown")),
        (replace(ROUTE, cache_policy_id="cch_b"), ("cache_policy_id", "foreign")),
        (replace(ROUTE, similarity_min=0.1), ("similarity_min", "out_of_range")),
    ],
)
def test_a_route_names_a_policy_of_its_own(route: RouteRecord, problem: tuple[str, str]) -> None:
    assert [row[2:] for row in found(caches=(POLICY, FOREIGN), routes=(route,))] == [problem]
