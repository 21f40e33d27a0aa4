"""Keeping the counters of budgets true to the ledger: told of it once a life of the store, then
compared with it again and again.

One look does one step and never waits; how far it is stands in a row, so any job can go on with it.
Only what is certain is corrected, whatever traffic there is meanwhile:

- *missed*: the ledger had more, some seconds before the store was asked. Add the difference.
- *twice*: the store had more than the ledger has, once that has all that had ended when the store
  was asked. Take the difference back.
- *seeded*: counters that don't know of the ledger at all, because the store is new or the budget.
  The store is asked, the ledger catches up with that moment, and what it has beyond is added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog
from django.db import Error, connection
from redis import Redis
from redis.exceptions import RedisError, ResponseError

from controlplane.bridge.budget_counters import (
    Counter,
    Life,
    add_to_counters,
    mark_seeded,
    read_counters,
    read_life,
    set_windows,
)
from controlplane.bridge.database import SLACK_S, answering_within
from controlplane.bridge.store import open_store
from controlplane.bridge.vitals import Fleet, read_fleet
from controlplane.decisions.budget_deltas import missed, seeding, twice
from controlplane.decisions.catching_up import laggards, marks_of
from controlplane.models import BudgetUpkeep
from controlplane.services import budget_upkeep as upkeeping
from controlplane.services.budget_accounts import (
    READ_S,
    begin_to_count,
    forget_removed,
    list_uncounted,
)
from controlplane.services.budget_upkeep import MISSED, SEEDED, TWICE, Current
from inference.contract.wire import SEEN, USAGE_STREAM
from inference.decisions.budgets import ROLLING

COMPARE_EVERY = timedelta(seconds=30)
ASKED_AFTER = timedelta(seconds=3)
"""A settlement is told to the store within a second; the ledger may have it sooner."""

PATIENCE = timedelta(seconds=120)
"""After so long a comparison begins anew: what it remembers of gateways is too old."""

IDLE, TOLD, ASKED, SEEDING = "idle", "told", "asked", "seeding"

log = structlog.get_logger(__name__)


def keep_budgets(now: datetime) -> str:
    """Count what isn't counted yet, then take the comparison one step on; says its wait."""
    with upkeeping.sole_job() as is_sole:
        if not is_sole:
            return "another job is at it"
        forget_removed()
        _count_uncounted(now)
        upkeep = upkeeping.get_or_make_upkeep()
        try:
            with open_store() as store:
                done = _Step(store, upkeep, now).take()
        except (RedisError, OSError) as error:
            log.warning("state store not answering about budgets", error=type(error).__name__)
            done = "the state store does not answer"
        upkeeping.note(upkeep, looked_at=now, waits_for=done)
        return done


def _count_uncounted(now: datetime) -> None:
    """Begin to count; one budget whose ledger can't be read holds up no other."""
    for budget in list_uncounted(now):
        try:
            connection.ensure_connection()
            with answering_within(connection.connection, READ_S + SLACK_S):
                begin_to_count(budget, now)
        except Error as error:
            log.error("budget not counted", budget=budget.pk, error=type(error).__name__)


@dataclass(slots=True)
class _Step:
    """One look at where the comparison is, and the step that follows."""

    store: Redis
    upkeep: BudgetUpkeep
    now: datetime

    def take(self) -> str:
        life = read_life(self.store)
        if life is None:
            self._note(phase=IDLE, is_seeded=False)
            return "no gateway has used the store yet"
        if life.epoch != self.upkeep.epoch or self._is_stale():
            self._note(phase=IDLE, epoch=life.epoch)
        self._note(is_seeded=life.is_seeded)
        if self.upkeep.phase == TOLD:
            return self._ask_store()
        if self.upkeep.phase in (ASKED, SEEDING):
            return self._finish(life)
        return self._begin(life)

    def _note(self, **values: object) -> None:
        upkeeping.note(self.upkeep, **values)

    def _is_stale(self) -> bool:
        since = self.upkeep.since
        is_at_it = self.upkeep.phase != IDLE
        return is_at_it and (since is None or self.now - since > PATIENCE)

    def _begin(self, life: Life) -> str:
        unseeded = upkeeping.list_unseeded(life.epoch)
        if unseeded or not life.is_seeded:
            return self._begin_seeding(life, unseeded)
        compared = self.upkeep.compared_at
        if compared is not None and self.now - compared < COMPARE_EVERY:
            return ""
        accounts = upkeeping.list_current(self.now, is_moved=True)
        if not accounts:
            self._note(compared_at=self.now)
            return ""
        upkeeping.keep_readings(_spent(accounts), None)
        self._note(phase=TOLD, since=self.now, marks={})
        return ""

    def _begin_seeding(self, life: Life, unseeded: Sequence[str]) -> str:
        if not life.is_ready:
            return "gateways tell the store what they hold"
        if not unseeded or (not life.is_seeded and upkeeping.is_ledger_empty()):
            return self._conclude_seeding(life, unseeded)
        accounts = upkeeping.list_current(self.now, budget_ids=unseeded)
        counters = read_counters(self.store, [one.key for one in accounts])
        upkeeping.keep_readings(_spent(accounts), _settled(counters))
        self._note(phase=SEEDING, since=self.now, marks=self._marks(unseeded))
        return "the ledger catches up"

    def _ask_store(self) -> str:
        if self.upkeep.since is not None and self.now - self.upkeep.since < ASKED_AFTER:
            return ""
        told = upkeeping.told_before()
        settled = dict(_settled(read_counters(self.store, sorted(told))))
        accounts = upkeeping.list_current(self.now)
        lacking = _only(missed(told, settled), accounts)
        self._tell(lacking, accounts, MISSED)
        for key, delta in lacking.items():
            settled[key] = settled.get(key, 0) + delta
        upkeeping.keep_readings(told, settled)
        self._note(phase=ASKED, since=self.now, marks=self._marks(()))
        return ""

    def _finish(self, life: Life) -> str:
        waits_for = self._lags()
        if waits_for:
            return waits_for
        accounts = upkeeping.list_current(self.now)
        told, settled = _spent(accounts), upkeeping.settled_before()
        if self.upkeep.phase == ASKED:
            # first, for what was told once must not be told again
            self._note(phase=IDLE, compared_at=self.now)
            self._tell(twice(settled, told), accounts, TWICE)
            return ""
        self._note(phase=IDLE)
        budgets = list(self.upkeep.marks["budgets"])
        own = [one for one in accounts if one.budget_id in set(budgets)]
        late = [one.key for one in own if one.key not in settled]
        known = {**settled, **_settled(read_counters(self.store, late))}
        deltas = seeding(known, _spent(own))
        self._tell(deltas, own, SEEDED)
        self._set_windows({one.key: one for one in own if one.key not in deltas}, {})
        return self._conclude_seeding(life, budgets)

    def _conclude_seeding(self, life: Life, budgets: Sequence[str]) -> str:
        upkeeping.set_seeded(budgets, life.epoch)
        is_seeded = life.is_seeded
        if not is_seeded and not upkeeping.list_unseeded(life.epoch):
            is_seeded = mark_seeded(self.store, life.epoch)
            log.info("counters of budgets seeded", epoch=life.epoch, budgets=len(budgets))
        self._note(phase=IDLE, is_seeded=is_seeded)
        return ""

    def _tell(self, deltas: Mapping[str, int], accounts: Sequence[Current], why: str) -> None:
        """Write it down, then tell the store.

        A correction that is written down and didn't happen is made by the next comparison; one
        that nobody wrote down would never be seen.
        """
        if not deltas:
            return
        upkeeping.book_corrections(deltas, accounts, why, self.now)
        own = {one.key: one for one in accounts if one.key in deltas}
        told = [
            (key, deltas[key], int(one.ends_at.timestamp() * 1_000))
            for key, one in own.items()
            if not one.is_rolling
        ]
        add_to_counters(self.store, told)
        self._set_windows(own, deltas)
        log.info("counters of budgets corrected", why=why, accounts=len(own))

    def _set_windows(self, accounts: Mapping[str, Current], deltas: Mapping[str, int]) -> None:
        """Tell those of these counters that roll what was spent, and when it leaves them."""
        budgets = {one.budget_id for one in accounts.values() if one.is_rolling}
        for period, found in upkeeping.list_windows(budgets, self.now).items():
            rolling = ROLLING[period]
            windows = {key: window for key, window in found.items() if key in accounts}
            step_s, steps = rolling.step_s, rolling.steps
            set_windows(self.store, windows, deltas, step_s=step_s, steps=steps)

    def _marks(self, budgets: Sequence[str]) -> dict[str, object]:
        at = self._store_time()
        processes = marks_of(_fleet().vitals, self._seen(), now_s=at)
        return {"budgets": list(budgets), "processes": dict(processes), "at": at}

    def _seen(self) -> Mapping[str, float]:
        """When processes last wrote their record, by the store's clock."""
        found = self.store.zrange(SEEN, 0, -1, withscores=True)
        return {name.decode(errors="replace"): float(at) for name, at in found}

    def _store_time(self) -> float:
        seconds, micros = self.store.time()
        return float(seconds) + float(micros) / 1e6

    def _lags(self) -> str:
        """What the ledger still waits for of what had ended when the store was asked, or ""."""
        marks = self.upkeep.marks
        if "stream" not in marks:
            late = laggards(
                marks["processes"],
                _fleet().vitals,
                self._seen(),
                then_s=marks["at"],
                now_s=self._store_time(),
            )
            if late:
                return f"ends may still be in the journal of {', '.join(late[:5])}"
            marks = {**marks, "stream": self._end_of_stream()}
            self._note(marks=marks)
        if self.store.xrange(USAGE_STREAM, "-", str(marks["stream"]), count=1):
            return "the recorder has not come so far"
        return ""

    def _end_of_stream(self) -> str:
        try:
            found = self.store.xinfo_stream(USAGE_STREAM)
        except ResponseError:
            return "0-0"
        return str(found["last-generated-id"].decode())


def read_reserved(keys: Sequence[str]) -> Mapping[str, Counter] | None:
    """What the store says of accounts now; None if it doesn't answer."""
    try:
        with open_store() as store:
            return read_counters(store, keys)
    except (RedisError, OSError) as error:
        log.warning("state store not answering about budgets", error=type(error).__name__)
        return None


def _fleet() -> Fleet:
    fleet = read_fleet()
    if fleet is None:
        raise RedisError("the fleet can't be read")
    return fleet


def _spent(accounts: Sequence[Current]) -> Mapping[str, int]:
    return {one.key: one.spent_nanousd for one in accounts}


def _settled(counters: Mapping[str, Counter]) -> Mapping[str, int]:
    return {key: one.ever for key, one in counters.items()}


def _only(deltas: Mapping[str, int], accounts: Sequence[Current]) -> Mapping[str, int]:
    """Those whose period is still under way."""
    current = {one.key for one in accounts}
    return {key: delta for key, delta in deltas.items() if key in current}
