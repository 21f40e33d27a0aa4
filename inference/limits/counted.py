"""The limits that bear on requests of one kind, and the counters they are kept by."""

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
    """All limits of one caller's requests. `claims` are those of a request that uses tokens, if no
    strict limit on tokens makes them different each time."""

    __slots__ = (
        *("_is_same", "by_kind", "caps_output", "claims", "counted", "settled", "shared"),
        "unread",
    )

    def __init__(self, counted: Sequence[Counted]) -> None:
        self.counted = counted
        self.claims = [one.claim(_SOME) for one in counted]
        of_tokens = [n for n, one in enumerate(counted) if one.limit.unit in TOKEN_UNITS]
        self._is_same = not any(self.claims[number].is_strict for number in of_tokens)
        self.caps_output = any(caps_output(one.limit) for one in counted)
        self.settled = [n for n, one in enumerate(counted) if one.limit.unit is not _REQUESTS]
        self.shared = [one.limit for one in counted if one.is_shared]
        of_requests = [n for n, one in enumerate(counted) if one.limit.unit is _REQUESTS]
        self.by_kind = ((_OF_REQUESTS, of_requests), (_OF_TOKENS, of_tokens))
        self.unread: Known | None = self
        if len(of_requests) < len(counted):
            requests = [counted[number] for number in of_requests]
            self.unread = Known(requests) if requests else None

    def claims_of(self, bounds: Bounds) -> Sequence[Claim]:
        """The claims of a request with these bounds."""
        if self._is_same and bounds.input_tokens and bounds.output_tokens:
            return self.claims
        return [one.claim(bounds) for one in self.counted]


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
