"""The background task that talks to the store for this process's leases, through its outages."""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import structlog
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from inference.contract.wire import LIMITS_CHANNEL
from inference.limits.batches import Batch
from inference.limits.leases import Leases
from inference.limits.link import WAIT_S, LinkDown, StoreChanged, StoreLink
from inference.store import STORE_TROUBLE, StoreHealth

log = structlog.get_logger(__name__)

BEAT_S = 1.0

# Soon enough that everybody is back well within SETTLE_S of the store.
RETRY_S = 0.25

SETTLE_S = 2.0
"""A store that may have lost something gives nothing out until whoever lives has told it again."""


class Broker:
    """Keeps `leases` and the store in step while it runs; a round trip for all that wait.

    The first call that fails, or takes too long, opens the breaker: from then on no request waits,
    until a try in the background is answered.
    """

    def __init__(
        self,
        client: Redis,
        leases: Leases,
        *,
        stopwatch: Callable[[], float] = time.perf_counter,
        settle_s: float = SETTLE_S,
        wait_s: float = WAIT_S,
    ) -> None:
        self._client = client
        self._leases = leases
        self._link = StoreLink(client, wait_s=wait_s, late=self._stop_waiting)
        self._asked: list[Batch] = []
        self._untold: list[asyncio.Future[None]] = []
        self._ailing: set[str] = set()
        self._stopwatch = stopwatch
        self._settle_s = settle_s
        self._health = StoreHealth("limits")
        self._epoch = b""
        self._seq = 0
        self._usable_from_s = 0.0
        self._beat_due_s = 0.0
        self._is_woken = asyncio.Event()
        leases.wake = self._is_woken.set
        leases.is_starting = True

    async def run(self) -> None:
        """Talk to the store, and listen to other processes, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._talk())
            group.create_task(self._listen())

    async def _talk(self) -> None:
        try:
            while True:
                await self._step()
        finally:
            self._leases.close()
            await self._sign_off()

    async def _sign_off(self) -> None:
        """Give back what was held ahead, so that nobody misses it until its window ends."""
        with suppress(LinkDown, StoreChanged):
            if not self._link.is_open:
                await self._enter()
            self._leases.give_up()
            await self._exchange()
        self._leases.close()
        await self._link.aclose()

    async def _step(self) -> None:
        """One round trip as soon as there is a reason for one; a pause if it failed."""
        try:
            if not self._link.is_open:
                await self._enter()
            await self._reason()
            await self._exchange()
        except StoreChanged:
            self._leases.close()
            await self._link.aclose()
        except LinkDown as error:
            self._leases.close()
            self._health.failed(error)
            await self._link.aclose()
            await asyncio.sleep(RETRY_S)
        else:
            self._health.succeeded()

    async def _enter(self) -> None:
        entry = await self._link.enter()
        if entry.epoch != self._epoch:
            self._epoch = entry.epoch
            self._usable_from_s = self._stopwatch() + max(self._settle_s - entry.age_s, 0.0)
        if self._stopwatch() < self._usable_from_s:
            self._leases.close()
        self._leases.reenter()
        self._beat_due_s = self._stopwatch()

    async def _reason(self) -> None:
        """Wait for something to ask or tell; at the latest until the next beat is due."""
        while not self._leases.has_work:
            due_s = min(self._beat_due_s, self._leases.retry_s or self._beat_due_s)
            if not self._leases.is_usable:
                due_s = min(due_s, self._usable_from_s)
            wait_s = due_s - self._stopwatch()
            if wait_s <= 0:
                return
            self._is_woken.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._is_woken.wait()

    async def _exchange(self) -> None:
        now_s = self._stopwatch()
        is_beat = now_s >= self._beat_due_s
        if is_beat:
            self._beat_due_s = now_s + BEAT_S
        batches: list[Batch] = []
        calls: list[tuple[str | bytes | int, ...]] = []
        replies: list[Any] | None = None
        self._untold = self._leases.take_untold()
        try:
            batches = self._asked = self._leases.build(is_beat=is_beat)
            for batch in batches:
                self._seq += 1
                calls.append(batch.words(self._leases.holder, self._seq, is_beat=is_beat))
            replies = await self._link.call(calls) if calls or is_beat else []
        finally:
            self._asked = []
            self._hand_out(batches, replies, sent_s=now_s)
            self._let_go()
        self._leases.is_starting = False
        self._leases.is_usable = self._stopwatch() >= self._usable_from_s
        self._leases.has_budgets = self._link.has_budgets

    def _stop_waiting(self) -> None:
        """Have nobody wait any longer for an answer that may still come."""
        self._leases.close()
        for batch in self._asked:
            self._leases.stop_waiting(batch)
        self._let_go()

    def _let_go(self) -> None:
        """Answer those who wait until the store was told."""
        untold, self._untold = self._untold, []
        for one in untold:
            if not one.done():
                one.set_result(None)

    def _hand_out(self, batches: list[Batch], replies: list[Any] | None, *, sent_s: float) -> None:
        """Give everybody their answer; those whose call failed, or was overtaken, have none."""
        if replies is None:
            self._leases.is_usable = False
        for number, batch in enumerate(batches):
            reply = replies[number] if replies else None
            if isinstance(reply, ResponseError):
                self._note_ailing(batch, reply)
                self._leases.fail(batch, is_lost=False)
            elif reply:
                self._ailing.discard(batch.organisation_id)
                self._leases.absorb(batch, reply, sent_s=sent_s)
            else:
                self._leases.fail(batch)

    def _note_ailing(self, batch: Batch, error: ResponseError) -> None:
        """Log that an organisation's counters can't be counted, once until they can."""
        if batch.organisation_id not in self._ailing:
            self._ailing.add(batch.organisation_id)
            log.error("counters fail", organisation_id=batch.organisation_id, error=str(error))

    async def _listen(self) -> None:
        """Hear what others ask of us; a message that is lost costs them a beat."""
        while True:
            pubsub: Any = self._client.pubsub()
            try:
                await pubsub.subscribe(LIMITS_CHANNEL)
                while True:
                    message = await pubsub.get_message(
                        ignore_subscribe_messages=True, timeout=BEAT_S
                    )
                    if message is not None:
                        self._leases.hear(message["data"].decode(errors="replace"))
            except STORE_TROUBLE:
                await asyncio.sleep(RETRY_S)
            finally:
                with suppress(*STORE_TROUBLE):
                    await pubsub.aclose()
