"""The lease that makes one supervisor the leader, fenced so that an overtaken one can't write."""

import asyncio
from collections.abc import Callable
from enum import StrEnum

import structlog
from redis.asyncio import Redis

from inference.contract import wire
from inference.store import STORE_TROUBLE, StoreHealth

LEASE_S = 5.0
"""How long the next leader waits for one that was killed."""

RENEWALS = 3
"""Renewals in the life of a lease: one may be lost without losing it."""

log = structlog.get_logger(__name__)

# KEYS: lease, counter, directory. ARGV: owner, life in ms, the least token. A store that was
# emptied or put back to an older copy must not hand out a token that was in use. So the counter is
# not believed alone: the store's clock in milliseconds runs ahead of it, and the directory and what
# we saw ourselves are outbid.
_ACQUIRE = """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
local written = tonumber(redis.call('HGET', KEYS[3], 'token') or '0')
local time = redis.call('TIME')
local clock = time[1] * 1000 + math.floor(time[2] / 1000)
local token = math.max(redis.call('INCR', KEYS[2]), clock, written + 1, tonumber(ARGV[3]))
redis.call('SET', KEYS[2], string.format('%d', token))
redis.call('SET', KEYS[1], string.format('%d', token) .. ':' .. ARGV[1], 'PX', ARGV[2])
return token
"""
_RENEW = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1
"""


class Standing(StrEnum):
    """Leader: the lease is ours. Caretaker: it was when the store fell silent. Follower: no."""

    LEADER = "leader"
    CARETAKER = "caretaker"
    FOLLOWER = "follower"


class LeaderLease:
    """A lease on `wire.LEADER`. `token` is the fencing token while we hold it, greater each time.

    `clock` counts seconds and never goes back; a lease is judged by the time its last renewal was
    sent, so it ends here before it ends in the store.
    """

    def __init__(
        self, client: Redis, *, owner: str, clock: Callable[[], float], life_s: float = LEASE_S
    ) -> None:
        self.token: int | None = None
        self._client = client
        self._owner = owner
        self._clock = clock
        self._life_s = life_s
        self._confirmed_at = 0.0
        self._least_token = 1
        self._health = StoreHealth("leader lease")
        self._acquire = client.register_script(_ACQUIRE)
        self._renew = client.register_script(_RENEW)
        self._release = client.register_script(_RELEASE)

    @property
    def standing(self) -> Standing:
        """What we are now, by our own clock."""
        if self.token is None:
            return Standing.FOLLOWER
        is_fresh = self._clock() - self._confirmed_at < self._life_s
        return Standing.LEADER if is_fresh else Standing.CARETAKER

    def outbid(self, token: int) -> None:
        """Take care that the next token is greater than this one, seen in a directory."""
        self._least_token = max(self._least_token, token + 1)

    async def hold(self) -> None:
        """Acquire and renew until cancelled."""
        while True:
            await self.step()
            await asyncio.sleep(self._life_s / RENEWALS)

    async def step(self) -> None:
        """Renew the lease, or try to get it. Store trouble changes nothing but our freshness."""
        asked_at = self._clock()
        try:
            if self.token is not None and not await self._is_renewed():
                log.warning("leadership lost", fencing_token=self.token)
                self.outbid(self.token)
                self.token = None
            if self.token is None:
                await self._try_to_get()
        except STORE_TROUBLE as error:
            self._health.failed(error)
            return
        self._health.succeeded()
        if self.token is not None:
            self._confirmed_at = asked_at

    async def release(self) -> None:
        """Give the lease back, so that the next leader need not wait for it to run out."""
        held, token = self._held(), self.token
        self.token = None
        if token is None:
            return
        try:
            await self._release(keys=[wire.LEADER], args=[held])
        except STORE_TROUBLE as error:
            self._health.failed(error)

    def _held(self) -> str:
        return f"{self.token}:{self._owner}"

    def _life_ms(self) -> str:
        return str(int(self._life_s * 1000))

    async def _is_renewed(self) -> bool:
        args = [self._held(), self._life_ms()]
        return bool(await self._renew(keys=[wire.LEADER], args=args) == 1)

    async def _try_to_get(self) -> None:
        args = [self._owner, self._life_ms(), str(self._least_token)]
        keys = [wire.LEADER, wire.FENCING, wire.DIRECTORY]
        token = await self._acquire(keys=keys, args=args)
        if token:
            self.token = int(token)
            log.info("leadership taken", fencing_token=self.token)
