"""The lease machine: takes units of many counters in one step, from here if they are here.

`take` claims units of any number of counters for a request, all or none. If the slices held here
suffice it is done at once, in a few microseconds and without the store. Else the request waits for
one step of the store over all counters that are short here. `settle` says, once for a permit, how
much of each was used: the rest is free again, what was used beyond is counted too.

Granted units never exceed a counter's amount, over all processes and whatever dies. A claim is
refused only if what is left of the counter does not suffice once everybody has given back what was
held ahead: until they have, the request waits, for `PATIENCE_S` at most.

Nothing here awaits but a request that waits. `inference.limits.broker` talks to the store.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inference.decisions.admission import units_ahead
from inference.limits.batches import MOST_ROWS, Ask, Batch, Late, result_of, roomy
from inference.limits.shelf import MOST_SLICES, Shelf
from inference.limits.slices import (
    Claim,
    Counter,
    CountersUnknown,
    OutOfUnits,
    Permit,
    Slice,
)

# By then whoever lives has given back what it held, at its next heartbeat; and where nobody asked
# for a while, whoever is dead is known to be: the clock made a step of 1.5 s and went on this long.
PATIENCE_S = 1.8

# For so long after a counter was found used up, requests for it are put to the store together.
PARK_S = 0.01

# What waits for others' answers looks again without having been told.
_LOOK_AGAIN_S = 0.1

_MOST_ASKS = 100


class Leases:
    """What this process holds of all counters, and the requests that wait for more.

    `holder` names this life of this process. `wake` is called when the store is to be talked to
    soon. Unless the store `is_usable`, or may be in a moment (`is_starting`), nobody waits for it.
    """

    def __init__(
        self,
        holder: str,
        *,
        stopwatch: Callable[[], float],
        most_slices: int = MOST_SLICES,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.holder = holder
        self.is_usable = False
        self.is_starting = False
        self.has_budgets = False
        self.late = Late()
        self.wake: Callable[[], None] = lambda: None
        self._stopwatch = stopwatch
        self._patience_s = patience_s
        self._shelf = Shelf(wake=lambda: self.wake(), most=most_slices)
        self._queue: deque[Ask] = deque()
        self._waiting: list[Ask] = []
        self._untold: list[asyncio.Future[None]] = []

    def __len__(self) -> int:
        return len(self._shelf)

    @property
    def held(self) -> int:
        """Units taken here that are held until they are given back."""
        return self._shelf.held

    def slice_of(self, counter: Counter) -> Slice:
        """What is held here of a counter, made if need be."""
        return self._shelf.of(counter)

    def take(self, permit_id: str, claims: Sequence[Claim]) -> "Permit | asyncio.Future[Permit]":
        """Take all that is claimed, or have it taken: then `outcome` waits for it.

        Raises CountersUnknown if the store is away and a strict claim can't be met from here; the
        permit of others says what they lack.
        """
        now_s = self._stopwatch()
        slices = self._shelf.of_all(claims)
        pairs = list(zip(slices, claims, strict=True))
        for one, claim in pairs:
            if not one.suffices(claim, now_s):
                return self._take_slowly(Permit(permit_id, claims, slices), now_s)
        for one, claim in pairs:
            if claim.take:
                self._use(one, claim, now_s)
        return Permit(permit_id, claims, slices)

    async def outcome(self, taken: "asyncio.Future[Permit]") -> Permit:
        """The permit, once it is granted. Raises OutOfUnits and CountersUnknown.

        Whoever stops waiting has taken nothing.
        """
        try:
            return await taken
        except asyncio.CancelledError:
            if taken.done() and not taken.cancelled() and taken.exception() is None:
                self.undo(taken.result())
            raise

    def settle(self, permit: Permit, used: Mapping[int, int]) -> bool:
        """Say how much was used of the claims at some places; of the others, what they took.

        Only the first call for a permit counts. True if the store must hear of it.
        """
        if permit.is_settled:
            return False
        permit.is_settled = True
        now_s, lacking = self._stopwatch(), permit.lacking
        if lacking:
            used = {place: permit.claims[place].take for place in lacking} | dict(used)
        is_news = False
        for place, units in used.items():
            claim = permit.claims[place]
            one = self._shelf.of(claim.counter)  # the one it was taken of may be forgotten by now
            taken = 0 if place in lacking else claim.take
            one.settle(claim, taken, units, window=permit.windows[place], now_s=now_s)
            if one.is_dirty:
                is_news = True
                self._shelf.tell_soon(one)
            elif one.may_return:
                self._shelf.active[one] = None
        return is_news and self.is_usable

    def undo(self, permit: Permit) -> None:
        """Give all of it back."""
        self.settle(permit, dict.fromkeys(range(len(permit.claims)), 0))

    async def told(self, *slices: Slice) -> None:
        """Wait until the store was told all that happened here, and of these, or is away."""
        if self.is_usable:
            for one in slices:
                self._shelf.tell_soon(one)
            told = asyncio.get_running_loop().create_future()
            self._untold.append(told)
            self.wake()
            await told

    # --- for the broker

    @property
    def has_work(self) -> bool:
        """Whether the store is to be talked to now."""
        return bool(self._queue or self._untold or self._shelf.due)

    @property
    def retry_s(self) -> float | None:
        """When somebody who waits is to be tried again."""
        return min((ask.retry_s for ask in self._waiting), default=None)

    def build(self, *, is_beat: bool) -> list[Batch]:
        """What is to be told and asked, an organisation each; whoever waits is put to it."""
        now_s = self._stopwatch()
        self._requeue(lambda ask: ask.retry_s <= now_s)
        batches: dict[str, Batch] = {}
        for _ in range(min(len(self._queue), _MOST_ASKS)):
            self._put(self._queue.popleft(), batches, now_s)
        further: list[Batch] = []
        due = self._shelf.take_due()
        for one in {**due, **self._shelf.active} if is_beat else due:
            self._tell(one, batches, further, now_s, is_beat=is_beat)
        if is_beat:
            self._shelf.sweep(now_s)
        return [*batches.values(), *further]

    def take_untold(self) -> "list[asyncio.Future[None]]":
        """Those who wait for what is told now."""
        untold, self._untold = self._untold, []
        return untold

    def absorb(self, batch: Batch, reply: Sequence[Any], *, sent_s: float) -> None:
        """Take over the store's answer and give everybody theirs."""
        replies, results = reply
        batch.absorb(replies, self.late, sent_s=sent_s)
        now_s = self._stopwatch()
        for row in batch.rows:
            self._shelf.note(row.slice)
        for ask, result in zip(batch.asks, results, strict=True):
            short = result_of(batch, result)
            if short:
                self._put_off(ask, short, now_s)
            else:
                self._grant(ask, now_s)

    def fail(self, batch: Batch, *, is_lost: bool = True) -> None:
        """Nobody knows whether it was done: say it all again, at once if the answer was lost."""
        for row in batch.rows:
            self._shelf.tell_again(row.slice, is_soon=is_lost)
        now_s = self._stopwatch()
        for ask in batch.asks:
            self._release(ask)
            self._resolve_without_store(ask, now_s)

    def stop_waiting(self, batch: Batch) -> None:
        """Answer those who wait for this call without it; what it grants them is given back."""
        now_s = self._stopwatch()
        for ask in batch.asks:
            self._release(ask)
            asked, claims = ask.permit, ask.permit.claims
            ask.permit = Permit(asked.id, claims, self._shelf.of_all(claims))
            self._resolve_without_store(ask, now_s)
            ask.permit = asked

    def close(self) -> None:
        """The store is away: nobody waits for it any longer."""
        self.is_usable = False
        now_s = self._stopwatch()
        self.is_starting = False
        waiting, self._waiting = [*self._queue, *self._waiting], []
        self._queue.clear()
        for ask in waiting:
            self._resolve_without_store(ask, now_s)
        for one in self.take_untold():
            if not one.done():
                one.set_result(None)

    def reenter(self) -> None:
        """The store may have lost what it knew: tell it again all that counts."""
        self._shelf.reenter(self._stopwatch())

    def give_up(self) -> None:
        """Give back all that nobody uses."""
        self._shelf.give_up()

    def hear(self, message: str) -> None:
        """Take note of what was published on the channel."""
        kind, rest = message[:1], message[1:]
        if kind == "?":
            question, _, key = rest.partition(" ")
            one = self._shelf.get(key)
            if one is not None and question.isdigit():
                one.question = max(one.question, int(question))
                self._shelf.answer_soon(one)
        elif self._requeue(lambda ask: any(one.counter.key == rest for one in ask.questions)):
            self.wake()

    # --- inside

    def _use(self, one: Slice, claim: Claim, now_s: float) -> None:
        one.use(claim, now_s)
        if claim.counter.is_refundable:
            self._shelf.active[one] = None
        if 2 * one.left < one.given and not one.is_due and self.is_usable:
            one.is_due = True
            one.ahead = units_ahead(one.ahead, floor=claim.floor, since_s=now_s - one.seen_s)
            one.seen_s = now_s
            self._shelf.tell_soon(one)

    def _take_slowly(self, permit: Permit, now_s: float) -> "Permit | asyncio.Future[Permit]":
        """Have the store asked, if it can be."""
        if not (self.is_usable or self.is_starting):
            return self._take_without_store(permit, now_s)
        ask = Ask(permit, asyncio.get_running_loop().create_future(), now_s + self._patience_s)
        reached_s = max(permit.slices[place].reached_s for place in permit.unmet(now_s))
        if now_s - reached_s < PARK_S:
            ask.retry_s = reached_s + PARK_S
            self._waiting.append(ask)
        else:
            self._queue.append(ask)
        self.wake()
        return ask.future

    def _take_without_store(self, permit: Permit, now_s: float) -> Permit:
        lacking = permit.unmet(now_s)
        unknown = [permit.claims[place] for place in lacking if permit.claims[place].is_strict]
        if unknown:
            raise CountersUnknown(unknown)
        for place, (one, claim) in enumerate(zip(permit.slices, permit.claims, strict=True)):
            permit.windows[place] = one.window
            if place not in lacking and claim.take:
                self._use(one, claim, now_s)
        permit.lacking = lacking
        return permit

    def _resolve_without_store(self, ask: Ask, now_s: float) -> None:
        if ask.future.done():
            return
        try:
            ask.future.set_result(self._take_without_store(ask.permit, now_s))
        except CountersUnknown as error:
            ask.future.set_exception(error)

    def _put(self, ask: Ask, batches: dict[str, Batch], now_s: float) -> None:
        """Hold what can be met from here, and ask the store for the rest."""
        if ask.future.done():
            return
        permit = ask.permit
        permit.slices = self._shelf.of_all(permit.claims)
        ask.lacking = permit.unmet(now_s)
        ask.held = [place for place in range(len(permit.claims)) if place not in ask.lacking]
        for place in ask.held:
            one, claim = permit.slices[place], permit.claims[place]
            permit.windows[place] = one.window
            one.left -= claim.take
            one.pending += claim.take
        if not ask.lacking:
            self._grant(ask, now_s)
            return
        organisation_id = permit.claims[0].counter.organisation_id
        batch = batches.setdefault(organisation_id, Batch(organisation_id))
        batch.asks.append(ask)
        for place in ask.lacking:
            one, claim = permit.slices[place], permit.claims[place]
            if one not in batch.places:
                one.counter = claim.counter
                one.ahead = units_ahead(one.ahead, floor=claim.floor, since_s=now_s - one.seen_s)
                one.seen_s = one.used_s = now_s
            batch.add(one, now_s, is_short=True)

    def _tell(
        self,
        one: Slice,
        batches: dict[str, Batch],
        further: list[Batch],
        now_s: float,
        *,
        is_beat: bool,
    ) -> None:
        organisation_id = one.counter.organisation_id
        batch = batches.setdefault(organisation_id, Batch(organisation_id))
        if one in batch.places:
            return
        if len(batch.rows) >= MOST_ROWS:
            batch = roomy(further, organisation_id)
        batch.add(one, now_s, is_short=False, is_beat=is_beat)

    def _grant(self, ask: Ask, now_s: float) -> None:
        permit = ask.permit
        for place in ask.held:
            one, claim = permit.slices[place], permit.claims[place]
            one.used_s = now_s
            if permit.windows[place] == one.window:
                one.pending -= claim.take
                self._hold(one, claim)
                self._shelf.answer_soon(one)
        for place in ask.lacking:
            one = permit.slices[place]
            permit.windows[place] = one.window
            self._hold(one, permit.claims[place])
        if ask.future.done():
            self.undo(permit)
        else:
            ask.future.set_result(permit)

    def _hold(self, one: Slice, claim: Claim) -> None:
        if claim.counter.is_refundable and claim.take:
            one.out += claim.take
            one.is_told = True
            self._shelf.active[one] = None

    def _release(self, ask: Ask) -> None:
        """Give back what was held for it meanwhile."""
        for place in ask.held:
            one, claim = ask.permit.slices[place], ask.permit.claims[place]
            if ask.permit.windows[place] == one.window:
                one.pending -= claim.take
                one.left += claim.take
                self._shelf.active[one] = None
                self._shelf.answer_soon(one)
        ask.held = []

    def _put_off(self, ask: Ask, short: Sequence[tuple[Slice, int]], now_s: float) -> None:
        """Refuse a request, or let it wait for those who may give something back."""
        self._release(ask)
        if ask.future.done():
            return
        claims = {ask.permit.slices[one]: ask.permit.claims[one] for one in ask.lacking}
        in_vain = [one for one, asked in short if not asked and not one.may_yet_meet(claims[one])]
        if in_vain or now_s >= ask.due_s:
            spent = in_vain or [one for one, _ in short]
            for one in spent:
                one.reached_s = now_s
            ask.future.set_exception(
                OutOfUnits([one.shortage(claims[one], now_s) for one in spent])
            )
            return
        ask.questions = {one: (one.window, question) for one, question in short if question}
        ask.retry_s = now_s + (_LOOK_AGAIN_S if ask.questions else PARK_S)
        self._waiting.append(ask)

    def _requeue(self, is_due: Callable[[Ask], bool]) -> bool:
        waiting, self._waiting = self._waiting, []
        for ask in waiting:
            (self._queue if is_due(ask) else self._waiting).append(ask)
        return len(self._waiting) < len(waiting)
