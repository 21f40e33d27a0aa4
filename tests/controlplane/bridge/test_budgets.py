"""The counters of budgets against the ledger: seeded, compared and corrected, on a real store.

A gateway is played by the fields its process keeps in a counter, and by its vitals record.
"""

import threading
import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import OperationalError, connections
from redis import Redis

from controlplane.bridge.system import budgets_part
from controlplane.compiler import budget_record
from controlplane.models import (
    Budget,
    BudgetAccount,
    BudgetBucket,
    BudgetCount,
)
from controlplane.services.actors import Actor
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.budgets import delete_budget, update_budget
from controlplane.services.organisations import create_organisation, update_organisation
from controlplane.services.usage import record_usage
from inference.contract.events import End
from inference.contract.wire import (
    BUDGET_LEDGER,
    USAGE_FIELD,
    USAGE_STREAM,
)
from inference.decisions.budgets import Account
from tests.controlplane.bridge.budget_world import World
from tests.controlplane.ledger_events import make_charge

pytestmark = pytest.mark.slow


@pytest.fixture
def world(transactional_db: None, state_store: Redis, actor: Actor) -> World:
    return World(state_store, actor, create_organisation(actor, name="Home"))


def test_a_first_start_is_seeded_at_once(world: World) -> None:
    assert world.tick() == "no gateway has used the store yet"
    world.live()
    world.budget()
    world.tick()
    assert world.is_seeded()


def test_a_young_store_is_left_alone_until_gateways_have_told_theirs(world: World) -> None:
    seconds, micros = world.store.time()
    world.live(f"run:{seconds * 1000 + micros // 1000 + 60_000}")
    world.budget()
    assert world.tick() == "gateways tell the store what they hold"
    assert not world.is_seeded()


def test_an_emptied_store_is_told_what_nobody_living_tells(world: World) -> None:
    budget = world.budget()
    world.tick()
    world.record(300, None, 200)
    world.live()
    account = world.account(budget)
    # of the 500, a process that lives settled 200 and has told it again
    world.settle(account, 200)
    assert world.tick() == "the ledger catches up"
    assert not world.is_seeded()
    part = budgets_part(world.now)
    assert (part.state, part.detail) == (
        "degraded",
        "gateways refuse what blocking budgets bear on: the ledger catches up",
    )
    world.tick()
    assert world.is_seeded()
    assert budgets_part(world.now).state == "ok"
    assert budgets_part(world.now + timedelta(minutes=2)).state == "stale"
    assert (world.settled(account), world.own(account)) == (500, 300)
    assert world.store.hget(account.key, "w") == b"1"
    left_ms = world.store.pttl(account.key)
    assert left_ms > (account.period.ends_s - time.time()) * 1000
    assert world.corrections() == [("seeded", 300, 0)]
    # another life, in which the ledger's own part is gone with all others
    world.store.delete(account.key)
    world.live("run:2")
    world.tick(4)
    assert world.is_seeded()
    assert world.own(account) == 500


def test_nothing_is_seeded_while_ends_may_be_on_their_way(world: World) -> None:
    budget = world.budget()
    world.tick()
    world.record(100)
    world.live()
    world.tick()
    told = world.tick(2, backlog=3)
    assert told == "ends may still be in the journal of gw-1/0"
    # with traffic there is always a backlog: what ended since is handed over after it
    waiting = world.end(50)
    world.store.xadd(USAGE_STREAM, {USAGE_FIELD: b"an end"})
    assert world.tick(backlog=3, ended=9) == "the recorder has not come so far"
    record_usage([waiting], now=world.now)
    world.store.xtrim(USAGE_STREAM, maxlen=0)
    world.tick(backlog=3, ended=9)
    assert world.is_seeded()
    assert world.settled(world.account(budget)) == 150


def test_what_the_store_missed_is_added_under_traffic(world: World) -> None:
    budget = world.budget()
    world.live()
    world.tick()
    account = world.account(budget)
    # a request of 70 that no living process settles, beside others that are
    world.record(70)
    for _ in range(16):
        world.record(10)
        world.settle(account, 10)
        world.tick()
    assert world.corrections() == [("missed", 70 - 10, 0)]
    world.tick(16)
    ledger = BudgetAccount.objects.get().spent_nanousd
    assert ledger == 70 + 160
    assert world.settled(account) == ledger


def test_what_was_counted_twice_is_taken_back_under_traffic(world: World) -> None:
    budget = world.budget()
    world.live()
    world.tick()
    account = world.account(budget)
    # a killed process's reservation counts as spent, and its request booked nothing
    world.settle(account, 400, "gw-2/0")
    for _ in range(16):
        world.record(10)
        world.settle(account, 10)
        world.tick()
    world.tick(16)
    assert world.settled(account) == BudgetAccount.objects.get().spent_nanousd == 160
    assert world.own(account) == -400
    whys = {why for why, _, _ in world.corrections()}
    assert whys == {"twice"}
    assert sum(taken for _, _, taken in world.corrections()) == 400


def test_true_counters_are_never_touched_however_late_ledger_or_store_are(world: World) -> None:
    budget = world.budget()
    world.live()
    world.tick()
    account = world.account(budget)
    late: list[End] = []
    for turn in range(24):
        # the ledger has an end one look later, the store another one
        record_usage(late, now=world.now)
        late = [world.end(10)]
        if turn % 2:
            world.settle(account, 20)
        world.tick(backlog=1, ended=5)
    assert world.corrections() == []


def test_a_new_budget_counts_what_the_month_has_seen_and_an_edit_keeps_it(world: World) -> None:
    world.live()
    world.budget("other")
    world.record(300, None, key_id="01k", tags=("eval", "night"), end_user="ann")
    world.record(40, key_id="01k", tags=("night",), end_user="bob")
    world.tick(5)
    tags = [{"subject": "tag", "subject_id": None}, {"subject": "end_user", "subject_id": "ann"}]
    budget = world.budget("by tag", scopes=tags)
    assert world.is_seeded()
    world.tick(4)
    assert world.is_seeded()
    rows = BudgetAccount.objects.filter(budget_id=budget.pk).order_by("subjects")
    assert [(row.subjects, row.spent_nanousd, row.attempts, row.unknown_cost) for row in rows] == [
        (["eval", "ann"], 300, 2, 1),
        (["night", "ann"], 300, 2, 1),
    ]
    night = world.account(budget, "night", "ann")
    assert night.key == rows[1].key
    assert world.settled(night) == 300
    world.record(5, tags=("night",), end_user="ann")
    update_budget(world.actor, budget_id=budget.pk, changes={"amount_nanousd": 7, "name": "b"})
    world.tick()
    rows[1].refresh_from_db()
    assert (rows[1].spent_nanousd, world.settled(night)) == (305, 300)
    count = BudgetCount.objects.get(pk=budget.pk)
    scopes = [{"subject": "end_user", "subject_id": None}]
    update_budget(world.actor, budget_id=budget.pk, changes={"scopes": scopes})
    world.record(1, end_user="bob")
    world.tick(4)
    fresh = BudgetAccount.objects.filter(budget_id=budget.pk).order_by("subjects")
    assert [(row.subjects, row.spent_nanousd) for row in fresh] == [(["ann"], 305), (["bob"], 41)]
    bob = Account(budget_record(Budget.objects.get(pk=budget.pk)), ("bob",), night.period)
    assert world.settled(bob) == 41
    assert BudgetCount.objects.get(pk=budget.pk).definition != count.definition
    delete_budget(world.actor, budget_id=budget.pk)
    world.tick()
    assert not BudgetAccount.objects.filter(budget_id=budget.pk).exists()


def test_a_budget_that_was_off_or_whose_zone_moved_is_told_anew_and_periods_begin_at_nothing(
    world: World,
) -> None:
    world.live()
    budget = world.budget(period="hour")
    world.tick()
    update_budget(world.actor, budget_id=budget.pk, changes={"is_enabled": False})
    world.record(80)
    world.tick()
    account = world.account(budget)
    assert world.settled(account) == 0
    update_budget(world.actor, budget_id=budget.pk, changes={"is_enabled": True})
    world.tick(4)
    assert world.settled(account) == 80
    world.now += timedelta(hours=1)
    world.record(5)
    assert world.settled(world.account(budget)) == 0
    world.tick(16)
    assert world.settled(world.account(budget)) == 5
    update_budget(world.actor, budget_id=budget.pk, changes={"period": "month"})
    zone = {"time_zone": "Asia/Kathmandu"}
    update_organisation(world.actor, organisation_id=world.home.pk, changes=zone)
    world.tick(4)
    row = BudgetAccount.objects.get(starts_at__lte=world.now, ends_at__gt=world.now)
    assert row.starts_at.astimezone(ZoneInfo("Asia/Kathmandu")).strftime("%d %H:%M") == "01 00:00"
    assert world.store.hget(row.key, f"g:{BUDGET_LEDGER}") == b"85"


def test_what_is_recorded_while_counting_begins_is_counted_once(world: World) -> None:
    budget = world.budget()
    batches = [[world.end(1) for _ in range(5)] for _ in range(60)]
    is_running = threading.Event()

    def record() -> None:
        try:
            for place, batch in enumerate(batches):
                record_usage(batch, now=world.now)
                if place == 5:
                    is_running.set()
        finally:
            is_running.set()
            connections.close_all()

    recorders = threading.Thread(target=record)
    recorders.start()
    is_running.wait()
    rounds = 0
    while recorders.is_alive():
        begin_to_count(budget, world.now)
        rounds += 1
    recorders.join()
    assert rounds > 1
    assert BudgetAccount.objects.get().spent_nanousd == 300
    assert sum(BudgetBucket.objects.values_list("spent_nanousd", flat=True)) == 300


def test_one_budget_that_cannot_be_read_holds_up_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.live()
    world.record(30)
    bad, good = world.budget("bad"), world.budget("good")

    def count(budget: Budget, now: datetime) -> None:
        if budget.pk == bad.pk:
            BudgetCount.objects.update_or_create(
                pk=bad.pk, defaults={"definition": "", "since": now}
            )
            raise OperationalError("too long")
        begin_to_count(budget, now)

    monkeypatch.setattr("controlplane.bridge.budgets.begin_to_count", count)
    world.tick(5)
    assert world.is_seeded()
    assert world.settled(world.account(good)) == 30
    monkeypatch.undo()
    world.tick(5)
    assert world.settled(world.account(bad)) == 30


def test_the_recorder_and_the_reading_of_the_ledger_find_the_same(world: World) -> None:
    kinds = ["organisation", "team", "project", "key", "end_user", "tag", "model", "route"]
    budgets = [
        world.budget(kind, scopes=[{"subject": kind, "subject_id": None}], period=period)
        for kind, period in zip(
            kinds, ["hour", "day", "week", "month", "quarter"] * 2, strict=False
        )
    ]
    for budget in budgets:
        begin_to_count(budget, world.now)
    world.record(3, None, end_user="ann", tags=("a", "b"), route_id=None)
    world.record(4, team_id="", end_user=None)
    two = world.end(5)
    other = make_charge(attempt=2, model_id="mdl_2", cost_nanousd=7)
    record_usage([replace(two, charges=(*two.charges, other))], now=world.now)
    recorded = _all()
    assert len(recorded[0]) == 10
    for budget in budgets:
        begin_to_count(budget, world.now)
    assert _all() == recorded


def _all() -> tuple[list[Any], list[Any]]:
    accounts = BudgetAccount.objects.order_by("key").values_list(
        *("key", "subjects", "starts_at", "spent_nanousd", "attempts", "unknown_cost")
    )
    buckets = BudgetBucket.objects.order_by("key", "at").values_list("key", "at", "spent_nanousd")
    return list(accounts), list(buckets)
