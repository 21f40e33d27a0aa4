"""What vitals say of queues and degradation: the most there was of each in a bucket.

Sums over processes of one moment, and of such moments the greatest: writing one again, or an older
one later, takes nothing away. Nothing is no row.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from controlplane.decisions.live import FINE_S, bucket_of_time, id_text, is_believed
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Vitals


class PeakKind(StrEnum):
    """What is kept, by pool; of steps by route."""

    WAITING = "waiting"
    OLDEST_WAIT_MS = "oldest_wait_ms"
    STEPS = "steps"


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakRow:
    """A row of the table of peaks, its members named as the columns are."""

    resolution_s: int
    kind: str
    subject_id: str
    at: datetime
    value: float
    since: datetime | None = None

    @property
    def key(self) -> tuple[str, str, datetime]:
        """The order in which every writer takes its locks."""
        return (self.kind, self.subject_id, self.at)


Held = Mapping[str, tuple[float, datetime]]
"""By route, how many steps it had a moment ago and since when."""


def peak_rows(vitals: Iterable[Vitals], now: datetime, held: Held) -> tuple[PeakRow, ...]:
    """The fine rows of this moment.

    Of a route's processes the one that has taken most steps has the say; steps that are as many as
    `held` have been so since then.
    """
    waiting: Counter[str] = Counter()
    oldest: dict[str, float] = {}
    steps: dict[str, int] = {}
    for one in vitals:
        if one.role is not ProcessRole.GATEWAY or not is_believed(one.written_at, now):
            continue
        waiting.update(one.queued)
        for name, value in one.oldest_wait_ms.items():
            oldest[name] = max(oldest.get(name, 0.0), value)
        for name, taken in one.degraded.items():
            steps[name] = max(steps.get(name, 0), taken)
    found = [
        *_rows(PeakKind.WAITING, waiting, now),
        *_rows(PeakKind.OLDEST_WAIT_MS, oldest, now),
        *(_with_since(row, held, now) for row in _rows(PeakKind.STEPS, steps, now)),
    ]
    return tuple(sorted(found, key=lambda row: row.key))


def _rows(kind: PeakKind, values: Mapping[str, float], now: datetime) -> Sequence[PeakRow]:
    at = bucket_of_time(now.timestamp(), FINE_S)
    return [
        PeakRow(resolution_s=FINE_S, kind=kind.value, subject_id=id_text(name), at=at, value=value)
        for name, value in values.items()
        if value > 0
    ]


def _with_since(row: PeakRow, held: Held, now: datetime) -> PeakRow:
    value, since = held.get(row.subject_id, (0.0, now))
    return replace(row, since=since if value == row.value else now)


def folded_peaks(rows: Iterable[PeakRow], length_s: int) -> tuple[PeakRow, ...]:
    """The rows of longer buckets: of each the greatest, of equals the last."""
    longer: dict[tuple[str, str, datetime], PeakRow] = {}
    for row in sorted(rows, key=lambda row: row.at):
        at = bucket_of_time(row.at.timestamp(), length_s)
        moved = replace(row, resolution_s=length_s, at=at)
        held = longer.get(moved.key)
        if held is None or moved.value >= held.value:
            longer[moved.key] = moved
    return tuple(longer[key] for key in sorted(longer))
