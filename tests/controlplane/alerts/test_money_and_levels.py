"""Rules about money and service levels: what they find, and what they say they compared."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from redis import Redis

from controlplane.alerting.base import Facts, Grid, Question
from controlplane.alerting.preview import preview
from controlplane.alerting.registry import REGISTRY
from controlplane.decisions.alert_kinds import AlertKind
from controlplane.decisions.alerts import Terms
from controlplane.models import Budget, Channel, Episode, LiveTraffic, LiveWorker, Organisation
from controlplane.models.usage import UsageHour, UsageMinute
from controlplane.services.actors import Actor
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.budgets import create_budget
from controlplane.services.keys import create_key
from controlplane.services.usage import record_usage
from tests.controlplane.alerts.conftest import Clock
from tests.controlplane.alerts.sinks import Sink
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import make_charge, make_end, make_origin
from tests.controlplane.live.facts import histogram

pytestmark = pytest.mark.slow

CENT = 10_000_000
NOON = datetime(2026, 6, 15, 12, tzinfo=UTC)


@pytest.fixture
def clock() -> Clock:
    return Clock(NOON)


def asked(
    kind: AlertKind, scope: str, home: str, now: datetime, window_s: int
) -> tuple[dict[str, Sequence[float | None]], dict[str, str]]:
    question, facts = Question(kind.value, home, scope, None, window_s), Facts()
    found = REGISTRY[kind](question, question.places(now), Grid(now), facts)
    return {place: list(values) for place, values in found.items()}, dict(facts.said())


def spent(home: str, at: datetime, cents: int, *, route_id: str = "") -> None:
    UsageMinute.objects.create(
        organisation_id=home,
        minute=at.replace(second=0, microsecond=0),
        route_id=route_id,
        pool_id="",
        model_id="",
        project_id="",
        cost_nanousd=cents * CENT,
    )


def test_an_hours_spending_is_compared_with_the_same_hour_of_days_before(
    organisation: Organisation, route: Any
) -> None:
    home = organisation.pk
    for back in range(1, 11):
        spent(home, NOON - timedelta(days=back, minutes=30), 100 + back, route_id=route["id"])
        # other hours are none of its business
        spent(home, NOON - timedelta(days=back, hours=5), 9_000, route_id=route["id"])
    spent(home, NOON - timedelta(minutes=10), 500, route_id=route["id"])
    for scope, place in (("organisation", home), ("route", route["id"])):
        found, said = asked(AlertKind.SPEND_RATE, scope, home, NOON, 3_600)
        # the median of ten days is 105.5 cents, a deviation a tenth of that
        assert found[place] == [pytest.approx((500 - 105.5) / 10.55)]
        assert said[place].startswith(
            "$5.00 in the last hour; in the same hour of the last 10 days"
        )


def test_the_same_hour_is_that_of_peoples_clocks(organisation: Organisation) -> None:
    Organisation.objects.update(time_zone="Europe/Berlin")
    now = datetime(2026, 3, 30, 10, tzinfo=UTC)
    # noon in Berlin: at 10 UTC since the night of the 29th, at 11 UTC before
    for back in range(2, 9):
        spent(organisation.pk, datetime(2026, 3, 30, 10, 30, tzinfo=UTC) - timedelta(days=back), 50)
    spent(organisation.pk, datetime(2026, 3, 29, 9, 30, tzinfo=UTC), 50)
    spent(organisation.pk, now - timedelta(minutes=30), 50)
    found, said = asked(AlertKind.SPEND_RATE, "organisation", organisation.pk, now, 3_600)
    assert found[organisation.pk] == [0.0]
    assert "$0.50 (median)" in said[organisation.pk]


def test_a_team_a_project_and_a_key_have_hours_of_their_own(
    organisation: Organisation, actor: Actor
) -> None:
    home = organisation.pk
    key = create_key(actor, organisation=organisation, name="app").key
    project, ledgers = key.project, key.pk.partition("_")[2]
    for back in range(11):
        at = NOON - timedelta(days=back, minutes=30)
        cost = (500 if back == 0 else 100) * CENT
        UsageMinute.objects.create(
            organisation_id=home,
            minute=at,
            route_id="",
            pool_id="",
            model_id="",
            project_id=project.pk,
            cost_nanousd=cost,
        )
        UsageHour.objects.create(
            organisation_id=home,
            hour=at.replace(minute=0),
            dimension="key",
            value=ledgers,
            project_id=project.pk,
            cost_nanousd=cost,
        )
    for scope, place in (("team", project.team_id), ("project", project.pk), ("key", key.pk)):
        # a key's last whole hour is told for as long as the next is on
        now = NOON + timedelta(minutes=20) if scope == "key" else NOON
        found, said = asked(AlertKind.SPEND_RATE, scope, home, now, 3_600)
        assert found[place] == [pytest.approx(40.0)]
        assert said[place].startswith("$5.00 in the last hour")


def test_the_past_of_spending_is_judged_by_what_each_moment_knew(
    organisation: Organisation,
) -> None:
    home = organisation.pk
    for back in range(1, 15):
        spent(home, NOON - timedelta(days=back, hours=5), 100)
    # five times the usual, from 7 to 8 o'clock of today
    spent(home, NOON - timedelta(hours=5), 500)
    question = Question("spend_rate", home, "organisation", None, 3_600)
    found = preview(question, Terms(6.0, 0), NOON)
    assert found.fired is not None
    ((place, stretch),) = found.fired
    assert place.id == home
    begun = NOON - timedelta(hours=5) + timedelta(minutes=1)
    assert (stretch.since, stretch.peak) == (begun, pytest.approx(40.0))
    assert stretch.until == NOON - timedelta(hours=4) + timedelta(minutes=2)
    alone, _ = asked(AlertKind.SPEND_RATE, "organisation", home, stretch.since, 3_600)
    assert alone[home] == [pytest.approx(40.0)], "evaluated then it was the same"


def test_of_a_new_organisation_nobody_knows_what_is_usual(organisation: Organisation) -> None:
    spent(organisation.pk, NOON - timedelta(minutes=10), 500)
    found, said = asked(AlertKind.SPEND_RATE, "organisation", organisation.pk, NOON, 3_600)
    assert (found[organisation.pk], said) == ([None], {})


@pytest.fixture
def budget(actor: Actor, organisation: Organisation) -> Budget:
    made = create_budget(
        actor,
        organisation=organisation,
        name="main",
        scopes=[{"subject": "organisation", "subject_id": None}],
        amount_nanousd=1_000 * CENT,
        period="month",
    )
    begin_to_count(made, NOON.replace(day=1, hour=0))
    return made


def spends(organisation: Organisation, days: Sequence[int], cents: int) -> None:
    for day in days:
        at = NOON.replace(day=day, hour=6)
        ms = int(at.timestamp() * 1000)
        origin = make_origin(organisation_id=organisation.pk)
        charges = (make_charge(cost_nanousd=cents * CENT),)
        end = make_end(day, at_ms=ms, received_at_ms=ms, origin=origin, charges=charges)
        record_usage([end], now=at)


def test_budgets_of_each_end_user_and_rolling_ones_are_foretold_too(
    organisation: Organisation, actor: Actor
) -> None:
    each = create_budget(
        actor,
        organisation=organisation,
        name="each",
        scopes=[{"subject": "end_user", "subject_id": None}],
        amount_nanousd=1_000 * CENT,
        period="month",
    )
    rolling = create_budget(
        actor,
        organisation=organisation,
        name="rolling",
        scopes=[{"subject": "organisation", "subject_id": None}],
        amount_nanousd=500 * CENT,
        period="month",
        is_rolling=True,
    )
    for one in (each, rolling):
        begin_to_count(one, NOON.replace(day=1, hour=0))
    for day in range(1, 16):
        at = NOON.replace(day=day, hour=6)
        ms = int(at.timestamp() * 1000)
        origin = make_origin(organisation_id=organisation.pk, end_user="ann")
        charges = (make_charge(cost_nanousd=40 * CENT),)
        end = make_end(day, at_ms=ms, received_at_ms=ms, origin=origin, charges=charges)
        record_usage([end], now=at)
    found, said = asked(AlertKind.BUDGET_FORECAST, "budget", organisation.pk, NOON, 0)
    (of_ann,) = (place for place in found if place.startswith(each.pk))
    (of_all,) = (place for place in found if place.startswith(rolling.pk))
    # 600 cents in 14.5 of 30 days; nobody keeps how evenly callers spend
    assert found[of_ann] == [pytest.approx(124.1, abs=0.1)]
    assert "four times in five" not in said[of_ann]
    # nothing leaves within 7.5 days, and half of the 15 newest steps had 40
    assert found[of_all] == [pytest.approx(100 * (600 + 15 * 40 * 8 / 15) / 500, rel=0.1)]
    assert "in 7.5 days at the pace of the last, four times in five between" in said[of_all]


def test_a_budget_that_will_be_passed_is_told_with_its_interval_before_it_is(
    budget: Budget,
    organisation: Organisation,
    make_rule: Callable[..., Any],
    hook: Channel,
    sink: Sink,
    clock: Clock,
) -> None:
    make_rule(name="pace", kind="budget_forecast", scope="budget", channels=["hook"])
    spends(organisation, range(1, 15), 30)
    clock.looks(2)
    assert Episode.objects.count() == 0, "420 of 1,000 cents at half of the month"
    spends(organisation, [15], 120)
    clock.looks(2)
    clock.sends()
    (post,) = sink.posts
    text = json.loads(post.body)["text"]
    # 540 cents in 14.5 of 30 days
    assert "112 %; 100 % or more is an alert. $5.40 so far; $11.17 at the end" in text
    assert "four times in five between $" in text
    assert Episode.objects.get().value == pytest.approx(111.7, abs=0.1)


def test_budgets_of_what_callers_name_are_not_foretold(
    actor: Actor, organisation: Organisation, clock: Clock
) -> None:
    create_budget(
        actor,
        organisation=organisation,
        name="each",
        scopes=[{"subject": "end_user", "subject_id": None}],
        amount_nanousd=CENT,
        period="month",
    )
    found, _ = asked(AlertKind.BUDGET_FORECAST, "budget", organisation.pk, NOON, 0)
    assert found == {}


def traffic(home: str, route_id: str, at: datetime, requests: int, failed: int, ms: float) -> None:
    LiveTraffic.objects.create(
        resolution_s=5,
        organisation_id=home,
        at=at,
        pool_id="pool_x",
        route_id=route_id,
        source="a/0",
        requests=requests,
        failures={"timeout": failed} if failed else {},
        first_token_ms=dict(histogram(*[ms] * requests)),
        output_token_ms={},
        **dict.fromkeys(("prompt_tokens", "completion_tokens", "cost_nanousd"), 0),
        **dict.fromkeys(("unknown_usage", "unknown_cost"), 0),
    )


def test_objectives_that_are_missed_burn_in_both_windows(
    organisation: Organisation, route: Any, admin: Caller
) -> None:
    home, route_id = organisation.pk, route["id"]
    traffic(home, route_id, NOON - timedelta(minutes=50), 900, 0, 100.0)
    found, _ = asked(AlertKind.BURN_RATE, "route", home, NOON, 3_600)
    assert found[route_id] == [None], "nobody came in the last five minutes"
    traffic(home, route_id, NOON - timedelta(minutes=2), 100, 2, 100.0)
    found, said = asked(AlertKind.BURN_RATE, "route", home, NOON, 3_600)
    # 2 of 1,000 in the hour, where 1 of 10,000 may
    assert found[route_id] == [pytest.approx(20.0)]
    assert said[route_id].startswith("Objective: 99.99 % answered; 0.2 % of the last 1 h missed it")
    changes = {"objective_availability_percent": None, "objective_first_token_p50_ms": 50}
    admin.patch(f"/routes/{route_id}/", changes)
    found, _ = asked(AlertKind.BURN_RATE, "route", home, NOON, 3_600)
    assert found[route_id] == [pytest.approx(2.0)], "all of them took longer, half of them may"


def test_a_service_level_is_told_by_rest_and_on_its_page(
    organisation: Organisation, route: Any, admin: Caller, state_store: Redis
) -> None:
    now = datetime.now(UTC)
    traffic(organisation.pk, route["id"], now - timedelta(minutes=2), 1_000, 1, 300.0)
    answer = admin.get("/service-levels/").json()
    (level,) = answer["results"]
    assert (level["route"], level["requests"], level["failures"]) == (route["name"], 1_000, 1)
    assert level["availability_percent"] == pytest.approx(99.9)
    # a thousandth failed where a ten-thousandth may, and all first tokens took more than 200 ms
    left = {one["objective"]: one["left_percent"] for one in level["missed"]}
    assert left["availability"] == pytest.approx(-900)
    assert left["first_token_p50"] == pytest.approx(-100)
    assert left["first_token_p99"] == pytest.approx(100)
    assert level["burn"]["rate"] == pytest.approx(10)
    assert admin.get(f"/service-levels/{route['id']}/").json() == level


def test_the_fullest_worker_is_told(organisation: Organisation, pool: Any) -> None:
    for number, used in enumerate((0.2, 0.9)):
        LiveWorker.objects.create(
            resolution_s=1,
            pool_id=pool["id"],
            at=NOON - timedelta(seconds=5),
            worker_id=f"{pool['id']}-{number}",
            is_gpu=True,
            kv_used_sum=used,
            kv_used_samples=1,
            **{
                f"{name}_{part}": 0
                for name in ("running", "waiting", "utilisation", "memory_bytes")
                for part in ("sum", "samples")
            },
        )
    found, _ = asked(AlertKind.KV_USED, "pool", organisation.pk, NOON, 60)
    assert found == {pool["id"]: [pytest.approx(90.0)]}
    found, _ = asked(AlertKind.KV_USED, "pool", organisation.pk, NOON + timedelta(hours=1), 60)
    assert found == {pool["id"]: [None]}, "no sample is not an empty cache"
