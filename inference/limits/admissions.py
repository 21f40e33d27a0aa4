"""What a gateway asks for one request: may it go on, what did it use, what does its caller hear."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from inference.contract.snapshot import BudgetRecord, LimitRecord
from inference.decisions.admission import (
    Bounds,
    Spent,
    Stake,
    Used,
    answer_of,
    booked,
    duration_words,
    is_too_large,
    refusal_words,
    tokens_used,
)
from inference.decisions.budgets import amount_at, gives_way_s
from inference.decisions.budgets import refusal_words as budget_words
from inference.errors import (
    BudgetExceeded,
    BudgetsUnavailable,
    GatewayError,
    LimitsUnavailable,
    RateLimitExceeded,
)
from inference.limits.acting import Eased, Lowers, Slowed
from inference.limits.booking import book
from inference.limits.counted import Known, kept_of
from inference.limits.leases import Leases
from inference.limits.purses import Purse
from inference.limits.slices import Claim, CountersUnknown, OutOfUnits, Permit, Shortage, Slice
from inference.observability.limit_metrics import LimitMetrics

Headers = tuple[tuple[bytes, bytes], ...]

# How soon it may be worth trying again when the store is away, and when a parallel request ends.
_AWAY_S = 2
_PARALLEL_S = 1
_HELD_S = 1

_UNUSED = Used()

UNENFORCED: Headers = ((b"x-headworks-limits", b"unenforced"),)


class Admitting(Protocol):
    """What admissions need of the limiter that makes them."""

    leases: Leases
    metrics: LimitMetrics
    stopwatch: Callable[[], float]
    clock: Callable[[], float]


class Admission:
    """One request's way past its limits and budgets: `take` before it goes on, `settle` once it
    has ended.

    Of a request that may go to several models, `enter` takes what the limits of one of them want
    before it is asked. Models that are `closed` to it are so for the error that is kept.
    `output_tokens_sent` is the bound an engine was told, if the caller named none.
    """

    __slots__ = (
        *("_bounds", "_claims", "_entered", "_further", "_id", "_known", "_limiter", "_more"),
        *("_permit", "_refused", "_refused_budget", "_reserved", "_turned_away", "closed"),
        *("eased", "is_spent", "lowers", "output_tokens_sent"),
    )

    def __init__(
        self,
        limiter: Admitting,
        request_id: str,
        known: Known,
        bounds: Bounds,
        further: Mapping[str, Known] = MappingProxyType({}),
    ) -> None:
        self._further = further
        self._entered: dict[str, Admission] = {}
        self._turned_away: list[Admission] = []
        self.closed: dict[str, GatewayError] = {}
        self.output_tokens_sent: int | None = None
        self._limiter = limiter
        self._id = request_id
        self._known = known
        self._bounds = bounds
        self._claims = known.claims_of(bounds)
        self._permit: Permit | None = None
        self._more: list[Permit] = []
        self._reserved = bounds.cost_nanousd or 0
        self._refused: LimitRecord | None = None
        self._refused_budget: BudgetRecord | None = None
        self.eased: Eased | None = None
        self.lowers: Lowers | None = None
        self.is_spent = False
        """Whether a further attempt was not made because budgets had no room for it."""

    @property
    def is_budgeted(self) -> bool:
        """Whether budgets bear on it, or do once its model is known."""
        return bool(self._known.purses or self._further)

    @property
    def acting(self) -> Sequence[Purse]:
        """Budgets that may have the request slowed down or sent to a cheaper model."""
        return [purse for one in (self._known, *self._further.values()) for purse in one.acting]

    @property
    def is_unenforced(self) -> bool:
        """Whether a limit let it pass because nobody could be asked."""
        permits = [one._permit for one in (self, *self._entered.values())]
        return any(permit is not None and permit.lacking for permit in permits)

    @property
    def caps_output(self) -> bool:
        """Whether something relies on the answer's being no longer than its bound."""
        return any(one.caps_output for one in (self._known, *self._further.values()))

    def of_kept_answer(self, model_id: str) -> "Admission | None":
        """The same of an answer from a cache, as this model's; None if nothing bears on it."""
        known = kept_of(self._known, self._further.get(model_id))
        return None if known is None else Admission(self._limiter, self._id, known, Bounds())

    async def take(self) -> None:
        """Take what all limits and budgets want, or nothing.

        Raises RateLimitExceeded or LimitsUnavailable, those of budgets among them, and Slowed.
        """
        leases, claims = self._limiter.leases, self._claims
        if self._known.purses:
            self._check_budgets(leases)
            claims = claims if self.eased is None else [*claims, *self.eased.claims]
        try:
            taken = leases.take(self._id, claims)
            self._permit = taken if isinstance(taken, Permit) else await leases.outcome(taken)
        except OutOfUnits as error:
            raise self._refusal(error.shortages) from error
        except CountersUnknown as error:
            raise self._unavailable(error.claims) from error
        for place in self._permit.lacking:
            if place < len(self._known.counted):
                self._limiter.metrics.unenforced(self._known.counted[place].limit.unit)

    async def enter(self, model_id: str) -> bool:
        """Take what the limits of a model want, unless that is done; False if they are short."""
        if model_id not in self._further or model_id in self._entered:
            return True
        if model_id in self.closed:
            return False
        one = Admission(self._limiter, self._id, self._further[model_id], self._bounds)
        try:
            await one.take()
        except (RateLimitExceeded, LimitsUnavailable) as error:
            self.closed[model_id] = error
            self._turned_away.append(one)
            return False
        self._entered[model_id] = one
        return True

    async def covers(self, cost_nanousd: int) -> bool:
        """Have budgets reserve so much in all, for what several attempts may cost together.

        False if they have no room for it: then nothing more may be sent.
        """
        for one in (self, *self._entered.values()):
            if not await one._reserve(cost_nanousd):
                self.is_spent = True
                return False
        return True

    async def _reserve(self, cost_nanousd: int) -> bool:
        more = cost_nanousd - self._reserved
        claims = [one.more(more) for one in self._known.purses if one.blocks]
        if more <= 0 or not claims:
            return True
        leases = self._limiter.leases
        try:
            taken = leases.take(self._id, claims)
            permit = taken if isinstance(taken, Permit) else await leases.outcome(taken)
        except (OutOfUnits, CountersUnknown):
            return False
        self._more.append(permit)
        self._reserved = cost_nanousd
        return True

    def refuse_by(self, budget: BudgetRecord, error: BudgetExceeded) -> BudgetExceeded:
        """The error of a request that this budget refuses."""
        self._refused_budget = budget
        self._limiter.metrics.over_budget()
        return error

    def refuse(self) -> GatewayError:
        """The error of a request that all models are closed to: that of the first one."""
        first = self._turned_away[0]
        self._refused, self._refused_budget = first._refused, first._refused_budget
        return next(iter(self.closed.values()))

    def settle(self, attempts: Callable[[], Iterable[Spent]]) -> bool:
        """Count what was used and let go of the rest; True if the store must hear of it.

        Of models that were entered, limits count on the one that gave the answer, budgets on each.
        """
        if not (self._permit or self._entered):
            return False
        spent = list(attempts())
        is_owed = self._settle(spent, spent)
        answer = answer_of(spent) if self._entered else None
        served = answer.model_id if answer is not None else next(reversed(self._entered), None)
        for model_id, one in self._entered.items():
            own = [each for each in spent if each.model_id == model_id]
            if one._settle(spent if model_id == served else None, own):
                is_owed = True
        return is_owed

    def _settle(self, answered: Sequence[Spent] | None, paid: Sequence[Spent]) -> bool:
        """Count on limits what a request answered by its model used, on budgets what was paid.

        None is answered by another model: then its limits get all back.
        """
        permit, known = self._permit, self._known
        if permit is None:
            return False
        units: dict[int, int] = dict.fromkeys(range(len(known.counted)), 0)
        if answered is not None:
            used = tokens_used(answered) if known.by_kind[1][1] else _UNUSED
            units = {}
            for place in known.settled:
                limit = known.counted[place].limit
                units[place], is_estimate = booked(limit, self._bounds, used)
                if is_estimate and not permit.is_settled:
                    self._limiter.metrics.estimated(limit.unit)
        if not known.purses:
            return bool(units or permit.lacking) and self._limiter.leases.settle(permit, units)
        first, limiter = len(known.counted), self._limiter
        return book(
            limiter.leases,
            (permit, *self._more),
            known.purses,
            units,
            first=first,
            cost_nanousd=sum(one.cost_nanousd for one in paid),
            reserved_nanousd=self._bounds.cost_nanousd or 0,
        )

    def undo(self) -> None:
        """Give back all that was taken; to settle it afterwards changes nothing."""
        for one in (self, *self._entered.values()):
            for permit in (one._permit, *one._more):
                if permit is not None:
                    self._limiter.leases.undo(permit)

    def headers(self) -> Headers:
        """What is left of the tightest limit on requests, and of the tightest on tokens."""
        headers: Headers = UNENFORCED if self.is_unenforced else ()
        if self.eased is not None:
            headers += self.eased.headers()
        now_s = self._limiter.stopwatch()
        parts = (self, *(self._entered.values() or self._turned_away))
        for kind, (names, _) in enumerate(self._known.by_kind):
            tightest, left, reset_s = 0, -1, 0.0
            for limit, held in [one for part in parts for one in part._slices(kind)]:
                is_on = now_s < held.ends_s
                rest = max(held.rest + held.elsewhere + held.left, 0) if is_on else limit.amount
                if left < 0 or rest < left:
                    tightest, left, reset_s = limit.amount, rest, held.ends_s - now_s
            if left < 0:
                continue
            headers += (
                (names[0], b"%d" % tightest),
                (names[1], b"%d" % left),
                (names[2], duration_words(reset_s).encode()),
            )
        return headers

    def records(self) -> dict[str, object]:
        """What the decision record says of limits and of budgets, if any bear on the request."""
        told: dict[str, object] = {}
        known = (self._known, *self._further.values())
        if any(one.counted for one in known):
            told["limits"] = self.record()
        if any(one.purses for one in known):
            told["budgets"] = self.budget_record()
        return told

    def budget_record(self) -> dict[str, object]:
        """What the decision record says of budgets."""
        parts = (self, *self._entered.values())
        kept = [one.budget.id for part in parts for one in part._known.purses]
        record: dict[str, object] = {"kept": kept}
        if self._bounds.cost_nanousd is not None:
            record["reserved_nanousd"] = self._reserved
        if self._turned_away:
            over = [one._refused_budget for one in self._turned_away]
            record["passed_over"] = [budget.id for budget in over if budget is not None]
        if self._refused_budget is not None:
            record["refused"] = self._refused_budget.id
        if self.is_spent:
            record["ended_attempts"] = True
        if self.eased is not None:
            record |= self.eased.record()
        return record

    def record(self) -> dict[str, object]:
        """What the decision record says of limits."""
        parts = (self, *self._entered.values())
        kept = [one.limit.id for part in parts for one in part._known.counted]
        record: dict[str, object] = {"kept": kept}
        if self.is_unenforced:
            record["unenforced"] = [one.id for part in parts for one in part._lacking()]
        if self._turned_away:
            shut = [one._refused for one in self._turned_away]
            record["passed_over"] = [limit.id for limit in shut if limit is not None]
        if self.output_tokens_sent is not None:
            record["output_tokens_sent"] = self.output_tokens_sent
        if self._refused is not None:
            record["refused"] = self._refused.id
        return record

    def _slices(self, kind: int) -> list[tuple[LimitRecord, Slice]]:
        """Its limits on requests, or on tokens, and what is held here of each."""
        counted, permit, leases = self._known.counted, self._permit, self._limiter.leases
        return [
            (
                counted[place].limit,
                leases.slice_of(counted[place].counter) if permit is None else permit.slices[place],
            )
            for place in self._known.by_kind[kind][1]
        ]

    def _lacking(self) -> list[LimitRecord]:
        places = () if self._permit is None else self._permit.lacking
        counted = self._known.counted
        return [counted[place].limit for place in places if place < len(counted)]

    def _check_budgets(self, leases: Leases) -> None:
        """Raise if a budget can't let the request in, whatever is left of it, or can't be asked."""
        closed = self._known.closed_purse(self._bounds)
        if closed is not None:
            raise self._over_budget(closed)
        if not (leases.has_budgets or leases.is_starting):
            blocking = next((one for one in self._known.purses if one.blocks), None)
            if blocking is not None:
                raise self._budget_unavailable(blocking)

    def _refusal(self, shortages: Sequence[Shortage]) -> GatewayError | Slowed:
        """The refusal of the limit or budget that lasts the longest, which budgets do."""
        if self.eased is not None:
            if (slowed := self.eased.slowed(shortages)) is not None:
                return slowed
            shortages = self.eased.others(shortages)
        short = [(purse, one) for one in shortages if (purse := self._purse_of(one.claim))]
        if short:
            self.lowers = Lowers.of(short)
            return self._over_budget(short[0][0], is_held=short[0][1].is_held)
        worst = max(shortages, key=lambda one: -1.0 if one.wait_s is None else one.wait_s)
        limit = self._refused = self._limit_of(worst.claim)
        self._limiter.metrics.refused(limit.unit)
        stake = Stake(worst.claim.floor, worst.claim.take)
        wait_s = _PARALLEL_S if worst.wait_s is None else max(math.ceil(worst.wait_s), 1)
        is_ever = not is_too_large(limit, stake) and limit.amount > 0
        retry_after_s = wait_s if is_ever else None
        return RateLimitExceeded(
            refusal_words(limit, stake, retry_after_s=retry_after_s), retry_after_s=retry_after_s
        )

    def _over_budget(self, purse: Purse, *, is_held: bool = False) -> GatewayError:
        self._refused_budget = purse.budget
        if self.lowers is None:  # else it isn't refused yet
            self._limiter.metrics.over_budget()
        now_s, cost = self._limiter.clock(), self._bounds.cost_nanousd
        is_ever = cost is not None and cost <= amount_at(purse.budget, now_s)
        left_s = max(math.ceil(gives_way_s(purse.account, now_s) - now_s), 1)
        words = budget_words(purse.account, cost, now_s=now_s, is_held=is_ever and is_held)
        wait_s = _HELD_S if is_held else left_s
        return BudgetExceeded(words, retry_after_s=wait_s if is_ever else None)

    def _unavailable(self, claims: Sequence[Claim]) -> GatewayError:
        """The error of a request that nobody can be asked for."""
        for claim in claims:
            if (purse := self._purse_of(claim)) is not None:
                return self._budget_unavailable(purse)
        limit = self._refused = self._limit_of(claims[0])
        self._limiter.metrics.unavailable(limit.unit)
        return LimitsUnavailable(retry_after_s=_AWAY_S)

    def _budget_unavailable(self, purse: Purse) -> GatewayError:
        self._refused_budget = purse.budget
        self._limiter.metrics.budget_unavailable()
        return BudgetsUnavailable(retry_after_s=_AWAY_S)

    def _limit_of(self, claim: Claim) -> LimitRecord:
        return next(one.limit for one in self._known.counted if one.counter is claim.counter)

    def _purse_of(self, claim: Claim) -> Purse | None:
        purses = self._known.purses
        return next((one for one in purses if one.counter is claim.counter), None)
