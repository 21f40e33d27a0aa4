"""Repricing and corrections: beside the ledger, once, and in all that sums it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone
from django.utils.timezone import get_fixed_timezone

from controlplane.errors import Conflict, Invalid
from controlplane.models import (
    AuditEntry,
    BudgetAccount,
    Charge,
    Repricing,
    RepricingState,
    Request,
    SpendCorrection,
    UsageDay,
    UsageHour,
    UsageMinute,
    UsageNamed,
    UsagePriced,
)
from controlplane.selectors.reconciliation import read_ledger
from controlplane.services.actors import Actor, Via, system_actor
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.budgets import create_budget
from controlplane.services.corrections import EARLIEST, MOST_NANOUSD, create_correction
from controlplane.services.models import create_model
from controlplane.services.organisations import create_organisation
from controlplane.services.prices import create_price, update_price
from controlplane.services.repricings import (
    book_repricing,
    discard_repricing,
    request_repricing,
    step,
    take_next,
)
from controlplane.services.usage import record_usage
from controlplane.tasks.prices import reprice
from inference.contract.events import Usage
from inference.contract.kinds import ChargeKind
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

# the first moment there is would be before it in UTC
EASTERN = get_fixed_timezone(600)
PER_TOKEN = 1_000_000  # as nano-USD a million tokens: one nano-dollar a token
ROLL_UPS = (UsageMinute, UsageHour, UsageDay, UsageNamed)


class World:
    """An organisation with a priced model and requests of it in the ledger."""

    def __init__(self) -> None:
        self.actor = system_actor("fina", via=Via.API, reason="the list was wrong")
        self.home = create_organisation(self.actor, name="Home")
        self.model = create_model(self.actor, organisation=self.home, name="m")
        self.now = timezone.now()
        self.numbers = 0

    def record(self, *charges: dict[str, Any], is_late: bool = False, **origin: Any) -> None:
        """One request with these attempts, a minute ago; a late one is recorded only now."""
        self.numbers += 1
        at = int((self.now - timedelta(minutes=1)).timestamp() * 1000)
        made = [
            make_charge(attempt=number, model_id=self.model.pk, **one)
            for number, one in enumerate(charges, start=1)
        ]
        told = make_origin(organisation_id=self.home.pk, **origin)
        end = make_end(self.numbers, at_ms=at, received_at_ms=at, origin=told, charges=tuple(made))
        record_usage([end], now=timezone.now() if is_late else self.now)

    def reprice(self, **scope: str) -> Repricing:
        """Sum it, to the end."""
        job = request_repricing(
            self.actor,
            organisation=self.home,
            since=self.now - timedelta(hours=1),
            until=self.now,
            scope=scope,
        )
        while step(job.pk):
            pass
        job.refresh_from_db()
        return job

    def book(self, job: Repricing) -> Repricing:
        book_repricing(self.actor, repricing_id=job.pk)
        while step(job.pk):
            pass
        job.refresh_from_db()
        return job


@pytest.fixture
def world(db: None) -> World:
    return World()


KNOWN = {"usage": Usage(10, 5), "cost_nanousd": 100, "cost_max_nanousd": 100}
UNKNOWN = {"usage": Usage(10, 5), "cost_nanousd": None, "cost_max_nanousd": None, "price": None}


def priced(world: World, amount: int = 2) -> None:
    """A price of so many nano-dollars a token, since yesterday."""
    create_price(
        world.actor,
        model=world.model,
        input_nanousd_per_mtok=amount * PER_TOKEN,
        output_nanousd_per_mtok=amount * PER_TOKEN,
        effective_from=world.now - timedelta(days=1),
    )


def sums() -> list[tuple[int, int, int, int]]:
    """Of each roll-up, for all of its rows that add up: cost, unknown, requests, attempts."""
    found = []
    for kind in ROLL_UPS:
        rows = kind.objects.all()
        if kind in (UsageHour, UsageDay):
            rows = rows.filter(dimension="project")
        if kind is UsageNamed:
            rows = rows.filter(dimension="tag")
        values = rows.values_list("cost_nanousd", "unknown_cost", "requests", "attempts")
        found.append(tuple(map(sum, zip(*values, strict=True))))
    return found


def by_version() -> tuple[int, int, int]:
    """Of the roll-up by price version: cost, attempts of unknown cost, attempts."""
    rows = UsagePriced.objects.values_list("cost_nanousd", "unpriced", "attempts")
    cost, unpriced, attempts = map(sum, zip(*rows, strict=True))
    return cost, unpriced, attempts


def test_nothing_is_booked_until_somebody_says_so_and_then_once(world: World) -> None:
    priced(world)
    world.record(KNOWN, tags=("a",))
    before = list(Charge.objects.values())
    job = world.reprice()
    assert (job.state, job.done, job.corrections) == (RepricingState.READY, 1, 0)
    total = job.sums["total"]
    assert (total["before_nanousd"], total["after_nanousd"], total["changed"]) == (100, 30, 1)
    assert list(job.sums["by_team"]) == ["team_1"]
    assert list(job.sums["by_model"]) == [world.model.pk]
    assert SpendCorrection.objects.count() == 0
    done = world.book(job)
    assert (done.state, done.corrections, done.corrected_nanousd) == ("done", 1, -70)
    assert sums() == [(30, 0, 1, 1)] * 4
    assert by_version() == (30, 0, 1)
    assert list(Charge.objects.values()) == before
    with pytest.raises(Conflict):
        book_repricing(world.actor, repricing_id=job.pk)
    # asked again, there is nothing left to correct
    again = world.book(world.reprice())
    assert (again.corrections, again.sums["total"]["before_nanousd"]) == (0, 30)
    actions = AuditEntry.objects.filter(noun="repricings").values_list("action", flat=True)
    assert sorted(actions) == ["book", "book", "create", "create"]


def test_what_is_booked_is_what_was_looked_at(world: World) -> None:
    priced(world)
    world.record(KNOWN)
    first, second = world.reprice(), world.reprice()
    world.record(KNOWN, is_late=True)
    book_repricing(world.actor, repricing_id=second.pk)
    with pytest.raises(Conflict, match="Another"):
        book_repricing(world.actor, repricing_id=first.pk)
    while step(second.pk):
        pass
    # the late one wasn't looked at, and the first one's sums aren't true any more
    assert SpendCorrection.objects.count() == 1
    again = world.book(first)
    total = again.sums["total"]
    assert (again.state, again.corrections, again.booked_by) == (RepricingState.READY, 0, "")
    assert (total["before_nanousd"], total["changed"], "again" in again.sums) == (30, 0, False)
    assert "look at the sums again" in again.detail
    done = world.book(again)
    assert (done.state, done.corrections, done.detail) == (RepricingState.DONE, 0, "")
    with pytest.raises(Invalid):
        request_repricing(
            world.actor,
            organisation=world.home,
            since=world.now,
            until=timezone.now() + timedelta(minutes=1),
            scope={},
        )


def test_one_that_cannot_be_done_fails_and_all_others_have_their_turn(world: World) -> None:
    world.record(KNOWN)
    Request.objects.update(endpoint="of another version")
    bad, good, last = (
        request_repricing(
            world.actor,
            organisation=world.home,
            since=world.now - timedelta(hours=hours),
            until=world.now - timedelta(hours=hours - 1),
            scope={},
        )
        for hours in (1, 2, 3)
    )
    assert [take_next() for _ in range(4)] == [bad.pk, good.pk, last.pk, bad.pk]
    assert reprice() == good.pk
    assert reprice() == last.pk
    with pytest.raises(ValueError, match="of another version"):
        reprice()
    assert reprice() is None
    states = Repricing.objects.order_by("created_at").values_list("state", flat=True)
    assert list(states) == ["failed", "ready", "ready"]


def test_an_unknown_cost_becomes_known_where_it_was_counted(world: World) -> None:
    world.record(UNKNOWN, {**UNKNOWN, "pool_id": "pool_2"}, tags=("a", "b"))
    assert [one[:2] for one in sums()] == [(0, 1)] * 4
    nothing = world.reprice()
    assert (nothing.sums["total"]["unknown_after"], nothing.sums["total"]["changed"]) == (2, 0)
    priced(world)
    job = world.book(world.reprice())
    assert (job.corrections, job.corrected_nanousd) == (2, 60)
    assert sums() == [(60, 0, 1, 2)] * 4
    # the books agree: the ledger with its corrections, and the minutes
    ended = (world.now - timedelta(minutes=1)).replace(second=0, microsecond=0)
    books = read_ledger(ended, ended + timedelta(minutes=1))
    assert books["ledger"] == books["minutes"]
    assert books["ledger"][world.home.pk]["cost_nanousd"] == 60
    by_pool = UsageDay.objects.filter(dimension="pool").order_by("value")
    assert list(by_pool.values_list("value", "cost_nanousd", "unknown_cost")) == [
        ("pool_1", 30, 0),
        ("pool_2", 30, 0),
    ]


def test_what_became_free_is_known_without_costing_anything(world: World) -> None:
    world.record(UNKNOWN)
    priced(world, amount=0)
    job = world.book(world.reprice())
    assert (job.corrections, job.corrected_nanousd) == (1, 0)
    assert sums()[0] == (0, 0, 1, 1)
    assert world.book(world.reprice()).corrections == 0


def test_the_book_is_that_of_when_it_was_asked_and_scopes_are_kept(world: World) -> None:
    priced(world)
    world.record(KNOWN)
    world.record(KNOWN, team_id="team_2")
    world.record({**KNOWN, "pool_id": "pool_2"})
    job = world.reprice(team_id="team_1", pool_id="pool_1")
    price = world.model.price
    assert price is not None
    changes = {
        "input_nanousd_per_mtok": 9 * PER_TOKEN,
        "effective_from": world.now - timedelta(hours=2),
    }
    update_price(world.actor, price_id=price.pk, changes=changes)
    assert world.book(job).corrected_nanousd == -70
    assert SpendCorrection.objects.get().team_id == "team_1"


@pytest.mark.parametrize(
    ("charge", "cost"),
    [
        ({"kind": ChargeKind.ESTIMATED, "usage": Usage(), "error_code": "upstream_failed"}, 0),
        ({"kind": ChargeKind.ESTIMATED, "usage": Usage()}, 7),
        ({"kind": ChargeKind.CUT, "usage": Usage(10, None)}, 27),
        ({"usage": Usage(1_000, 10, 2_000, 40)}, 1_047),
    ],
    ids=["failed", "not reported", "cut", "beyond prompt and completion"],
)
def test_an_attempt_costs_what_a_gateway_would_have_booked(
    world: World, charge: dict[str, Any], cost: int
) -> None:
    create_price(
        world.actor,
        model=world.model,
        input_nanousd_per_mtok=2 * PER_TOKEN,
        output_nanousd_per_mtok=3 * PER_TOKEN,
        cached_input_nanousd_per_mtok=PER_TOKEN,
        reasoning_output_nanousd_per_mtok=4 * PER_TOKEN,
        request_nanousd=7,
        effective_from=world.now - timedelta(days=1),
    )
    world.record({"cost_nanousd": 5_000, "cost_max_nanousd": 5_000, **charge})
    assert world.reprice().sums["total"]["after_nanousd"] == cost


def test_budgets_are_told_and_filled_with_what_was_corrected(world: World) -> None:
    scopes = [{"subject": "team", "subject_id": None}, {"subject": "model", "subject_id": None}]
    told = {"scopes": scopes, "amount_nanousd": 1_000, "period": "month"}
    budget = create_budget(world.actor, organisation=world.home, name="b", **told)
    begin_to_count(budget, world.now)
    world.record(KNOWN)
    world.record(UNKNOWN)
    priced(world)
    world.book(world.reprice())

    def account() -> tuple[int, int, int]:
        row = BudgetAccount.objects.get()
        return row.spent_nanousd, row.attempts, row.unknown_cost

    assert account() == (60, 2, 0)
    begin_to_count(budget, world.now)  # read from the ledger anew: the same
    assert account() == (60, 2, 0)


def test_a_correction_by_hand_needs_a_reason_and_moves_all_it_belongs_to(world: World) -> None:
    project = world.home.projects.get()
    budget = create_budget(
        world.actor,
        organisation=world.home,
        name="b",
        scopes=[{"subject": "project", "subject_id": project.pk}],
        amount_nanousd=1_000,
        period="month",
    )
    begin_to_count(budget, world.now)
    nobody = system_actor("fina", via=Via.API)
    asked = {"organisation": world.home, "subject": "project", "subject_id": project.name}
    with pytest.raises(Invalid):
        create_correction(nobody, amount_nanousd=-40, **asked)
    with pytest.raises(Invalid):
        create_correction(world.actor, amount_nanousd=0, **asked)
    bounds = [
        ("amount_nanousd", {"amount_nanousd": MOST_NANOUSD + 1}),
        ("amount_nanousd", {"amount_nanousd": -MOST_NANOUSD - 1}),
        ("at", {"amount_nanousd": 1, "at": timezone.now() + timedelta(hours=1)}),
        ("at", {"amount_nanousd": 1, "at": EARLIEST - timedelta(seconds=1)}),
        ("at", {"amount_nanousd": 1, "at": datetime.min.replace(tzinfo=EASTERN)}),
    ]
    for name, values in bounds:
        with pytest.raises(Invalid) as refused:
            create_correction(world.actor, **asked, **values)
        assert list(refused.value.fields) == [name]
    row = create_correction(world.actor, amount_nanousd=-40, **asked)
    assert BudgetAccount.objects.get().spent_nanousd == -40
    begin_to_count(budget, timezone.now())
    assert BudgetAccount.objects.get().spent_nanousd == -40
    by_team = UsageDay.objects.get(dimension="team")
    assert (by_team.value, by_team.cost_nanousd) == (project.team_id, -40)
    assert AuditEntry.objects.filter(noun="corrections", object_id=row.pk).exists()
    assert Request.objects.count() == 0


def test_a_correction_is_never_changed_or_removed(world: World) -> None:
    create_correction(
        world.actor, organisation=world.home, amount_nanousd=5, subject="organisation"
    )
    for statement in ("UPDATE {} SET amount_nanousd = 0", "DELETE FROM {}"):
        with (
            pytest.raises(DatabaseError, match="never changed"),
            transaction.atomic(),
            connection.cursor() as cursor,
        ):
            cursor.execute(statement.format(SpendCorrection._meta.db_table))


def test_a_discarded_repricing_books_nothing(world: World, actor: Actor) -> None:
    priced(world)
    world.record(KNOWN)
    job = world.reprice()
    discard_repricing(world.actor, repricing_id=job.pk)
    assert not step(job.pk)
    with pytest.raises(Conflict):
        book_repricing(world.actor, repricing_id=job.pk)
    with pytest.raises(Invalid):
        request_repricing(
            actor,
            organisation=world.home,
            since=datetime(2026, 1, 1, tzinfo=UTC),
            until=world.now,
            scope={},
        )
