"""What a gateway asks of limits for one request: may it go on, what it used, what its caller hears.

The counter of a limit is the same whatever its amount, so an edit of the amount forgets nothing.
"""

import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from prometheus_client import CollectorRegistry

from inference.contract.snapshot import ConfigSnapshot, KeyRecord, LimitRecord
from inference.decisions.admission import (
    Bearing,
    Bounds,
    LimitIndex,
    Requester,
    Spent,
    Stake,
    Used,
    answer_of,
    bearing_limits,
    booked,
    duration_words,
    index_limits,
    is_by_name,
    is_too_large,
    limits_of_model,
    refusal_words,
    tokens_used,
)
from inference.decisions.plan import Plan
from inference.errors import GatewayError, LimitsUnavailable, RateLimitExceeded
from inference.limits.counted import Counted, Known, counter_of
from inference.limits.leases import Leases
from inference.limits.names import MOST_END_USERS, Names
from inference.limits.slices import (
    Claim,
    Counter,
    CountersUnknown,
    OutOfUnits,
    Permit,
    Shortage,
    Slice,
)
from inference.observability.limit_metrics import LimitMetrics, LimitState

Headers = tuple[tuple[bytes, bytes], ...]

# Callers come in all sorts; those of this moment are found without looking through the limits.
_MOST_KNOWN = 4_000
_MOST_COUNTERS = 4 * _MOST_KNOWN

# How soon it may be worth trying again when the store is away, and when a parallel request ends.
_AWAY_S = 2
_PARALLEL_S = 1

_NONE = Bounds()
_UNUSED = Used()

UNENFORCED: Headers = ((b"x-headworks-limits", b"unenforced"),)


class Limiter:
    """The limits of the configuration that runs, over the leases of this process."""

    def __init__(
        self,
        leases: Leases,
        metrics: LimitMetrics,
        *,
        stopwatch: Callable[[], float],
        most_end_users: int = MOST_END_USERS,
    ) -> None:
        self.leases = leases
        self.metrics = metrics
        self.stopwatch = stopwatch
        self._limits: Mapping[str, LimitRecord] = {}
        self._index: LimitIndex = {}
        self._counters: dict[str, Counter] = {}
        self._known: dict[tuple[str | None, ...], Known] = {}
        self._names = Names(stopwatch=stopwatch, most=most_end_users)
        metrics.watch(self._state)

    def apply_snapshot(self, snapshot: ConfigSnapshot) -> None:
        """Take the limits of a configuration; a listener of the holder."""
        if snapshot.limits is not self._limits:
            self._limits = snapshot.limits
            self._index = index_limits(snapshot.limits)
            self._forget()

    def admission(
        self,
        request_id: str,
        identity: KeyRecord,
        *,
        end_user: str | None,
        plan: Plan | None,
    ) -> "Admission | None":
        """What the request has to pass; None if no limit bears on it.

        Of one that came to no plan only requests are counted. The limits of a model bear on it from
        here on if its targets have but one, else from when one is entered.
        """
        organisation_id = identity.organisation_id
        if organisation_id not in self._index:
            return None
        model_id = route_id = None
        further: Mapping[str, Known] = {}
        if plan is not None:
            route_id = plan.route.id
            models = dict.fromkeys([one.pool.model_id for one in plan.targets])
            if len(models) == 1:
                model_id = plan.targets[0].pool.model_id
            else:
                found = ((one, self._known_of_model(organisation_id, one)) for one in models)
                further = {one: known for one, known in found if known.counted}
        team_id, project_id = identity.team_id, identity.project_id
        caller = (organisation_id, team_id, project_id, identity.id, end_user, model_id, route_id)
        known = self._known.get(caller)
        if known is None:
            known = self._find(Requester(*caller))
            if not known.shared:
                self._known[caller] = known
        for limit in known.shared:
            self.metrics.shared(limit.unit)
        if plan is None:
            return Admission(self, request_id, known.unread, _NONE) if known.unread else None
        if not (known.counted or further):
            return None
        bounds = Bounds(plan.prompt_tokens_max, plan.output_tokens_max)
        return Admission(self, request_id, known, bounds, further)

    def _state(self) -> LimitState:
        return LimitState(
            len(self.leases), self.leases.held, not self.leases.is_usable, len(self._names)
        )

    def _known_of_model(self, organisation_id: str, model_id: str) -> Known:
        whose = (organisation_id, model_id)
        known = self._known.get(whose)
        if known is None:
            found = self._counted(limits_of_model(self._index, *whose))
            known = self._known[whose] = found
        return known

    def _find(self, requester: Requester) -> Known:
        return self._counted(bearing_limits(self._index, requester), requester.key_id)

    def _counted(self, bearings: Iterable[Bearing], key_id: str = "") -> Known:
        # callers that share a counter aren't known, but have others of their own
        if len(self._known) >= _MOST_KNOWN or len(self._counters) >= _MOST_COUNTERS:
            self._forget()
        found: list[Counted] = []
        for bearing in bearings:
            limit = bearing.limit
            is_shared = is_by_name(limit) and not self._names.is_apart(
                limit, key_id, bearing.subject
            )
            counter = counter_of(bearing, shared_by=key_id if is_shared else "")
            counter = self._counters.setdefault(counter.key, counter)
            found.append(Counted(limit, counter, is_shared))
        return Known(found)

    def _forget(self) -> None:
        self._known, self._counters = {}, {}


class Admission:
    """One request's way past its limits: `take` before it goes on, `settle` once it has ended.

    Of a request that may go to several models, `enter` takes what the limits of one of them want
    before it is asked. Models that are `closed` to it are so for the error that is kept.
    `output_tokens_sent` is the bound an engine was told, if the caller named none.
    """

    __slots__ = (
        *("_bounds", "_claims", "_entered", "_further", "_id", "_known", "_limiter", "_permit"),
        *("_refused", "_turned_away", "closed", "output_tokens_sent"),
    )

    def __init__(
        self,
        limiter: Limiter,
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
        self._refused: LimitRecord | None = None

    @property
    def is_unenforced(self) -> bool:
        """Whether a limit let it pass because nobody could be asked."""
        permits = [one._permit for one in (self, *self._entered.values())]
        return any(permit is not None and permit.lacking for permit in permits)

    @property
    def caps_output(self) -> bool:
        """Whether a strict limit relies on the answer's being no longer than its bound."""
        return any(one.caps_output for one in (self._known, *self._further.values()))

    async def take(self) -> None:
        """Take what all limits want, or nothing: raises RateLimitExceeded or LimitsUnavailable."""
        leases = self._limiter.leases
        try:
            taken = leases.take(self._id, self._claims)
            self._permit = taken if isinstance(taken, Permit) else await leases.outcome(taken)
        except OutOfUnits as error:
            raise self._refusal(error.shortages) from error
        except CountersUnknown as error:
            limit = self._refused = self._limit_of(error.claims[0])
            self._limiter.metrics.unavailable(limit.unit)
            raise LimitsUnavailable(retry_after_s=_AWAY_S) from error
        for place in self._permit.lacking:
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

    def refuse(self) -> GatewayError:
        """The error of a request that all models are closed to: that of the first one."""
        self._refused = self._turned_away[0]._refused
        return next(iter(self.closed.values()))

    def settle(self, attempts: Callable[[], Iterable[Spent]]) -> bool:
        """Count what was used and let go of the rest; True if the store must hear of it.

        Of models that were entered it counts on the one that gave the answer.
        """
        if not self._entered:
            return self._settle(attempts)
        spent = list(attempts())
        answer = answer_of(spent)
        served = [*self._entered][-1] if answer is None else answer.model_id
        is_owed = self._settle(lambda: spent)
        for model_id, one in self._entered.items():
            if model_id != served:
                one.undo()
            elif one._settle(lambda: spent):
                is_owed = True
        return is_owed

    def _settle(self, attempts: Callable[[], Iterable[Spent]]) -> bool:
        permit, known = self._permit, self._known
        if permit is None or not (known.settled or permit.lacking):
            return False
        used = tokens_used(attempts()) if known.by_kind[1][1] else _UNUSED
        units: dict[int, int] = {}
        for place in known.settled:
            limit = known.counted[place].limit
            units[place], is_estimate = booked(limit, self._bounds, used)
            if is_estimate and not permit.is_settled:
                self._limiter.metrics.estimated(limit.unit)
        return self._limiter.leases.settle(permit, units)

    def undo(self) -> None:
        """Give back all that was taken; to settle it afterwards changes nothing."""
        for one in (self, *self._entered.values()):
            if one._permit is not None:
                self._limiter.leases.undo(one._permit)

    def headers(self) -> Headers:
        """What is left of the tightest limit on requests, and of the tightest on tokens."""
        headers: Headers = UNENFORCED if self.is_unenforced else ()
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
        return [self._known.counted[place].limit for place in places]

    def _refusal(self, shortages: Sequence[Shortage]) -> RateLimitExceeded:
        """The refusal of the limit that lasts the longest."""
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

    def _limit_of(self, claim: Claim) -> LimitRecord:
        return next(one.limit for one in self._known.counted if one.counter is claim.counter)


def make_limiter(
    registry: CollectorRegistry,
    *,
    stopwatch: Callable[[], float] = time.perf_counter,
    most_end_users: int = MOST_END_USERS,
) -> Limiter:
    """The limits of one life of a process, which the store knows by a name of its own."""
    leases = Leases(secrets.token_hex(8), stopwatch=stopwatch)
    return Limiter(
        leases, LimitMetrics(registry), stopwatch=stopwatch, most_end_users=most_end_users
    )
