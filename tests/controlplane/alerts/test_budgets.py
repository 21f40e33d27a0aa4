"""Alerts of budgets: one a threshold, account and period, whoever looks and however often."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from controlplane.models import AlertRule, Budget, Channel, Delivery, Episode, Organisation
from controlplane.services.actors import Actor
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.budgets import create_budget
from controlplane.services.usage import record_usage
from tests.controlplane.alerts.conftest import Clock
from tests.controlplane.alerts.sinks import Sink
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

pytestmark = pytest.mark.slow

Make = Callable[..., AlertRule]

CENT = 10_000_000


@pytest.fixture
def clock() -> Clock:
    """The middle of a month that nobody's tests are near the end of."""
    return Clock(datetime(2026, 6, 15, 12, tzinfo=UTC))


@pytest.fixture
def make_budget(actor: Actor, organisation: Organisation, clock: Clock) -> Callable[..., Budget]:
    def make(subject: str = "organisation", **fields: Any) -> Budget:
        told: Mapping[str, Any] = {
            "name": "main",
            "scopes": [{"subject": subject, "subject_id": None}],
            "amount_nanousd": 100 * CENT,
            "period": "month",
            **fields,
        }
        budget = create_budget(actor, organisation=organisation, **told)
        begin_to_count(budget, clock.now)
        return budget

    return make


class Spender:
    """Requests that come at the clock's time."""

    def __init__(self, organisation: Organisation, clock: Clock) -> None:
        self._organisation, self._clock, self._number = organisation, clock, 0

    def spends(self, cents: int, **origin: Any) -> None:
        self._number += 1
        at = int(self._clock.now.timestamp() * 1000)
        record_usage(
            [
                make_end(
                    self._number,
                    at_ms=at,
                    received_at_ms=at,
                    origin=make_origin(organisation_id=self._organisation.pk, **origin),
                    charges=(make_charge(cost_nanousd=cents * CENT),),
                )
            ],
            now=self._clock.now,
        )


@pytest.fixture
def spender(organisation: Organisation, clock: Clock) -> Spender:
    return Spender(organisation, clock)


def fired() -> list[float]:
    """The thresholds of all alerts there were, in the order in which they came."""
    return list(
        Episode.objects.order_by("opened_at", "threshold").values_list("threshold", flat=True)
    )


def test_each_threshold_is_told_once_a_period(
    make_budget: Callable[..., Budget],
    make_rule: Make,
    hook: Channel,
    sink: Sink,
    spender: Spender,
    clock: Clock,
) -> None:
    make_budget()
    make_rule(
        name="spent", kind="budget_used", scope="budget", channels=["hook"], tells_resolved=False
    )
    spender.spends(49)
    clock.looks(2)
    assert fired() == []
    for cents in (6, 30, 40):
        spender.spends(cents)
        clock.looks(3)
    assert fired() == [50, 80, 100]
    clock.sends()
    texts = [json.loads(one.body)["text"] for one in sink.posts]
    assert texts[1] == (
        "Budget used at budget main, $1.00 until 2026-07-01 00:00 UTC: 85 %; 80 % or more is an"
        " alert."
    )
    assert len(texts) == 3
    clock.pass_s((datetime(2026, 7, 1, tzinfo=UTC) - clock.now).total_seconds())
    clock.looks(2)
    assert set(Episode.objects.values_list("state", flat=True)) == {"resolved"}
    spender.spends(60)
    clock.looks(3)
    assert fired() == [50, 80, 100, 50]
    assert Delivery.objects.count() == 4


@pytest.mark.parametrize("subject", ["key", "end_user", "team", "organisation"])
def test_one_call_that_passes_all_of_them_is_told_without_another_call(
    make_budget: Callable[..., Budget],
    make_rule: Make,
    hook: Channel,
    spender: Spender,
    clock: Clock,
    subject: str,
) -> None:
    make_budget(subject)
    make_rule(name="spent", kind="budget_used", scope="budget", channels=["hook"], threshold=80)
    spender.spends(120, end_user="ann")
    clock.looks(1)
    assert fired() == [80, 100], "the rule is told from 80 on"
    assert Delivery.objects.count() == 1, "what happened at once is told once"
    assert "100 % or more" in Delivery.objects.get().content["text"]
    names = set(Episode.objects.values_list("subject_name", flat=True))
    assert len(names) == 1
    whose = {"organisation": "main,", "end_user": "main (end user ann),"}
    assert whose.get(subject, f"main ({subject} ") in names.pop()


def test_who_counts_each_apart_is_told_of_each(
    make_budget: Callable[..., Budget],
    make_rule: Make,
    hook: Channel,
    spender: Spender,
    clock: Clock,
) -> None:
    make_budget("end_user", thresholds_percent=[100])
    make_budget(name="other", is_enabled=False)
    make_rule(name="spent", kind="budget_used", scope="budget", channels=["hook"])
    for user, cents in (("ann", 150), ("bob", 101), ("cid", 99)):
        spender.spends(cents, end_user=user)
    clock.looks(2)
    assert Episode.objects.count() == 2
    clock.looks(2)
    assert Delivery.objects.count() == 2


def test_more_money_ends_it_and_less_left_is_told_anew(
    make_budget: Callable[..., Budget],
    make_rule: Make,
    hook: Channel,
    spender: Spender,
    clock: Clock,
) -> None:
    budget = make_budget(thresholds_percent=[80])
    make_rule(name="spent", kind="budget_used", scope="budget", channels=["hook"])
    spender.spends(85)
    clock.looks(2)
    until = clock.now + timedelta(days=2)
    # the service takes a raise only until a time that is to come, by the real clock
    mine = Budget.objects.filter(pk=budget.pk)
    mine.update(raised_to_nanousd=500 * CENT, raised_until=until)
    clock.looks(2)
    (episode,) = Episode.objects.all()
    assert episode.resolved_why == "Its period is over, or there is more of it now."
    clock.pass_s(2 * 86_400)
    clock.looks(1)
    assert fired() == [80, 80]


def test_who_passes_a_threshold_after_many_others_is_told_and_nobody_is_dropped(
    make_budget: Callable[..., Budget],
    make_rule: Make,
    hook: Channel,
    spender: Spender,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("controlplane.selectors.budget_places.MOST_ACCOUNTS", 2)
    monkeypatch.setattr("controlplane.alerting.base.MOST_PLACES", 2)
    budget = make_budget("end_user", thresholds_percent=[50, 100])
    make_rule(name="spent", kind="budget_used", scope="budget", channels=["hook"], threshold=100)
    for user, cents in (("ann", 150), ("bob", 140), ("cid", 130), ("dee", 120), ("eve", 100)):
        spender.spends(cents, end_user=user)
    spender.spends(99, end_user="fay")
    clock.looks(4)
    held = Episode.objects.exclude(state="resolved")
    assert (held.count(), Episode.objects.count()) == (5, 5)
    spender.spends(1, end_user="fay")
    clock.looks(4)
    assert (held.count(), Episode.objects.count()) == (6, 6)
    Budget.objects.filter(pk=budget.pk).update(amount_nanousd=1_000 * CENT)
    clock.looks(1)
    assert held.count() == 0


def test_thresholds_from_the_rules_graver_one_on_are_critical_from_their_beginning(
    make_budget: Callable[..., Budget], make_rule: Make, spender: Spender, clock: Clock
) -> None:
    make_budget()
    make_rule(name="spent", kind="budget_used", scope="budget", critical_at=80)
    spender.spends(85)
    clock.looks(2)
    spender.spends(20)
    clock.looks(2)
    grave = Episode.objects.order_by("threshold").values_list("threshold", "severity")
    assert list(grave) == [(50.0, "warning"), (80.0, "critical"), (100.0, "critical")]
