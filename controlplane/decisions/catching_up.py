"""Whether the ledger has all that had ended at some moment.

An end goes from its gateway's journal to the stream in order, and from there to the ledger. So it
takes two proofs: that every process which lived then has handed over what it had, and that the
recorder has passed the place where the stream ended after that.
"""

from collections.abc import Iterable, Mapping, Sequence

from inference.contract.kinds import ProcessRole
from inference.contract.vitals import VITALS_LIFE_S, Vitals

GONE_S = 65.0
"""What a process left in its journal when it died is fed within a minute, by any other there."""

Mark = tuple[float, float]
"""Of a process: when it started, and what time it was then, both by its own clock."""


def marks_of(
    vitals: Iterable[Vitals], seen: Mapping[str, float], *, now_s: float
) -> Mapping[str, Mark]:
    """What to remember of the moment, by process.

    `seen` is when each process wrote its record and `now_s` the moment, by the store's clock; a
    record nobody knows the age of is as old as one can be.
    """
    ages = {
        one.process: max(now_s - seen.get(one.process, now_s - VITALS_LIFE_S), 0.0)
        for one in _gateways(vitals)
    }
    return {
        one.process: (one.started_at, one.written_at + ages[one.process])
        for one in _gateways(vitals)
    }


def laggards(
    marks: Mapping[str, Sequence[float]],
    vitals: Iterable[Vitals],
    seen: Mapping[str, float],
    *,
    then_s: float,
    now_s: float,
) -> tuple[str, ...]:
    """Processes that may not have handed over all they had at `then_s`, by name.

    `seen` is when each process last wrote its record; it and the two times are the store's.
    """
    live = {one.process: one for one in _gateways(vitals)}
    found = {
        process
        for process, (started_at, since) in marks.items()
        if not _has_handed_over(live.get(process), started_at, since, then_s, now_s)
    }
    found |= {
        process
        for process, at in seen.items()
        if "/" in process and process not in live and now_s - at < GONE_S and at <= then_s
    }
    return tuple(sorted(found))


def _has_handed_over(
    one: Vitals | None, started_at: float, since: float, then_s: float, now_s: float
) -> bool:
    if one is None or one.started_at != started_at:
        return now_s - then_s >= GONE_S
    if one.written_at < since:
        return False
    return one.journal_backlog <= sum(row.requests for row in one.traffic if row.at >= since)


def _gateways(vitals: Iterable[Vitals]) -> Iterable[Vitals]:
    return (one for one in vitals if one.role is ProcessRole.GATEWAY)
