"""Budgets put to the test at this process: a copy of one, with next to nothing left of it, at a
counter of its own, goes the way of every request.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

import structlog
from prometheus_client import CollectorRegistry
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.kinds import BudgetAction, ProofVerdict, UnknownPrice
from inference.contract.snapshot import BudgetRecord
from inference.decisions.admission import Bounds, Spent
from inference.decisions.budgets import FOREVER, Account, Period
from inference.errors import BudgetExceeded, BudgetsUnavailable
from inference.limits.acting import Eased, Slowed, over
from inference.limits.admissions import Admission
from inference.limits.counted import Known
from inference.limits.leases import Leases
from inference.limits.purses import Purse, purse_of
from inference.observability.limit_metrics import LimitMetrics
from inference.store import STORE_TROUBLE, StoreHealth

log = structlog.get_logger(__name__)

PERIOD_S = 1.0

_COST = 2
_ROOM = 3
"""In nano-USD: there is room for one request that costs so much, and not for two."""

_PER_MINUTE = 6
_TRIES = 4
"""A throttle lets in one request in ten seconds, so of four one has to wait."""

_LIFE_S = 60

Told = tuple[ProofVerdict, str]


class Counting(Protocol):
    """What it needs of the limiter whose budgets it tests."""

    leases: Leases
    stopwatch: Callable[[], float]
    clock: Callable[[], float]
    budgets: Mapping[str, BudgetRecord]


class Prover:
    """Puts to the test whatever budget the control plane wishes, once a wish; as `wire` says.

    What is refused here counts in no metric: nobody asked for it.
    """

    def __init__(self, client: Redis, limiter: Counting, process: str) -> None:
        self.leases = limiter.leases
        self.metrics = LimitMetrics(CollectorRegistry())
        self.stopwatch = limiter.stopwatch
        self.clock = limiter.clock
        self._client = client
        self._process = process
        self._limiter = limiter
        self._answered: frozenset[str] = frozenset()
        self._health = StoreHealth("budget proofs")

    async def run(self) -> None:
        """Look for wishes every second until cancelled, through outages of the store."""
        while True:
            await self.step()
            await asyncio.sleep(PERIOD_S)

    async def step(self) -> None:
        """Answer each wish that is new, or that could not be asked of the store before."""
        try:
            wishes = await self._client.hgetall(wire.BUDGET_PROOFS)
            told = {_text(word): _text(budget) for word, budget in wishes.items()}
            self._answered &= told.keys()
            for word in told.keys() - self._answered:
                if await self._answer(word, told[word]) is not ProofVerdict.AWAY:
                    self._answered |= {word}
        except STORE_TROUBLE as error:
            self._health.failed(error)
        else:
            self._health.succeeded()

    async def _answer(self, word: str, budget_id: str) -> ProofVerdict:
        verdict, words = await self._prove(word, budget_id)
        log.info("budget put to the test", budget=budget_id, verdict=verdict.value)
        key = wire.budget_proof_key(word)
        async with self._client.pipeline() as pipe:
            pipe.hset(key, self._process, f"{verdict.value} {words}")
            pipe.expire(key, wire.BUDGET_PROOF_LIFE_S)
            await pipe.execute()
        return verdict

    async def _prove(self, word: str, budget_id: str) -> Told:
        budget = self._limiter.budgets.get(budget_id)
        if budget is None:
            return ProofVerdict.UNKNOWN, "It has no such budget."
        if not budget.is_enabled:
            return ProofVerdict.OFF, "It has the budget, switched off."
        purse = self._copy(budget, f"{word}:{self._process}")
        if not self.leases.has_budgets:
            await self.leases.told()  # the store may have been told of the ledger since
        try:
            return await self._try(word, purse)
        except BudgetsUnavailable as error:
            return ProofVerdict.AWAY, str(error)
        finally:
            await self._clear(purse)

    def _copy(self, budget: BudgetRecord, word: str) -> Purse:
        """The same with an amount that one request uses up, at a counter nobody else knows."""
        now_s = self.clock()
        blocks = budget.action is BudgetAction.BLOCK
        copy = replace(
            budget,
            id=f"{budget.id}:proof:{word}",
            amount_nanousd=_ROOM if blocks else _COST,
            raised_to_nanousd=None,
            raised_until=None,
            grace_percent=0,
            grace_nanousd=0,
            unknown_price=UnknownPrice.REFUSE,
            throttle_per_minute=_PER_MINUTE,
        )
        period = FOREVER if budget.is_rolling else Period(int(now_s), int(now_s) + _LIFE_S)
        return purse_of(Account(copy, ("proof",) * len(budget.scopes), period), "", now_s)

    async def _try(self, word: str, purse: Purse) -> Told:
        """Have one request use it up; what becomes of the next?"""
        first = self._admission(word, purse)
        try:
            await first.take()
        except BudgetExceeded as error:
            return ProofVerdict.AWAY, f"It refuses what there is room for: {error}"
        spent = Spent(None, was_sent=True, is_final=True, cost_nanousd=_COST)
        first.settle(lambda: (spent,))
        await self.leases.told(self.leases.slice_of(purse.counter))
        acting = await over(self.leases, [purse], stopwatch=self.stopwatch)
        if acting and purse.acts_from is not None and purse.throttle is None:
            return ProofVerdict.CHEAPER, "It sends the next to the cheaper model."
        try:
            for number in range(_TRIES if acting else 1):
                following = self._admission(f"{word}:{number}", purse)
                if acting and purse.throttle is not None:
                    following.eased = Eased([purse])
                await following.take()
                following.settle(tuple)
        except BudgetExceeded as error:
            return ProofVerdict.REFUSED, str(error)
        except Slowed as slowed:
            return ProofVerdict.SLOWED, f"It has the next wait for {slowed.wait_s:.1f} s."
        return ProofVerdict.LET_IN, "It lets the next in."

    def _admission(self, word: str, purse: Purse) -> Admission:
        known = Known((), [purse])
        bounds = Bounds(1, 1, _COST)
        return Admission(self, f"proof:{word}", known, bounds)

    async def _clear(self, purse: Purse) -> None:
        """Leave nothing in the store, once it was told that nothing is held any more."""
        counters = [purse.counter]
        if purse.throttle is not None:
            counters.append(purse.throttle.counter)
        await self.leases.told(*[self.leases.slice_of(one) for one in counters])
        await self._client.unlink(*[one.key for one in counters])


def _text(raw: bytes | str) -> str:
    return raw if isinstance(raw, str) else raw.decode()
