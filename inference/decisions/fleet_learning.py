"""What recorded attempts say of the workers that made them: the parts of a `WorkerModel`.

All attempts at a worker in a stretch of time are looked at together, since each one's time depends
on the others under way. So a sample of single requests would teach nothing; whole stretches do.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import accumulate
from typing import TypeVar

from inference.decisions.fleetmodel import WorkerModel
from inference.decisions.roster import USUAL_CONCURRENCY

ENOUGH = 100
"""A worker with so many attempts to learn from has a model of its own; others have their pool's."""

_FEWEST = 8
"""Fewer than this say nothing; the pool is assumed to be a usual one then."""

_MOST_SAMPLES = 20_000
_STEPS_THAT_SHOW = 4
_SPREAD = 200
_LEAST_FACTOR, _MOST_FACTOR = 0.05, 20.0
_INSTANT_S = 1e-6
_MOST_READING = 0.99

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class AttemptFact:
    """One recorded attempt, in seconds of one clock; None is not recorded.

    `prompt_tokens` are those that were not cached. `is_guessed`: nobody saw the first token.
    """

    worker_id: str
    pool_id: str
    started_s: float
    ended_s: float
    first_token_at_s: float | None
    prompt_tokens: int | None
    output_tokens: int | None
    is_guessed: bool = False


@dataclass(frozen=True, slots=True)
class Learned:
    """Models by worker id and by pool id; what is in neither was never seen."""

    workers: Mapping[str, WorkerModel]
    pools: Mapping[str, WorkerModel]

    def of(self, worker_id: str, pool_id: str) -> WorkerModel:
        """The best there is of a worker."""
        return self.workers.get(worker_id) or self.pools.get(pool_id) or WorkerModel()


@dataclass(frozen=True, slots=True)
class _Beginning:
    """A first token: how long it took, and what there was to do."""

    took_s: float
    prompt_tokens: int
    running: int
    unread_before: float


@dataclass(frozen=True, slots=True)
class _Answering:
    """From first token to last: how long, how many steps, with how many others on the average.

    `read` are the tokens of prompts that were read meanwhile.
    """

    took_s: float
    steps: int
    batch: float
    read: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the attempts at one worker, or at those of a pool, show."""

    beginnings: list[_Beginning] = field(default_factory=list)
    answers: list[_Answering] = field(default_factory=list)

    def add(self, other: "_Seen") -> None:
        self.beginnings.extend(other.beginnings)
        self.answers.extend(other.answers)


def learn(attempts: Iterable[AttemptFact], *, concurrency: Mapping[str, int]) -> Learned:
    """Learn from attempts of whole stretches of time; `concurrency` is by pool id."""
    by_worker: dict[tuple[str, str], list[AttemptFact]] = {}
    for one in attempts:
        by_worker.setdefault((one.pool_id, one.worker_id), []).append(one)
    of_pools: dict[str, _Seen] = {}
    workers: dict[str, WorkerModel] = {}
    for (pool_id, worker_id), facts in sorted(by_worker.items()):
        facts.sort(key=lambda one: one.started_s)
        seen = _seen(facts, concurrency.get(pool_id, USUAL_CONCURRENCY))
        of_pools.setdefault(pool_id, _Seen()).add(seen)
        if min(len(seen.beginnings), len(seen.answers)) >= ENOUGH:
            workers[worker_id] = _fitted(seen)
    pools = {
        pool_id: _fitted(seen)
        for pool_id, seen in of_pools.items()
        if len(seen.beginnings) >= _FEWEST
    }
    return Learned(workers, pools)


def _seen(facts: Sequence[AttemptFact], concurrency: int) -> _Seen:
    """Look at what is recorded in full, then again with a guess at what is not."""
    timed = [one for one in facts if one.first_token_at_s is not None]
    seen = _looked_at(timed, concurrency)
    if len(timed) == len(facts) or len(seen.beginnings) < _FEWEST:
        return seen
    model = _fitted(seen)
    return _looked_at([_guessed(one, model) for one in facts], concurrency)


def _guessed(one: AttemptFact, model: WorkerModel) -> AttemptFact:
    """With a first token where the model expects it, if none was recorded; it shows nothing then.

    Of an answer that came whole nobody saw the beginning, but it was read and answered as well.
    """
    if one.first_token_at_s is not None:
        return one
    at_s = one.started_s + model.begins_in_s(one.prompt_tokens or 0, 0)
    return replace(one, first_token_at_s=min(at_s, one.ended_s), is_guessed=True)


def _looked_at(facts: Sequence[AttemptFact], concurrency: int) -> _Seen:
    reading = _reading(facts)
    answering = Level(
        [(one.first_token_at_s or one.started_s, 1.0) for one in facts]
        + [(one.ended_s, -1.0) for one in facts]
    )
    seen = _Seen()
    under_way: list[float] = []
    sent = 0
    for one in facts:
        while under_way and under_way[0] <= one.started_s:
            heappop(under_way)
        begun_s = one.first_token_at_s
        assert begun_s is not None
        if not one.is_guessed and one.prompt_tokens is not None:
            if len(under_way) < concurrency:
                unread = max(sent - reading.until(one.started_s), 0.0)
                took_s = max(begun_s - one.started_s, 0.0)
                seen.beginnings.append(
                    _Beginning(took_s, one.prompt_tokens, len(under_way), unread)
                )
            steps = (one.output_tokens or 0) - 1
            if steps >= _STEPS_THAT_SHOW and one.ended_s > begun_s:
                took_s = one.ended_s - begun_s
                batch = (answering.until(one.ended_s) - answering.until(begun_s)) / took_s
                read = reading.until(one.ended_s) - reading.until(begun_s)
                seen.answers.append(_Answering(took_s, steps, batch, max(read, 0.0)))
        heappush(under_way, one.ended_s)
        sent += one.prompt_tokens or 0
    return seen


def _reading(facts: Sequence[AttemptFact]) -> "Level":
    """How many tokens of prompts are read a second: each evenly, from when those before are."""
    changes: list[tuple[float, float]] = []
    read_until_s = float("-inf")
    for one in facts:
        done_s = one.first_token_at_s
        assert done_s is not None
        begun_s = max(one.started_s, read_until_s)
        if begun_s >= done_s:
            begun_s = one.started_s
        read_until_s = max(read_until_s, done_s)
        rate = (one.prompt_tokens or 0) / max(done_s - begun_s, _INSTANT_S)
        changes += [(begun_s, rate), (max(done_s, begun_s + _INSTANT_S), -rate)]
    return Level(changes)


def _fitted(seen: _Seen) -> WorkerModel:
    model = WorkerModel(samples=len(seen.beginnings))
    if len(seen.beginnings) >= _FEWEST:
        model = _with_beginnings(model, _thinned(seen.beginnings))
    if len(seen.answers) >= _FEWEST:
        few = _thinned(seen.answers)
        rows = [(one.steps, one.steps * one.batch, one.read) for one in few]
        step_s, batch_s, read_s = least_squares(rows, [one.took_s for one in few])
        share = read_s / model.prompt_token_s if model.prompt_token_s > 0 else 0.0
        model = replace(
            model,
            step_s=step_s,
            step_batch_s=batch_s,
            reading_share=min(share, _MOST_READING) if model.is_serial else 0.0,
        )
    return model


def _with_beginnings(model: WorkerModel, few: Sequence[_Beginning]) -> WorkerModel:
    """Take prompts to be read one after another, or each at once: as first tokens tell better."""
    took = [one.took_s for one in few]
    fits = []
    for is_serial in (True, False):
        rows = [
            (1.0, one.prompt_tokens + one.unread_before * is_serial, float(one.running))
            for one in few
        ]
        found = least_squares(rows, took)
        missed = sum(
            (value - sum(a * b for a, b in zip(row, found, strict=True))) ** 2
            for row, value in zip(rows, took, strict=True)
        )
        fits.append((missed, not is_serial, found))
    _, is_parallel, (fixed, token_s, running_s) = min(fits)
    model = replace(
        model,
        first_token_s=fixed,
        prompt_token_s=token_s,
        running_s=running_s,
        is_serial=not is_parallel,
    )
    return replace(model, spread=_spread(model, few))


def _spread(model: WorkerModel, few: Sequence[_Beginning]) -> tuple[float, ...]:
    """How much first tokens differ from what is expected of them, in even steps of rank.

    Of those that had nothing to wait for; the waits of others come from the model.
    """
    factors = []
    for one in few:
        expected_s = model.begins_in_s(one.prompt_tokens, one.running)
        if expected_s > 0 and (one.unread_before < 1 or not model.is_serial):
            factors.append(min(max(one.took_s / expected_s, _LEAST_FACTOR), _MOST_FACTOR))
    factors.sort()
    if len(factors) < _FEWEST:
        return (1.0,)
    size = min(_SPREAD, len(factors))
    return tuple(factors[int((place + 0.5) * len(factors) / size)] for place in range(size))


class Level:
    """Something that goes up and down at given times, and how much of it there was until a time."""

    def __init__(self, changes: Iterable[tuple[float, float]]) -> None:
        ordered = sorted(changes)
        self._times = [at_s for at_s, _ in ordered]
        self._levels = list(accumulate(change for _, change in ordered))
        self._areas = [0.0]
        for place in range(1, len(ordered)):
            passed_s = self._times[place] - self._times[place - 1]
            self._areas.append(self._areas[-1] + self._levels[place - 1] * passed_s)

    def until(self, at_s: float) -> float:
        """The area below it up to this time."""
        place = bisect_right(self._times, at_s) - 1
        if place < 0:
            return 0.0
        return self._areas[place] + self._levels[place] * (at_s - self._times[place])


def least_squares(rows: Sequence[Sequence[float]], values: Sequence[float]) -> tuple[float, ...]:
    """The coefficients, none below 0, that come closest to the values; one a column.

    A column that would have a negative one is left out, the most negative first.
    """
    width = len(rows[0])
    kept = list(range(width))
    while kept:
        found = _solved(rows, values, kept)
        worst = min(range(len(kept)), key=lambda place: found[place])
        if found[worst] >= 0:
            by_column = dict(zip(kept, found, strict=True))
            return tuple(by_column.get(column, 0.0) for column in range(width))
        del kept[worst]
    return (0.0,) * width


def _solved(
    rows: Sequence[Sequence[float]], values: Sequence[float], kept: Sequence[int]
) -> list[float]:
    """Solve the normal equations of these columns; one that the others make up for is 0."""
    scales = [max(max(abs(row[column]) for row in rows), 1e-12) for column in kept]
    scaled = [
        [row[column] / scale for column, scale in zip(kept, scales, strict=True)] for row in rows
    ]
    size = len(kept)
    matrix = [
        [sum(row[i] * row[j] for row in scaled) for j in range(size)]
        + [sum(row[i] * value for row, value in zip(scaled, values, strict=True))]
        for i in range(size)
    ]
    least = 1e-9 * len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda line: abs(matrix[line][column]))
        matrix[column], matrix[pivot] = matrix[pivot], matrix[column]
        if abs(matrix[column][column]) < least:
            matrix[column] = [0.0] * (size + 1)
            matrix[column][column] = 1.0
        head = matrix[column]
        for line in range(size):
            if line != column and matrix[line][column]:
                factor = matrix[line][column] / head[column]
                matrix[line] = [
                    one - factor * other for one, other in zip(matrix[line], head, strict=True)
                ]
    return [matrix[i][size] / matrix[i][i] / scales[i] for i in range(size)]


def _thinned(items: Sequence[_T]) -> Sequence[_T]:
    """At most so many of them, evenly over all."""
    every = len(items) // _MOST_SAMPLES + 1
    return items[::every]
