"""Budgets that roll: counted by the ledger in stretches, and told to the store as such."""

import time
from datetime import timedelta
from typing import Any

import pytest
from redis import Redis

from controlplane.bridge.budget_status import read_standings, read_status
from controlplane.compiler import budget_record
from controlplane.models import Budget, BudgetAccount
from controlplane.selectors.access import Access
from controlplane.selectors.budget_places import list_near, used_percent
from controlplane.services.actors import Actor
from controlplane.services.budgets import update_budget
from controlplane.services.organisations import create_organisation
from inference.decisions.budgets import FOREVER, ROLLING, Account
from tests.controlplane.bridge.budget_world import World

pytestmark = pytest.mark.slow

HOUR = timedelta(hours=1)


@pytest.fixture
def world(transactional_db: None, state_store: Redis, actor: Actor) -> World:
    return World(state_store, actor, create_organisation(actor, name="Home"))


def rolling(world: World, period: str = "day", **values: Any) -> tuple[Budget, Account]:
    budget = world.budget(period=period, is_rolling=True, **values)
    return budget, Account(budget_record(budget), (world.home.pk,), FOREVER)


def steps(world: World, account: Account) -> list[int]:
    fields = world.store.hgetall(account.key)
    found = [int(value) for name, value in fields.items() if name.startswith(b"b:")]
    return sorted(one for one in found if one)


def whole(world: World) -> Access:
    return Access(is_platform_admin=True)


def test_what_counts_is_the_last_24_hours_at_any_moment(world: World, actor: Actor) -> None:
    world.now -= timedelta(days=3)
    budget, account = rolling(world)
    world.tick()
    world.record(100)
    world.now += 12 * HOUR
    world.record(200)
    world.now += 13 * HOUR
    status = read_status(whole(world), budget, world.now, top=5)
    assert status.accounts[0].balance.spent_nanousd == 200
    assert status.totals is not None
    assert status.totals.spent_nanousd == 200
    assert (status.previous.spent_nanousd if status.previous else None) == 100
    assert read_standings(whole(world), [budget], world.now)[budget.pk].balance.spent_nanousd == 200
    update_budget(actor, budget_id=budget.pk, changes={"amount_nanousd": 250})
    (near, *_) = list_near(world.home.pk, None, world.now)
    assert used_percent([near.id], world.now) == {near.id: 80.0}
    world.now += 12 * HOUR
    status = read_status(whole(world), budget, world.now, top=5)
    assert status.accounts[0].balance.spent_nanousd == 0
    assert list_near(world.home.pk, None, world.now) == []
    row = BudgetAccount.objects.get(key=account.key)
    assert row.spent_nanousd == 300, "all that it ever spent, which is compared with the store"


def test_a_new_life_of_the_store_is_told_when_it_was_spent(world: World) -> None:
    # the store's own clock says which step is on, so this is of about now
    world.now = world.now.fromtimestamp(time.time(), world.now.tzinfo)
    _, account = rolling(world)
    world.now -= 30 * HOUR
    world.tick()
    world.record(1_000)
    world.now += 20 * HOUR
    world.record(50)
    world.now += 10 * HOUR
    world.live()
    world.settle(account, 30)
    world.record(30)
    world.tick(3)
    assert world.is_seeded()
    assert world.settled(account) == 80, "the thousand is older than the window"
    assert steps(world, account) == [30, 50]
    assert world.own(account) == 1_050
    # what comes later is compared with all that was ever spent, and found right
    world.settle(account, 20)
    world.record(20)
    world.tick(12)
    assert [one for one in world.corrections() if one[0] != "seeded"] == []
    # what the store has lost is of the stretch it was spent in
    world.record(7)
    world.tick(12)
    assert [one for one in world.corrections() if one[0] == "missed"] == [("missed", 7, 0)]
    assert world.settled(account) == 107


def test_the_last_periods_say_what_would_have_been(world: World, actor: Actor) -> None:
    budget = world.budget(period="day", amount_nanousd=100)
    world.tick()
    for spent in (40, 85, 120, 10):
        world.record(spent)
        world.now += timedelta(days=1)
    status = read_status(whole(world), budget, world.now, top=5)
    told = [(one.past.most_nanousd, one.past.reached) for one in status.past]
    # the day before its counting began was read from the ledger too
    assert told == [(10, 0), (120, 1), (85, 0), (40, 0), (0, 0)]
    fired = [[each.percent for each in one.fired] for one in status.past]
    assert fired == [[], [50, 80, 100], [50, 80], [], []]
    assert status.past[1].fired[2].first_at_s == status.past[1].past.first_reached_at_s
    assert status.previous == status.past[0].past
    update_budget(actor, budget_id=budget.pk, changes={"amount_nanousd": 40})
    budget.refresh_from_db()
    again = read_status(whole(world), budget, world.now, top=5)
    assert [one.past.reached for one in again.past] == [0, 1, 1, 1, 0]


def test_each_end_user_has_stretches_of_its_own(world: World) -> None:
    budget = world.budget(
        period="hour",
        is_rolling=True,
        scopes=[{"subject": "end_user", "subject_id": None}],
    )
    world.tick()
    world.record(5, end_user="ann")
    world.record(7, end_user="bob")
    world.now += timedelta(minutes=40)
    world.record(9, end_user="ann")
    world.now += timedelta(minutes=30)
    status = read_status(whole(world), budget, world.now, top=5)
    told = {one.subjects[0].id: one.balance.spent_nanousd for one in status.accounts}
    assert told == {"ann": 9}


def test_steps_are_whole_stretches_of_their_length() -> None:
    for one in ROLLING.values():
        assert one.steps * one.step_s == one.length_s
        window = one.window(1_764_500_000.5)
        assert window.ends_s - window.starts_s == one.length_s + one.step_s
        assert window.starts_s <= 1_764_500_000.5 - one.length_s
