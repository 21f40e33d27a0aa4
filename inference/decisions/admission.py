"""Which limits bear on a request, what each takes of it and is owed in the end, what a "no" says.

A limit that names nobody counts each of its kind apart, so what is counted is a limit together with
the one it counts for: a `Bearing`.
"""

import math
from collections.abc import Iterable, Mapping, Sequence

from inference.contract.events import Usage
from inference.contract.kinds import Enforcement, LimitSubject, LimitUnit, LimitWindow
from inference.contract.snapshot import LimitRecord
from inference.contract.values import frozen

WINDOW_MS: Mapping[LimitWindow | None, int] = {
    LimitWindow.SECOND: 1_000,
    LimitWindow.MINUTE: 60_000,
    LimitWindow.HOUR: 3_600_000,
    LimitWindow.DAY: 86_400_000,
    None: 0,
}

TOKEN_UNITS = frozenset((LimitUnit.INPUT_TOKENS, LimitUnit.OUTPUT_TOKENS, LimitUnit.TOTAL_TOKENS))

LimitIndex = Mapping[str, Mapping[tuple[LimitSubject, str | None], Sequence[LimitRecord]]]
"""Enabled limits by organisation, then by kind of subject and its id (None: each apart)."""

# A process that needs more within this time of the last is given twice as much ahead; one that got
# by for so long, half. So a slice lasts for about a second, and a process that dies loses no more.
_SOON_S = 1.0
_LONG_S = 2.0
_MOST_AHEAD = 2**40


@frozen
class Requester:
    """Who asks for what, by id; None is not known, or there is none."""

    organisation_id: str
    team_id: str
    project_id: str
    key_id: str
    end_user: str | None = None
    model_id: str | None = None
    route_id: str | None = None


@frozen
class Bearing:
    """A limit that a request has to keep, and the one it is counted for."""

    limit: LimitRecord
    subject: str


@frozen
class Bounds:
    """The most tokens a request may use, and the most it may cost; None is not known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_nanousd: int | None = None

    def of(self, unit: LimitUnit) -> int:
        """As one token unit counts them."""
        if unit is LimitUnit.INPUT_TOKENS:
            return self.input_tokens
        if unit is LimitUnit.OUTPUT_TOKENS:
            return self.output_tokens
        return self.input_tokens + self.output_tokens


@frozen
class Stake:
    """What a limit wants of a request: `floor` must be left of it, `take` is taken beforehand."""

    floor: int
    take: int


@frozen
class Spent:
    """What is known of one attempt's use; `is_final` says that its answer was whole."""

    usage: Usage | None
    was_sent: bool
    is_final: bool
    http_status: int | None = None
    model_id: str | None = None
    cost_nanousd: int = 0
    """What it is booked with: a lower bound, to which what is not known adds nothing."""


@frozen
class Used:
    """Tokens a request used; None is not known, which is not 0."""

    input_tokens: int | None = 0
    output_tokens: int | None = 0


def index_limits(limits: Mapping[str, LimitRecord]) -> LimitIndex:
    """Enabled limits, to be looked up by whoever they are about."""
    index: dict[str, dict[tuple[LimitSubject, str | None], list[LimitRecord]]] = {}
    for limit in sorted(limits.values(), key=lambda one: one.id):
        if limit.is_enabled:
            of_organisation = index.setdefault(limit.organisation_id, {})
            of_organisation.setdefault((limit.subject, limit.subject_id), []).append(limit)
    return index


def bearing_limits(index: LimitIndex, requester: Requester) -> tuple[Bearing, ...]:
    """All limits the request has to keep, by kind of subject."""
    return _bearing(
        index,
        requester.organisation_id,
        (LimitSubject.ORGANISATION, ""),
        (LimitSubject.TEAM, requester.team_id),
        (LimitSubject.PROJECT, requester.project_id),
        (LimitSubject.KEY, requester.key_id),
        (LimitSubject.END_USER, requester.end_user),
        (LimitSubject.MODEL, requester.model_id),
        (LimitSubject.ROUTE, requester.route_id),
    )


def limits_of_model(index: LimitIndex, organisation_id: str, model_id: str) -> tuple[Bearing, ...]:
    """Those of a model alone, for a request that may go to one of several."""
    return _bearing(index, organisation_id, (LimitSubject.MODEL, model_id))


def _bearing(
    index: LimitIndex, organisation_id: str, *names: tuple[LimitSubject, str | None]
) -> tuple[Bearing, ...]:
    limits = index.get(organisation_id)
    if limits is None:
        return ()
    bearings: list[Bearing] = []
    for subject, name in names:
        if name is None:
            continue
        for subject_id in (None, name) if name else (None,):
            found = limits.get((subject, subject_id))
            if found is not None:
                bearings += [Bearing(limit, name) for limit in found]
    return tuple(bearings)


def is_by_name(limit: LimitRecord) -> bool:
    """Whether it counts apart each whose name a caller wrote: nobody knows how many there are."""
    return limit.subject is LimitSubject.END_USER and limit.subject_id is None


def stake_of(limit: LimitRecord, bounds: Bounds) -> Stake:
    """What must be left, and what is taken, before the request may go on.

    A lenient limit on tokens lets in whoever comes while any are left, and takes none: requests
    under way count once they have ended, so it may be passed by what they use. A strict one takes
    all that the request may use. Who can use none passes both.
    """
    if limit.unit not in TOKEN_UNITS:
        return Stake(1, 1)
    most = bounds.of(limit.unit)
    if limit.enforcement is Enforcement.STRICT:
        return Stake(most, most)
    return Stake(min(most, 1), 0)


def caps_output(limit: LimitRecord) -> bool:
    """Whether it relies on answers being no longer than their bound."""
    is_strict = limit.enforcement is Enforcement.STRICT
    return is_strict and limit.unit in (LimitUnit.OUTPUT_TOKENS, LimitUnit.TOTAL_TOKENS)


def answer_of(attempts: Iterable[Spent]) -> Spent | None:
    """The answer the caller got, or the last that was begun; None if nothing was sent.

    The winner of a race is its last attempt, though one that it overtook may be whole as well.
    """
    sent = [one for one in attempts if one.was_sent]
    last = sent[-1] if sent else None
    return next((one for one in reversed(sent) if one.is_final), last)


def tokens_used(attempts: Iterable[Spent]) -> Used:
    """What the request counts for: the answer its caller got, or the last that was begun.

    Further attempts are the installation's affair. An attempt that was refused used nothing; one
    that was sent and told nothing used nobody knows how much.
    """
    told = answer_of(attempts)
    if told is None:
        return Used()
    if told.usage is None:
        was_refused = told.http_status is not None and not 200 <= told.http_status < 300
        return Used() if was_refused else Used(None, None)
    return Used(told.usage.prompt_tokens, told.usage.completion_tokens)


def booked(limit: LimitRecord, bounds: Bounds, used: Used) -> tuple[int, bool]:
    """What a limit counts for a request in the end, and whether that is an estimate.

    Parallel requests count nothing once they have ended. What is not known is counted as the most
    it can have been. The total is the sum, whatever an engine says of it.
    """
    if limit.unit is LimitUnit.REQUESTS:
        return 1, False
    if limit.unit is LimitUnit.PARALLEL:
        return 0, False
    parts: list[tuple[int | None, int]] = []
    if limit.unit is not LimitUnit.OUTPUT_TOKENS:
        parts.append((used.input_tokens, bounds.input_tokens))
    if limit.unit is not LimitUnit.INPUT_TOKENS:
        parts.append((used.output_tokens, bounds.output_tokens))
    total = sum(most if known is None else known for known, most in parts)
    return total, any(known is None and most > 0 for known, most in parts)


def units_ahead(ahead: int, *, floor: int, since_s: float) -> int:
    """How many units a process asks for beyond what it needs, `since_s` after it last asked.

    None for a counter that is seldom used: then a slice is the need itself. The store gives less
    when less is left: a slice is at most a share of the rest, down to nothing beyond the need.
    """
    if since_s >= _LONG_S:
        return ahead // 2
    if since_s >= _SOON_S:
        return ahead
    return min(max(2 * ahead, 2 * floor), _MOST_AHEAD)


def is_too_large(limit: LimitRecord, stake: Stake) -> bool:
    """Whether the request can never be let in, however empty the window."""
    return limit.unit in TOKEN_UNITS and 0 < limit.amount < stake.floor


def refusal_words(limit: LimitRecord, stake: Stake, *, retry_after_s: int | None) -> str:
    """What the caller of a refused request is told."""
    window = "at a time" if limit.window is None else f"a {limit.window.value}"
    whose = limit.subject.value.replace("_", " ")
    unit = limit.unit.value.replace("_", " ")
    if limit.unit is LimitUnit.PARALLEL:
        unit = "requests"
    rule = f"The limit {limit.name} of this {whose} is {limit.amount} {unit} {window}"
    if is_too_large(limit, stake):
        return f"{rule}, and this request may use {stake.floor}."
    if limit.amount == 0:
        return f"{rule}."
    wait = "" if retry_after_s is None else f" Please try again in {retry_after_s} s."
    return f"{rule}, and it is reached.{wait}"


def duration_words(seconds: float) -> str:
    """A duration as OpenAI writes it in headers: `250ms`, `12s`, `6m0s`, `1h0m30s`."""
    if seconds <= 0:
        return "0s"
    if seconds < 1:
        return f"{max(math.ceil(seconds * 1000), 1)}ms"
    whole = math.ceil(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    if hours:
        return f"{hours}h{minutes}m{rest}s"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
