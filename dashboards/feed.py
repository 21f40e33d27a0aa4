"""The feed: has the fleet's words written down, and tells who watches what became of them.

Once a second it samples, then computes each watched scope once and sends it to that scope's group.
Of several feeds one is active: the one that holds a lock of the database. An outage of store or
database is told once and waited out; nothing is kept in memory that would have to be caught up.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

import structlog
from asgiref.sync import sync_to_async
from django.db import Error as DatabaseFailure
from psycopg import Error as ConnectionFailure
from redis.exceptions import RedisError

from controlplane.errors import ControlPlaneError
from dashboards.base import Scene
from dashboards.consumers import MESSAGE
from dashboards.documents import encode, message_of
from dashboards.scopes import LiveScope

PERIOD_S = 1.0
TIDY_S = 10.0
SEND_TIMEOUT_S = 3.0

BUDGET_S = 0.7
"""What a tick may take for its scopes; those it has no time for come first in the next one."""

_TROUBLE = (RedisError, DatabaseFailure, ConnectionFailure, OSError, TimeoutError)

log = structlog.get_logger(__name__)


class Layer(Protocol):
    """What of a channel layer a feed uses."""

    async def group_send(self, group: str, message: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class Work:
    """What a feed does each second, as plain calls; all may raise what stores and databases raise.

    `holds_lead` takes or keeps the lead; `tidy` tells whether it has more to do; `read_scene`
    returns a reader of scopes that all belong to one moment.
    """

    holds_lead: Callable[[], bool]
    sample: Callable[[datetime], object]
    tidy: Callable[[datetime], bool]
    list_watched: Callable[[], Sequence[LiveScope]]
    read_scene: Callable[[datetime], Callable[[LiveScope], Scene]]
    release: Callable[[], None]


@dataclass
class Feed:
    """One feed process. `seqs` counts each watched scope's messages; the epoch is this feed's."""

    work: Work
    layer: Layer
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    stopwatch: Callable[[], float] = time.monotonic
    epoch: str = field(default_factory=lambda: secrets.token_hex(4))
    seqs: dict[str, int] = field(default_factory=dict)
    _is_in_trouble: bool = False
    _tidied_at: float = float("-inf")
    _is_leading: bool = False
    _first: int = 0

    async def run(self, stopping: asyncio.Event) -> None:
        """Tick once a second until told to stop."""
        while not stopping.is_set():
            began = time.monotonic()
            await self.tick()
            left = max(began + PERIOD_S - time.monotonic(), 0.0)
            try:
                await asyncio.wait_for(stopping.wait(), left)
            except TimeoutError:
                continue
        await sync_to_async(self.work.release)()

    async def tick(self) -> int:
        """One second's work: the number of messages sent. Trouble is logged once and waited out."""
        try:
            messages = await sync_to_async(self._compute)()
            for group, text in messages:
                async with asyncio.timeout(SEND_TIMEOUT_S):
                    await self.layer.group_send(group, {"type": MESSAGE, "text": text})
        except _TROUBLE as error:
            if not self._is_in_trouble:
                log.warning("live figures stand still", error=type(error).__name__)
            self._is_in_trouble = True
            return 0
        if self._is_in_trouble:
            log.info("live figures go on")
        self._is_in_trouble = False
        return len(messages)

    def _compute(self) -> list[tuple[str, str]]:
        if not self._leads():
            return []
        now = self.now()
        self.work.sample(now)
        self._tidy(now)
        watched = self.work.list_watched()
        self.seqs = {scope.name: self.seqs.get(scope.name, 0) for scope in watched}
        return self._messages(watched, self.work.read_scene(now)) if watched else []

    def _messages(
        self, watched: Sequence[LiveScope], read: Callable[[LiveScope], Scene]
    ) -> list[tuple[str, str]]:
        """The next messages of as many scopes as there is time for, taking turns."""
        began, made = self.stopwatch(), []
        first = self._first % len(watched)
        for done, scope in enumerate((*watched[first:], *watched[:first])):
            if done and self.stopwatch() - began > BUDGET_S:
                log.warning("live scopes wait for the next tick", waiting=len(watched) - done)
                self._first = first + done
                break
            text = self._message(scope, read)
            if text is not None:
                made.append((scope.name, text))
        return made

    def _leads(self) -> bool:
        is_leading = self.work.holds_lead()
        if is_leading and not self._is_leading:
            log.info("feed leads", epoch=self.epoch)
        self._is_leading = is_leading
        return is_leading

    def _tidy(self, now: datetime) -> None:
        if time.monotonic() - self._tidied_at >= TIDY_S and not self.work.tidy(now):
            self._tidied_at = time.monotonic()

    def _message(self, scope: LiveScope, read: Callable[[LiveScope], Scene]) -> str | None:
        """The next message of a scope; None when what it shows is gone."""
        try:
            scene = read(scope)
        except ControlPlaneError:
            return None
        self.seqs[scope.name] += 1
        return encode(message_of(scene, epoch=self.epoch, seq=self.seqs[scope.name]))
