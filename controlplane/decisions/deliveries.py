"""When a message is tried again, when it is given up, and when its channel is."""

from dataclasses import dataclass
from datetime import datetime, time, timedelta
from zoneinfo import ZoneInfo

from controlplane.decisions.alert_kinds import DeliveryKind, Severity
from controlplane.decisions.quiet import quiet_until

TRIES = 8
_PAUSES_S = (5, 15, 60, 180, 600, 1_200, 1_800)
LONGEST_WAIT_S = 3_600
"""Nobody who asks for patience is given more."""

_LONGEST_HOLD_S = 60
"""So long at most is a channel left alone after a failure: one that hangs must not hold up others,
and a message that is tried rarely must not hold up the next."""

LEASE = timedelta(seconds=90)
"""A message that is being sent for longer was left by a process that ended; calls last 20 s."""

ENOUGH_FAILURES = 10
"""A channel that failed so often without a success between is switched off."""

_WEIGHT_OF_REFUSAL = 5
"""An answer that will be the same next time weighs as much as so many that may not."""

_TEMPORARY = frozenset((408, 425, 429))


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a message didn't go out; `retry_after_s` is what the receiver asked for.

    A final one will be the same next time. After an uncertain one the receiver may have it.
    """

    words: str
    status: int | None = None
    retry_after_s: float | None = None
    is_final: bool = False
    is_uncertain: bool = False


def failure_of_status(status: int, retry_after_s: float | None) -> Failure | None:
    """What an HTTP status means for a message; None: it was taken."""
    if 200 <= status < 300:
        return None
    words = f"The receiver answered {status}."
    if status >= 500 or status in _TEMPORARY:
        return Failure(words, status, retry_after_s)
    if 300 <= status < 400:
        words = f"The receiver answered {status}; redirects are not followed."
    return Failure(words, status, is_final=True)


@dataclass(frozen=True, slots=True)
class Holding:
    """When a channel keeps messages back: to tell several at once, and in its quiet hours."""

    digest_s: int
    quiet_from: time | None
    quiet_until: time | None
    critical_passes: bool
    zone: ZoneInfo


def held_until(
    holding: Holding, kind: DeliveryKind, severity: str, *, now: datetime
) -> datetime | None:
    """Until when a message is kept back; None: it goes out at once.

    What somebody asked for, and what changes a message that is there, is never kept.
    """
    if kind in (DeliveryKind.TEST, DeliveryKind.UPDATED, DeliveryKind.DIGEST):
        return None
    if severity == Severity.CRITICAL and holding.critical_passes:
        return None
    until = now + timedelta(seconds=holding.digest_s)
    if holding.quiet_from is not None and holding.quiet_until is not None:
        over = quiet_until(until, holding.zone, holding.quiet_from, holding.quiet_until)
        until = over or until
    return until if until > now else None


@dataclass(frozen=True, slots=True)
class Next:
    """What becomes of a message that failed: tried again at `at`, or given up (None).

    `channel_waits_until` is when the channel may be asked again, for its other messages too;
    `weight` is what the failure counts towards switching it off.
    """

    at: datetime | None
    channel_waits_until: datetime | None
    weight: int


def after_failure(failure: Failure, *, attempts: int, now: datetime) -> Next:
    """Decide, after so many attempts; whoever asks for patience is patient and doesn't count."""
    asked = failure.retry_after_s
    if failure.is_final:
        return Next(None, None, _WEIGHT_OF_REFUSAL)
    weight = 0 if failure.status == 429 or asked is not None else 1
    pause_s: float = _PAUSES_S[min(attempts, len(_PAUSES_S)) - 1]
    hold_s = min(pause_s, _LONGEST_HOLD_S)
    if asked is not None:
        pause_s = hold_s = min(max(asked, 0.0), LONGEST_WAIT_S)
    again = None if attempts >= TRIES else now + timedelta(seconds=pause_s)
    return Next(again, now + timedelta(seconds=hold_s), weight)
