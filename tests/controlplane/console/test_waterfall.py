"""The timings of a request on one scale."""

from datetime import timedelta

import pytest

from controlplane.console.formats import UNKNOWN
from controlplane.console.waterfall import Step, draw
from controlplane.decisions.ledger import charge_rows, request_row
from controlplane.models import Charge, Request
from inference.contract.events import End
from inference.contract.kinds import Outcome
from tests.controlplane.ledger_events import NOON, NOON_MS, make_charge, make_end


def rows_of(end: End) -> tuple[Request, list[Charge]]:
    """The rows as they would be read back, without a database."""
    request = request_row(end, {"pool_1": "llama"}, recorded_at=NOON)
    charges = charge_rows(end, {"pool_1": "llama"})
    return (
        Request(**{name: getattr(request, name) for name in request.__dataclass_fields__}),
        [
            Charge(**{name: getattr(one, name) for name in one.__dataclass_fields__})
            for one in charges
        ],
    )


def placed(step: Step) -> tuple[str, float, float]:
    return (step.label, round(step.start, 1), round(step.width, 1))


def test_attempts_stand_where_they_ran_with_their_phases() -> None:
    arrived = NOON_MS - 4_000
    first = make_charge(
        started_at_ms=arrived + 400, duration_ms=600.0, first_token_ms=None, error_code="timeout"
    )
    second = make_charge(
        attempt=2, started_at_ms=arrived + 1_000, duration_ms=3_000.0, first_token_ms=1_000.0
    )
    end = make_end(
        received_at_ms=arrived,
        total_ms=4_000.0,
        queued_ms=400.0,
        first_token_ms=2_000.0,
        charges=(first, second),
    )
    picture = draw(*rows_of(end))
    assert [placed(step) for step in picture.steps] == [
        ("Waiting for a slot", 0.0, 10.0),
        ("Attempt 1", 10.0, 15.0),
        ("Attempt 2", 25.0, 75.0),
        ("To the first token", 25.0, 25.0),
        ("From first to last", 50.0, 50.0),
        ("Whole request", 0.0, 100.0),
    ]
    assert (picture.steps[1].tone, picture.steps[1].note) == ("crit", "timeout")
    assert (picture.steps[2].tone, picture.steps[2].name) == ("ok", "llama/0")
    assert picture.first_token == 50.0
    assert [(tick.at, tick.label) for tick in picture.ticks] == [
        (0.0, "0 s"),
        (25.0, "1 s"),
        (50.0, ""),
        (75.0, "3 s"),
    ]


def test_a_request_without_attempts_is_one_bar() -> None:
    end = make_end(charges=(), total_ms=0.8, queued_ms=None, first_token_ms=None)
    picture = draw(*rows_of(end))
    assert [placed(step) for step in picture.steps] == [("Whole request", 0.0, 80.0)]
    assert picture.first_token is None


def test_a_lost_gateway_has_no_whole_duration() -> None:
    lost = make_end(outcome=Outcome.LOST_GATEWAY, total_ms=0.0, queued_ms=None)
    steps = draw(*rows_of(lost)).steps
    labels = [step.label for step in steps]
    assert labels == ["Attempt 1", "To the first token", "From first to last"]
    assert steps[0].took == UNKNOWN


def test_clocks_that_disagree_draw_nothing_outside_the_picture() -> None:
    request, charges = rows_of(make_end())
    request.received_at += timedelta(hours=1)
    picture = draw(request, charges)
    assert all(0.0 <= step.start and step.start + step.width <= 100.3 for step in picture.steps)


def test_a_wait_longer_than_the_request_stays_inside_the_picture() -> None:
    end = make_end(charges=(), total_ms=0.6, queued_ms=18.2, first_token_ms=None)
    waiting, whole = draw(*rows_of(end)).steps
    assert (waiting.width, round(whole.width, 1)) == (100.0, 3.3)


@pytest.mark.parametrize("total_ms", [0.0, 0.05, 7.0, 99.0, 1_000.0, 61_000.0, 86_400_000.0])
def test_scales_have_few_round_ticks(total_ms: float) -> None:
    end = make_end(charges=(), total_ms=total_ms, queued_ms=None, first_token_ms=None)
    picture = draw(*rows_of(end))
    assert 1 <= len(picture.ticks) <= 6
    assert picture.ticks[0].at == 0.0
    assert all(tick.at <= 92.0 for tick in picture.ticks)


def test_a_hedge_and_a_fallback_are_called_what_they_were() -> None:
    charges = tuple(make_charge(attempt=number, target_id=f"tgt_{number}") for number in (1, 2, 3))
    steps = [{"target": "tgt_1"}, {"target": "tgt_2", "hedge": True, "fallbacks": 1}]
    decision = {"attempts": [*steps, {"target": "tgt_3", "fallbacks": 1}]}
    labels = [
        one.label for one in draw(*rows_of(make_end(charges=charges, decision=decision))).steps
    ]
    assert [one for one in labels if one.startswith("Attempt")] == [
        "Attempt 1",
        "Attempt 2, hedge",
        "Attempt 3, fallback",
    ]
    # what was recorded before there were either
    assert draw(*rows_of(make_end(charges=charges, decision={"targets": []}))).steps
