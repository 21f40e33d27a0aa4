"""The pages of budgets: made by name and reviewed, raised for a time, told as they stand."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from redis import Redis

from controlplane.models import AuditEntry, Budget, BudgetAccount, Key, Role
from controlplane.services.actors import Actor
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.budgets import create_budget
from controlplane.services.keys import create_key
from controlplane.services.usage import record_usage
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, words_of
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

pytestmark = pytest.mark.slow

DOLLAR = 10**9
FIELDS = {"subject_1": "key", "amount_nanousd": "9000", "period": "month"}


@pytest.fixture
def finance(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("fin", Role.FINANCE)


@pytest.fixture
def key(finance: Reader, actor: Actor) -> Key:
    return create_key(actor, organisation=finance.organisation, name="app").key


def budget(reader: Reader, actor: Actor, name: str, **fields: Any) -> Budget:
    told = {
        "scopes": [{"subject": "organisation", "subject_id": None}],
        "amount_nanousd": 10 * DOLLAR,
        "period": "day",
        **fields,
    }
    return create_budget(actor, organisation=reader.organisation, name=name, **told)


def spend(
    reader: Reader, number: int, dollars: float | None, days_ago: float = 0, **origin: Any
) -> None:
    now = timezone.now() - timedelta(days=days_ago)
    at = int(now.timestamp() * 1000)
    cost = None if dollars is None else int(dollars * DOLLAR)
    told = make_origin(organisation_id=reader.organisation.pk, **origin)
    end = make_end(
        number,
        at_ms=at,
        received_at_ms=at,
        origin=told,
        charges=(make_charge(cost_nanousd=cost),),
    )
    record_usage([end], now=timezone.now())


def test_a_budget_is_made_by_name_reviewed_and_saved(finance: Reader, key: Key) -> None:
    assert "No budget yet" in words_of(finance.page("/budgets/"))
    flow = Flow(finance.client, "/budgets/new/")
    flow.send("review", name="of app", which_1="app", subject_2="end_user", **FIELDS)
    assert "Allows $9000.00 a month for key app and each end user" in flow.words
    assert "For key app and each end user" in flow.words
    assert "Nothing of it was in the ledger in the last whole period" in flow.words
    assert "End users and tags are what callers write" in flow.words
    call = flow.page.replace("&quot;", '"')
    assert '"amount_nanousd": "9000000000000"' in call
    assert '"subject": "key", "subject_id": "key_' in call
    assert Budget.objects.count() == 0
    assert "Give a reason" in words_of(flow.send("save").content.decode())
    assert flow.send("save", reason="plan").status_code == 302
    made = Budget.objects.get()
    assert made.scopes == [
        {"subject": "key", "subject_id": key.pk},
        {"subject": "end_user", "subject_id": None},
    ]
    assert made.thresholds_percent == [50, 80, 100]
    page = words_of(finance.page("/budgets/"))
    assert "of app $9,000.00 a month key app and each end user" in page
    detail = words_of(finance.page(f"/budgets/{made.pk}/"))
    assert "The ledger is being read for it." in detail
    assert "created" in words_of(finance.page(f"/budgets/{made.pk}/?tab=activity")).lower()
    shown = words_of(finance.page(f"/keys/{key.pk}/"))
    assert "of app $9000.00 a month for key app and each end user" in shown


def test_what_is_wrong_is_said_at_its_field(finance: Reader, key: Key) -> None:
    flow = Flow(finance.client, "/budgets/new/")
    flow.send("review", name="x", subject_2="tag", which_2="a b", **FIELDS)
    assert "A tag must match" in flow.words
    assert 'value="a b"' in flow.page
    flow.send("review", name="x", which_1="none", subject_2="", which_2="", **FIELDS)
    assert "There is no key of this name or id." in flow.words
    flow.send("review", which_1="app", thresholds_percent="many")
    assert "Give whole numbers, with commas between them." in flow.words
    flow.send("review", thresholds_percent="80 %, 20", subject_2="key")
    assert "Each kind of thing can be named once." in flow.words
    flow.send("review", subject_2="")
    assert "20 %, 80 %" in flow.words


def test_a_review_says_what_the_last_whole_period_would_have_meant(finance: Reader) -> None:
    spend(finance, 1, 8, days_ago=1)
    spend(finance, 2, 5, days_ago=1, end_user="ann")
    flow = Flow(finance.client, "/budgets/new/")
    told = {"name": "x", "period": "day", "subject_1": "organisation"}
    flow.send("review", amount_nanousd="12", **told)
    assert "it would have blocked, first by" in flow.words
    assert "$13.00 was spent" in flow.words
    flow.send("review", amount_nanousd="14", **told)
    assert "it would not have blocked: at most $13.00 was spent" in flow.words
    flow.send("review", amount_nanousd="5", **{**told, "subject_1": "end_user"})
    assert "it would have blocked: $5.00 was spent" in flow.words


def test_an_edit_shows_what_differs_and_can_be_reverted(finance: Reader, actor: Actor) -> None:
    row = budget(finance, actor, "all")
    flow = Flow(finance.client, f"/budgets/{row.pk}/edit/")
    flow.send("review", amount_nanousd="20", subject_1="model", grace_percent="5")
    assert "$10.00" in flow.words
    assert "$20.00" in flow.words
    assert "the whole organisation" in flow.words
    assert "each model" in flow.words
    assert "What was spent in the present period counts" in flow.words
    assert flow.send("save", reason="more").status_code == 302
    entry = AuditEntry.objects.filter(noun="budgets").latest("id")
    assert set(entry.after) == {"amount_nanousd", "scopes", "grace_percent"}
    told = words_of(finance.page(f"/audit/{entry.pk}/"))
    assert "Scope model" in told
    assert "$20.00" in told
    back = Flow(finance.client, f"/budgets/{row.pk}/edit/?restore={entry.pk}")
    assert 'value="10.00"' in back.page
    back.send("review")
    assert back.send("save", reason="back").status_code == 302
    row.refresh_from_db()
    assert row.scopes == [{"subject": "organisation", "subject_id": None}]


def test_a_raise_is_reviewed_and_has_an_end(finance: Reader, actor: Actor) -> None:
    row = budget(finance, actor, "all")
    flow = Flow(finance.client, f"/budgets/{row.pk}/raise/")
    flow.send("review", raised_to_nanousd="30")
    assert "A raise has an end; say when." in flow.words
    flow.send("review", raised_to_nanousd="30", raised_until="2100-01-01T10:00")
    assert "At 1 Jan 2100 10:00 the budget's own amount holds again" in flow.words
    assert "Until not set 1 Jan 2100 10:00" in flow.words
    assert f"/api/v1/budgets/{row.pk}/raise/" in flow.page
    assert "Give a reason" in words_of(flow.send("save").content.decode())
    assert flow.send("save", reason="launch").status_code == 302
    detail = words_of(finance.page(f"/budgets/{row.pk}/"))
    assert "Raised to $30.00 until 1 Jan 2100 10:00" in detail
    flow = Flow(finance.client, f"/budgets/{row.pk}/raise/")
    flow.send("review", raised_to_nanousd="", raised_until="")
    assert "The raise ends now." in flow.words
    assert flow.send("save", reason="over").status_code == 302
    assert Budget.objects.get().raised_until is None


def test_a_page_tells_what_came_late_and_went_past_the_amount(
    finance: Reader, actor: Actor, state_store: Redis
) -> None:
    row = budget(finance, actor, "all")
    begin_to_count(row, timezone.now())
    spend(finance, 1, 10)
    assert "taken for dead" not in words_of(finance.page(f"/budgets/{row.pk}/"))
    told = {"g": 10 * DOLLAR, "late": DOLLAR, "past": DOLLAR // 2}
    state_store.hset(BudgetAccount.objects.get().key, mapping=told)
    assert "up to $0.50 went past the amount" in words_of(finance.page(f"/budgets/{row.pk}/"))


def test_a_page_tells_how_a_budget_stands_and_where_it_goes(finance: Reader, actor: Actor) -> None:
    row = budget(finance, actor, "all")
    begin_to_count(row, timezone.now())
    spend(finance, 1, 8.5)
    spend(finance, 2, None)
    page = finance.page(f"/budgets/{row.pk}/")
    words = words_of(page)
    assert "Over 80 %" in words
    assert "$8.50 and 1 of 2 of unknown cost" in words
    assert "Left $1.50" in words
    assert "$8.50 of $10.00 spent" in words
    assert "data-figure" in page
    spend(finance, 3, 2)
    assert "Blocked" in words_of(finance.page(f"/budgets/{row.pk}/"))
    assert "all $10.00 a day the whole organisation $10.50 $0.00 Blocked" in words_of(
        finance.page("/budgets/")
    )
    assert "$10.50" in words_of(finance.page("/usage/?measure=cost&group_by=project&range=24h"))


def test_those_counted_apart_are_told_by_who_spent_the_most(finance: Reader, actor: Actor) -> None:
    scopes = [{"subject": "end_user", "subject_id": None}]
    row = budget(finance, actor, "each", scopes=scopes, action="notify")
    begin_to_count(row, timezone.now())
    spend(finance, 1, 3, end_user="ann")
    spend(finance, 2, 11, end_user="bob")
    words = words_of(finance.page(f"/budgets/{row.pk}/"))
    assert "2 of 2, $14.00 in all" in words
    assert words.index("end user bob 110 % $11.00") < words.index("end user ann 30 % $3.00")
    assert "Over budget" in words


def test_a_budget_is_removed_by_its_name(finance: Reader, actor: Actor) -> None:
    row = budget(finance, actor, "all")
    flow = Flow(finance.client, f"/budgets/{row.pk}/delete/")
    assert "The ledger keeps what was spent." in flow.words
    flow.send("save", confirm="all", reason="over")
    assert Budget.objects.count() == 0


def test_who_only_reads_has_no_buttons(make_reader: Callable[..., Reader], actor: Actor) -> None:
    reader = make_reader("vi", Role.VIEWER)
    row = budget(reader, actor, "all")
    assert "Raise until" not in reader.page(f"/budgets/{row.pk}/")
    assert reader.client.get(f"/budgets/{row.pk}/raise/").status_code == 403
    assert reader.client.get("/budgets/new/").status_code == 403


def test_a_budget_that_rolls_is_foretold_a_quarter_of_its_length_ahead(
    finance: Reader, actor: Actor, state_store: Redis
) -> None:
    made = budget(finance, actor, "rolling", is_rolling=True)
    begin_to_count(made, timezone.now())
    for number in range(1, 8):
        spend(finance, number, 0.5, days_ago=number / 48)
    words = words_of(finance.page(f"/budgets/{made.pk}/"))
    assert "Forecast, in 6 h" in words
    assert "Used up not in the next 6 h at this pace" in words
    told = finance.client.get(f"/api/v1/budgets/{made.pk}/status/").json()["accounts"][0]
    assert int(told["forecast"]["at_end_nanousd"]) > int(told["spent_nanousd"])
