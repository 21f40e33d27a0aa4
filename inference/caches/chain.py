"""The tiers of one process, asked one after the other; and the flights of its requests."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, cast

from inference.caches.base import Asked, Entry, Found, Holding, Parts
from inference.caches.flight import Flights
from inference.caches.registry import REGISTRY
from inference.caches.tiers.semantic import SemanticTier
from inference.caches.tiers.shared import SharedTier
from inference.contract.kinds import CacheTier
from inference.contract.sealing import subkey
from inference.contract.vitals import TOP_ENTRIES_TOLD, TierGauge, TopEntry

IsAlive = Callable[[Entry], bool]

MOST_RENEWALS = 64
"""Beyond that a stale answer stays stale until somebody else asks."""


class Caches:
    """All that is kept here or reached from here. `secret` is what keys are made with."""

    def __init__(self, parts: Parts) -> None:
        self.secret = subkey(parts.data_key, "cache-keys")
        self.tiers = {kind: build(parts) for kind, build in REGISTRY.items()}
        self.shared = cast("SharedTier", self.tiers[CacheTier.SHARED])
        self.semantic = cast("SemanticTier", self.tiers[CacheTier.SEMANTIC])
        self.flights = Flights()
        self._renewals: dict[bytes, asyncio.Task[None]] = {}

    async def find(self, asked: Asked, key: bytes, is_alive: IsAlive) -> Found | None:
        """The entry of a key that may still be served, from the nearest tier that has it.

        What is found further away is kept nearer, and what may not be served is let go.
        """
        found = await self._find(asked, (key,), is_alive, CacheTier.LOCAL)
        return found.get(key)

    async def find_vectors(
        self, asked: Asked, keys: Sequence[bytes], is_alive: IsAlive
    ) -> Mapping[bytes, Found]:
        """The same of the inputs of a request for embeddings."""
        return await self._find(asked, keys, is_alive, CacheTier.EMBEDDING)

    def keep(self, asked: Asked, key: bytes, entry: Entry) -> None:
        """Keep an answer in all tiers that the policy names."""
        for tier in self._holding(asked, CacheTier.LOCAL):
            tier.keep(asked, key, entry)

    def keep_vector(self, asked: Asked, key: bytes, entry: Entry) -> None:
        """The same of an input's vector."""
        for tier in self._holding(asked, CacheTier.EMBEDDING):
            tier.keep(asked, key, entry)

    def forget(self, asked: Asked, key: bytes) -> None:
        """Let an answer go everywhere."""
        for tier in self._holding(asked, CacheTier.LOCAL):
            tier.forget(asked, key)
        if CacheTier.SEMANTIC in asked.policy.tiers:
            self.semantic.forget(key)

    def is_off(self, asked: Asked) -> bool:
        """Whether none of the tiers that the policy names can be asked now."""
        names = asked.policy.tiers
        if not names:
            return False
        is_here = CacheTier.LOCAL in names or CacheTier.EMBEDDING in names
        return not is_here and not self.shared.is_up

    def renew(self, key: bytes, ask: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Have an answer asked for anew beside the requests, unless that is under way."""
        if key not in self._renewals and len(self._renewals) < MOST_RENEWALS:
            self._renewals[key] = task = asyncio.get_running_loop().create_task(ask())
            task.add_done_callback(lambda _: self._renewals.pop(key, None))

    @property
    def renewals(self) -> int:
        """How many answers are asked for anew now."""
        return len(self._renewals)

    def gauges(self) -> tuple[TierGauge, ...]:
        """How full tiers are and how they do."""
        return tuple(tier.gauge() for tier in self.tiers.values())

    def top_entries(self) -> tuple[TopEntry, ...]:
        """The entries that are asked for most."""
        kinds = (CacheTier.LOCAL, CacheTier.EMBEDDING)
        entries = (one for kind in kinds for one in self._tier(kind).top_entries())
        return tuple(sorted(entries, key=lambda one: one.hits, reverse=True)[:TOP_ENTRIES_TOLD])

    async def run(self) -> None:
        """Do what tiers have to do beside requests, until cancelled."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for tier in self.tiers.values():
                    tasks.create_task(tier.run())
        finally:
            for renewal in self._renewals.values():
                renewal.cancel()

    async def _find(
        self, asked: Asked, keys: Sequence[bytes], is_alive: IsAlive, memory: CacheTier
    ) -> dict[bytes, Found]:
        found: dict[bytes, Found] = {}
        passed: list[Holding] = []
        for tier in self._holding(asked, memory):
            missing = [key for key in keys if key not in found] if found else keys
            if not missing:
                break
            for key, entry in (await tier.find(asked, missing)).items():
                if not is_alive(entry):
                    if tier.kind is memory:  # others may know of more purges, or of fewer
                        tier.forget(asked, key)
                    continue
                found[key] = Found(entry, tier.kind)
                for nearer in passed:
                    nearer.keep(asked, key, entry)
            passed.append(tier)
        return found

    def _holding(self, asked: Asked, memory: CacheTier) -> list[Holding]:
        """The tiers with entries that the policy names, the nearest first."""
        names = asked.policy.tiers
        return [self._tier(kind) for kind in (memory, CacheTier.SHARED) if kind in names]

    def _tier(self, kind: CacheTier) -> Holding:
        return cast("Holding", self.tiers[kind])
