"""The limits that bear on requests of one kind, and the counters they are kept by."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

from inference.contract.kinds import Enforcement, LimitUnit
from inference.contract.snapshot import LimitRecord
from inference.contract.wire import limits_counter_key
from inference.decisions.admission import (
    TOKEN_UNITS,
    WINDOW_MS,
    Bearing,
    Bounds,
    caps_output,
    stake_of,
)
from inference.limits.purses import Purse
from inference.limits.slices import Claim, Counter

_REQUESTS = LimitUnit.REQUESTS
_SOME = Bounds(1, 1)
_SHARED = b"shared"

_OF_REQUESTS, _OF_TOKENS = (
    tuple(b"x-ratelimit-%b-%b" % (what, unit) for what in (b"limit", b"remaining", b"reset"))
    for unit in (b"requests", b"tokens")
)


@dataclass(frozen=True, slots=True)
class Counted:
    """A limit that bears on some request, and the counter it is kept by."""

    limit: LimitRecord
    counter: Counter
    is_shared: bool = False
    """Whether it counts all whose names are too many to be counted apart."""

    def claim(self, bounds: Bounds) -> Claim:
        """What it wants of a request with these bounds."""
        stake = stake_of(self.limit, bounds)
        is_strict = self.limit.enforcement is Enforcement.STRICT
        return Claim(self.counter, stake.floor, stake.take, is_strict)


class Known:
    """All limits and budgets of one caller's requests that come from `from_s` until `until_s`.

    `claims` are those of a request that uses tokens, if neither a strict limit on tokens nor a
    budget makes them different each time. Those of limits come before those of `purses`.
    """

    __slots__ = (
        *("_is_same", "by_kind", "caps_output", "claims", "counted", "purses", "settled", "shared"),
        *("acting", "from_s", "unread", "until_s"),
    )

    def __init__(
        self,
        counted: Sequence[Counted],
        purses: Sequence[Purse] = (),
        *,
        from_s: float = -math.inf,
        until_s: float = math.inf,
    ) -> None:
        self.counted = counted
        self.purses = purses
        self.acting = [one for one in purses if one.acts_from is not None]
        self.from_s = from_s
        self.until_s = until_s
        self.claims = [one.claim(_SOME) for one in counted]
        of_tokens = [n for n, one in enumerate(counted) if one.limit.unit in TOKEN_UNITS]
        is_same = not any(self.claims[number].is_strict for number in of_tokens)
        self._is_same = is_same and not purses
        self.caps_output = any(caps_output(one.limit) for one in counted) or any(
            one.blocks for one in purses
        )
        self.settled = [n for n, one in enumerate(counted) if one.limit.unit is not _REQUESTS]
        self.shared = [one.limit for one in counted if one.is_shared]
        of_requests = [n for n, one in enumerate(counted) if one.limit.unit is _REQUESTS]
        self.by_kind = ((_OF_REQUESTS, of_requests), (_OF_TOKENS, of_tokens))
        self.unread: Known | None = self
        if len(of_requests) < len(counted) or purses:
            requests = [counted[number] for number in of_requests]
            self.unread = Known(requests) if requests else None

    def claims_of(self, bounds: Bounds) -> Sequence[Claim]:
        """The claims of a request with these bounds."""
        if self._is_same and bounds.input_tokens and bounds.output_tokens:
            return self.claims
        claims = [one.claim(bounds) for one in self.counted]
        claims += [claim for one in self.purses if (claim := one.claim(bounds)) is not None]
        return claims

    @property
    def is_nothing(self) -> bool:
        """Whether nothing bears on these requests."""
        return not (self.counted or self.purses)

    def closed_purse(self, bounds: Bounds) -> Purse | None:
        """A budget that can't let in a request with these bounds at all."""
        return next((one for one in self.purses if one.claim(bounds) is None), None)


def kept_of(*parts: Known | None) -> Known | None:
    """What of these bears on a request that is answered from a cache: what counts no tokens, and
    no budget. None if nothing does.
    """
    all_counted = (each for one in parts if one is not None for each in one.counted)
    counted = [each for each in all_counted if each.limit.unit not in TOKEN_UNITS]
    return Known(counted) if counted else None


def counter_of(bearing: Bearing, *, shared_by: str = "") -> Counter:
    """The counter of a limit and the one it counts for; what callers write is in it as a hash.

    Those of a key that are too many to be counted apart have one together, `shared_by` the key.
    """
    limit = bearing.limit
    window = "" if limit.window is None else limit.window.value
    subject, sort = (shared_by, _SHARED) if shared_by else (bearing.subject, b"")
    name = "\0".join((limit.id, limit.unit.value, window, subject))
    raw = name.encode(errors="surrogatepass")
    digest = blake2b(raw, digest_size=16, person=sort).hexdigest()
    is_strict = limit.enforcement is Enforcement.STRICT
    return Counter(
        key=limits_counter_key(limit.organisation_id, digest),
        organisation_id=limit.organisation_id,
        window_ms=WINDOW_MS[limit.window],
        amount=limit.amount,
        is_refundable=limit.unit is LimitUnit.PARALLEL or (limit.unit in TOKEN_UNITS and is_strict),
    )
