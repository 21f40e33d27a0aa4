"""What pages say of a budget that acts: in its list, on a request's page, in Explain, in alerts."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from redis import Redis

from controlplane.compiler import budget_record
from controlplane.decisions.budget_effects import Effect, effects_of
from controlplane.models import Budget, Episode, Role
from controlplane.selectors.budget_effects import list_refusing
from controlplane.services.actors import Actor
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.budgets import create_budget, delete_budget, update_budget
from controlplane.services.keys import create_key
from controlplane.services.usage import record_usage
from inference.contract.kinds import Outcome
from inference.decisions.budgets import Account, period_of
from inference.decisions.rules import zone_of
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import inputs_of, words_of
from tests.controlplane.ledger_events import make_charge, make_end, make_origin
from tests.controlplane.replayed import make_route

pytestmark = pytest.mark.slow

DOLLAR = 10**9


@pytest.fixture
def finance(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("fin", Role.FINANCE)


@pytest.fixture
def small(finance: Reader, actor: Actor) -> Budget:
    told = {"scopes": [{"subject": "organisation", "subject_id": None}], "period": "day"}
    row = create_budget(
        actor, organisation=finance.organisation, name="small", amount_nanousd=DOLLAR // 100, **told
    )
    begin_to_count(row, timezone.now())
    return row


def ended(reader: Reader, number: int, *, minutes_ago: int = 0, **changes: Any) -> str:
    """Record a request; its id."""
    at = int((timezone.now() - timedelta(minutes=minutes_ago)).timestamp() * 1000)
    told = {"at_ms": at, "received_at_ms": at, **changes}
    end = make_end(number, origin=make_origin(organisation_id=reader.organisation.pk), **told)
    record_usage([end], now=timezone.now())
    return end.event_id


def refused(reader: Reader, number: int, budget_id: str, *, minutes_ago: int = 0) -> str:
    return ended(
        reader,
        number,
        minutes_ago=minutes_ago,
        outcome=Outcome.REFUSED,
        http_status=429,
        error_code="budget_exceeded",
        charges=(),
        decision={"budgets": {"kept": [budget_id], "refused": budget_id}},
    )


def test_a_budget_that_refuses_is_told_to_though_little_of_it_is_spent(
    finance: Reader, small: Budget
) -> None:
    assert "Ok" in words_of(finance.page("/budgets/"))
    refused(finance, 1, small.pk, minutes_ago=20)
    assert "Ok" in words_of(finance.page("/budgets/"))
    refused(finance, 2, small.pk)
    assert "Refusing" in words_of(finance.page("/budgets/"))
    page = words_of(finance.page(f"/budgets/{small.pk}/"))
    assert "Refusing" in page
    assert re.search(r"Did refused [12], last at", page)


def test_an_effect_is_counted_by_hour_whatever_stands_in_the_record() -> None:
    ends = [
        make_end(1, received_at_ms=3_599_999, decision={"budgets": {"refused": "bud_1"}}),
        make_end(2, received_at_ms=1, decision={"budgets": {"refused": "bud_1"}}),
        make_end(3, received_at_ms=3_600_000, decision={"budgets": {"refused": "bud_1"}}),
        make_end(4, received_at_ms=2, decision={"budgets": {"throttled": ["bud_1", "bud_1", 7]}}),
        make_end(5, decision={"budgets": "none"}),
        make_end(6, decision={"budgets": {"refused": None, "cheaper": {"a": 1}}}),
        make_end(7, decision=None),
    ]
    assert [(one.effect, one.hour_ms, one.requests, one.last_ms) for one in effects_of(ends)] == [
        (Effect.REFUSED, 0, 2, 3_599_999),
        (Effect.REFUSED, 3_600_000, 1, 3_600_000),
        (Effect.THROTTLED, 0, 1, 2),
    ]


def test_a_refused_request_names_its_budget_and_how_that_stands(
    finance: Reader, small: Budget, actor: Actor
) -> None:
    ended(finance, 1, charges=(make_charge(cost_nanousd=DOLLAR // 1000),))
    request_id = refused(finance, 2, small.pk)
    page = finance.page(f"/requests/{request_id}/")
    assert f'href="/budgets/{small.pk}/"' in page
    words = words_of(page)
    assert "Refused by the budget small : now $0.001 of $0.01 is spent; it starts anew" in words
    delete_budget(actor, budget_id=small.pk)
    words = words_of(finance.page(f"/requests/{request_id}/"))
    assert f"Refused by the budget {small.pk} (gone since, or not yours to see)" in words


def test_a_key_that_is_held_back_says_so_to_whom_it_is_of(
    make_reader: Callable[..., Reader], finance: Reader, small: Budget, actor: Actor
) -> None:
    update_budget(actor, budget_id=small.pk, changes={"owner": "Finance, fin@example.org"})
    key = create_key(actor, organisation=finance.organisation, name="app").key
    assert "Requests are refused" not in words_of(finance.page(f"/keys/{key.pk}/"))
    refused(finance, 1, small.pk)
    words = words_of(finance.page(f"/keys/{key.pk}/"))
    assert (
        "Requests are refused by the budget small : too little is left for some of them." in words
    )
    assert "Its owner is Finance, fin@example.org." in words
    ended(finance, 2, charges=(make_charge(cost_nanousd=DOLLAR),))
    words = words_of(finance.page(f"/keys/{key.pk}/"))
    assert "Requests are refused by the budget small : it is used up." in words


def test_the_overview_says_which_budgets_refuse(finance: Reader, small: Budget) -> None:
    assert not list_refusing(finance.organisation, timezone.now())
    refused(finance, 1, small.pk, minutes_ago=20)
    assert not list_refusing(finance.organisation, timezone.now())
    refused(finance, 2, small.pk)
    (one,) = list_refusing(finance.organisation, timezone.now())
    assert (one.id, one.name) == (small.pk, "small")
    needs = finance.client.get("/api/v1/attention/").json()["needs"]
    told = next(need for need in needs if need["kind"] == "budget")
    assert (told["title"], told["budget_id"]) == ("The budget small refuses requests", small.pk)


def test_one_that_rolls_has_a_window_and_no_even_pace(finance: Reader, actor: Actor) -> None:
    row = create_budget(
        actor,
        organisation=finance.organisation,
        name="rolls",
        scopes=[{"subject": "organisation", "subject_id": None}],
        amount_nanousd=DOLLAR,
        period="day",
        is_rolling=True,
    )
    begin_to_count(row, timezone.now())
    ended(finance, 1, minutes_ago=60, charges=(make_charge(cost_nanousd=DOLLAR // 2),))
    ended(finance, 2, minutes_ago=60 * 30, charges=(make_charge(cost_nanousd=DOLLAR),))
    words = words_of(finance.page(f"/budgets/{row.pk}/"))
    assert "$0.50 of $1.00 spent in any 24 hours." in words
    assert "gives way next" in words
    assert "even pace" not in words
    assert "rolls $1.00 in any 24 hours the whole organisation $0.50 $0.50" in words_of(
        finance.page("/budgets/")
    )


def test_the_axis_of_a_small_sum_has_digits_that_differ(finance: Reader, small: Budget) -> None:
    ended(finance, 1, charges=(make_charge(cost_nanousd=DOLLAR // 10_000),))
    found = re.search(r'data-figure="([^"]+)"', finance.page(f"/budgets/{small.pk}/"))
    assert found is not None
    layout = json.loads(found[1].replace("&quot;", '"'))["layout"]
    assert layout["yaxis"]["tickformat"] == ",.4~f"


def test_explain_goes_by_what_is_left_in_the_store(
    finance: Reader, make_reader: Callable[..., Reader], actor: Actor, state_store: Redis
) -> None:
    operator = make_reader("ines", Role.OPERATOR)
    ids = make_route(actor, operator.organisation)
    scopes = [{"subject": "organisation", "subject_id": None}]
    told = {"scopes": scopes, "period": "month", "unknown_price": "allow"}
    row = create_budget(
        actor, organisation=operator.organisation, name="all", amount_nanousd=DOLLAR, **told
    )
    record = budget_record(row)
    zone = zone_of(operator.organisation.time_zone)
    period = period_of(record.period, zone, timezone.now().timestamp())
    key = Account(record, (operator.organisation.pk,), period).key
    state_store.hset(key, mapping={"w": "1", "g": str(DOLLAR // 4), "l": "0"})
    form = inputs_of(operator.page("/explain/?model=chat"))
    asked = {**form, "caller": f"key:key_{ids['key']}", "prompt": "x"}
    page = operator.client.post("/explain/", asked).content.decode()
    assert "$1.00 a month $0.75 $0.00" in words_of(page)
    assert f'href="/budgets/{row.pk}/"' in page
    assert "what is held for requests under way counts as left" in page


def test_an_alert_leads_to_its_budget(
    make_reader: Callable[..., Reader], actor: Actor, finance: Reader
) -> None:
    admin = make_reader("ada", Role.ADMIN)
    scopes = [{"subject": "organisation", "subject_id": None}]
    row = create_budget(
        actor,
        organisation=admin.organisation,
        name="all",
        scopes=scopes,
        amount_nanousd=DOLLAR,
        period="day",
    )
    episode = Episode.objects.create(
        organisation=admin.organisation,
        name="Budgets",
        kind="budget_used",
        scope="budget",
        subject_id=f"{row.pk}:abc:80",
        subject_name="budget all",
        severity="warning",
        state="open",
        threshold=80,
        window_s=0,
        value=81,
        peak=81,
        opened_at=timezone.now(),
        seen_at=timezone.now(),
    )
    assert f'href="/budgets/{row.pk}/"' in admin.page(f"/alerts/{episode.pk}/")
    delete_budget(actor, budget_id=row.pk)
    assert f'href="/budgets/{row.pk}/"' not in admin.page(f"/alerts/{episode.pk}/")
