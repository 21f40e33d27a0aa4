"""One call of the lease script: what it is told and asked, and what its answer means."""

from asyncio import Future
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import structlog

from inference.contract import wire
from inference.limits.slices import Permit, Slice

MOST_ROWS = 200
"""Of one call, which holds up everybody else: some ten microseconds each."""

log = structlog.get_logger(__name__)

DEAD_S = wire.LIMITS_DEAD_S
# A process's own word on held units ends a little before that.
_OWN_SHARE = 0.8


@dataclass(slots=True)
class Late:
    """What came late in this life of the process: it was taken for dead, and what it had reserved
    of budgets was freed, and it told it again all the same.

    Counters, units of them, and how many of these went past the amount.
    """

    counters: int = 0
    units: int = 0
    past: int = 0

    def add(self, key: str, units: int, past: int) -> None:
        """Note what came late to one counter."""
        self.counters += 1
        self.units += units
        self.past += past
        log.warning("reserved again what had been freed", counter=key, nanousd=units, past=past)


@dataclass(slots=True, eq=False)
class Ask:
    """A request that waits for the store. Of its claims some could be met from here meanwhile, at
    the places `held`; the others are `lacking`.

    `questions` are those it waits for, each with the window it was put in. It is tried again by
    `retry_s` and refused after `due_s`.
    """

    permit: Permit
    future: "Future[Permit]"
    due_s: float
    retry_s: float = 0.0
    held: list[int] = field(default_factory=list)
    lacking: list[int] = field(default_factory=list)
    questions: dict[Slice, tuple[int | None, int]] = field(default_factory=dict)

    def question_of(self, one: Slice) -> int:
        """The question on a counter whose answers it waits for; 0 is none."""
        window, question = self.questions.get(one, (None, 0))
        return question if window == one.window else 0


@dataclass(frozen=True, slots=True)
class Row:
    """What is said of one slice: as it was when the call was made."""

    slice: Slice
    got: int
    may_return: int
    late: int
    want: int
    answer: int


@dataclass(slots=True)
class Batch:
    """One organisation's part of a round trip."""

    organisation_id: str
    rows: list[Row] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    places: dict[Slice, int] = field(default_factory=dict)

    def add(self, one: Slice, now_s: float, *, is_short: bool, is_beat: bool = False) -> None:
        """Tell of a slice as it is now; what it has to give back is given back."""
        if one in self.places:
            return
        answer = 0
        if one.question > one.answered and not one.pending:
            answer = one.question
        is_unheard = not one.counter.window_ms and now_s >= one.ends_s
        is_unused = is_beat and now_s - one.used_s > 2.0
        if is_short or answer or is_unheard or is_unused:
            one.give_up()
        self.places[one] = len(self.rows) + 1
        want = one.ahead if is_short or one.is_due else 0
        self.rows.append(Row(one, one.got, one.may_return, one.late, want, answer))
        one.is_due = False
        one.is_asked = True

    def words(self, holder: str, seq: int, *, is_beat: bool) -> tuple[str | int, ...]:
        """The keys and arguments of the script."""
        keys = [wire.limits_holders_key(self.organisation_id)]
        keys += [row.slice.counter.key for row in self.rows]
        head = (holder, seq, int(DEAD_S * 1000), wire.LIMITS_CHANNEL, int(is_beat))
        arguments: list[str | int] = [*head]
        for row in self.rows:
            one = row.slice
            window = "" if one.window is None else one.window
            # a budget's end goes by its minus, for lengths of windows have none
            length_ms: str | int = one.counter.window_ms or -one.counter.ends_ms
            if one.counter.step_ms:
                length_ms = f"~{one.counter.step_ms}:{one.counter.steps}"
            arguments += (length_ms, one.counter.amount, window)
            arguments += (row.got, row.may_return, row.late, row.want, row.answer)
        arguments.append(len(self.asks))
        for ask in self.asks:
            arguments.append(len(ask.lacking))
            for place in ask.lacking:
                claim, one = ask.permit.claims[place], ask.permit.slices[place]
                arguments += (self.places[one], claim.floor, claim.take)
                arguments += (int(claim.counter.is_refundable), ask.question_of(one))
        return (len(keys), *keys, *arguments)

    def absorb(self, replies: Sequence[Sequence[Any]], late: Late, *, sent_s: float) -> None:
        """Take over what the store says of each slice."""
        for row, reply in zip(self.rows, replies, strict=True):
            _absorb(row, reply, late, sent_s=sent_s)


def _absorb(row: Row, reply: Sequence[Any], late: Late, *, sent_s: float) -> None:
    window, left_ms, given, rest, elsewhere, question, mine, again, past = map(int, reply)
    one = row.slice
    if again:
        late.add(one.counter.key, again, past)
    if window != one.window:
        one.roll(window)
        one.got = mine
        one.question = question
    else:
        one.got += mine - row.got
        one.question = max(one.question, question)
        one.answered = max(one.answered, row.answer)
    one.is_asked = False
    one.late -= row.late
    one.left += given
    if row.want:
        one.given = given
    one.rest = rest
    one.held = elsewhere
    one.elsewhere = 0 if one.counter.is_refundable else elsewhere
    one.is_told = bool(row.may_return or given)
    one.is_dirty = one.got != mine or one.late != 0
    life_s = left_ms / 1000 if one.counter.window_ms else DEAD_S * _OWN_SHARE
    one.ends_s = sent_s + life_s


def result_of(batch: Batch, result: Sequence[int]) -> list[tuple[Slice, int]]:
    """The counters a request is short of, with the question to wait for; 0 is none."""
    pairs = zip(result[::2], result[1::2], strict=True)
    return [(batch.rows[place - 1].slice, question) for place, question in pairs]


def roomy(batches: list[Batch], organisation_id: str) -> Batch:
    """The last of further batches if it is this organisation's and has room, else a new one."""
    last = batches[-1] if batches else None
    if last is None or last.organisation_id != organisation_id or len(last.rows) >= MOST_ROWS:
        last = Batch(organisation_id)
        batches.append(last)
    return last
