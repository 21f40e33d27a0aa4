"""A fleet that lives: processes' records as they would write them, now and for the past."""

import math
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from redis import Redis

from controlplane.services.live import Census, record_sample
from inference.contract import codec, wire
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import (
    TRAFFIC_BUCKET_S,
    TRAFFIC_BUCKETS_KEPT,
    Applied,
    Traffic,
    Vitals,
    WorkerGauges,
)
from inference.decisions.histograms import bucket_of

PERIOD_S = 0.4
STARTED_AT = 1_700_000_000.0
_LINEAGE = "test"


def bucket_at(now: float) -> int:
    return int(now // TRAFFIC_BUCKET_S) * TRAFFIC_BUCKET_S


def last_buckets(newest: int) -> list[int]:
    """The buckets a record carries."""
    return [newest - TRAFFIC_BUCKET_S * ago for ago in range(TRAFFIC_BUCKETS_KEPT)]


def wave(at: float, period_s: float, height: float) -> float:
    return height * math.sin(at / period_s)


def traffic_at(at: int, organisation_id: str, pool_id: str, size: float = 1.0) -> Traffic:
    """A busy bucket of one pool, a little different each time."""
    requests = max(1, round(size * (60 + wave(at, 40, 12) + wave(at, 11, 6))))
    first = {
        bucket_of(320 + wave(at, 90, 40)): round(requests * 0.6),
        bucket_of(690 + wave(at, 60, 90)): round(requests * 0.36),
        bucket_of(1_150 + wave(at, 70, 200)): max(1, round(requests * 0.04)),
    }
    output = {
        bucket_of(19 + wave(at, 50, 1)): round(requests * 0.7),
        bucket_of(28 + wave(at, 45, 2)): round(requests * 0.28),
        bucket_of(35 + wave(at, 30, 3)): max(1, round(requests * 0.02)),
    }
    failed = 2 if at % 35 == 0 else 0
    return Traffic(
        at=at,
        organisation_id=organisation_id,
        pool_id=pool_id,
        requests=requests,
        failures={"upstream_timeout": failed, "rate_limited": failed // 2} if failed else {},
        prompt_tokens=requests * 900,
        completion_tokens=requests * 210,
        cost_nanousd=requests * 320_000,
        first_token_ms=first,
        output_token_ms=output,
    )


def passed(at: int, now: float) -> float:
    """The share of a bucket that is over."""
    return min(1.0, max(0.02, (now - at) / TRAFFIC_BUCKET_S))


def gauges_at(at: float, pool_id: str, ordinal: int, place: int) -> WorkerGauges:
    """One busy worker without a GPU, of the pool at this place."""
    at_wave = at + 50 * place
    return WorkerGauges(
        worker_id=f"{pool_id}-{ordinal}",
        pool_id=pool_id,
        at=at,
        running=round(22 + 4 * ordinal + wave(at_wave, 30, 6)),
        waiting=max(0, round(2 + wave(at_wave, 25, 3))),
        kv_used=min(0.98, 0.68 + 0.05 * ordinal - 0.15 * place + wave(at_wave, 80, 0.1)),
        utilisation=64.0 + 6 * ordinal - 14 * place + wave(at_wave, 35, 9),
        memory_bytes=2_800_000_000 + 90_000_000 * ordinal,
    )


@dataclass
class LivingFleet:
    """Gateways and a supervisor that write their records until they are silenced.

    `pools` are the ids traffic goes to, with the size of each; the first is half of the next one's.
    All of it comes by one route, or by none.
    """

    store: Redis
    organisation_id: str
    pools: Sequence[str]
    gateways: Sequence[str] = ("gw-a", "gw-b")
    route_id: str = ""
    silent: set[str] = field(default_factory=set)
    is_busy: bool = True
    _stopping: threading.Event = field(default_factory=threading.Event)

    def records(self, now: float, buckets: Iterable[int]) -> Iterator[Vitals]:
        """What all processes would say at a moment, the supervisor last."""
        made = list(buckets)
        for gateway in self.gateways:
            share = 1 / len(self.gateways)
            told = tuple(
                replace(
                    traffic_at(
                        at, self.organisation_id, pool_id, share / (place + 1) * passed(at, now)
                    ),
                    route_id=self.route_id,
                )
                for at in made
                for place, pool_id in enumerate(self.pools)
                if self.is_busy
            )
            waiting = {pool_id: round(3 + wave(now, 20, 3)) for pool_id in self.pools}
            yield self._record(
                ProcessRole.GATEWAY,
                gateway,
                f"{gateway}/0",
                now,
                traffic=told,
                queued={pool_id: count for pool_id, count in waiting.items() if count},
                oldest_wait_ms={one: 900.0 * count for one, count in waiting.items() if count},
            )
        workers = tuple(
            gauges_at(now, pool_id, ordinal, place)
            for place, pool_id in enumerate(self.pools)
            for ordinal in range(2)
        )
        yield self._record(ProcessRole.POOLS, "pools", "pools", now, workers=workers)

    def _record(
        self, role: ProcessRole, gateway: str, process: str, now: float, **fields: Any
    ) -> Vitals:
        return Vitals(
            role=role,
            gateway=gateway,
            process=process,
            pid=1,
            started_at=STARTED_AT,
            written_at=now,
            applied=Applied(_LINEAGE, 1),
            is_leader=role is ProcessRole.POOLS,
            **fields,
        )

    def remember(self, seconds: int, *, gap: tuple[int, int] | None = None) -> None:
        """Write the past as samples every five seconds; of the gap (ago from, ago to) nothing.

        Of gateways only every fourth: a record carries so many buckets.
        """
        newest = bucket_at(time.time())
        census = Census(len(self.gateways), len(self.gateways), ())
        for place, at in enumerate(range(newest - seconds, newest, TRAFFIC_BUCKET_S), start=1):
            buckets = last_buckets(at)
            missing = [gap is not None and gap[1] < newest - one <= gap[0] for one in buckets]
            if missing[0]:
                continue
            then = at + TRAFFIC_BUCKET_S - 0.1
            told = tuple(self.records(then, buckets))
            if place % TRAFFIC_BUCKETS_KEPT or any(missing):
                told = told[-1:]
            record_sample(told, census, now=datetime.fromtimestamp(then, UTC))

    def speak(self) -> None:
        """Every process that isn't silent writes its record, once."""
        now = time.time()
        for record in self.records(now, last_buckets(bucket_at(now))):
            if record.gateway in self.silent:
                continue
            self.store.set(wire.vitals_key(record.process), codec.encode_vitals(record), ex=5)
            self.store.zadd(wire.SEEN, {record.process: now})

    @contextmanager
    def living(self) -> Iterator["LivingFleet"]:
        """Speak in the background, several times a second."""

        def work() -> None:
            while not self._stopping.wait(PERIOD_S):
                self.speak()

        self.speak()
        thread = threading.Thread(target=work)
        thread.start()
        try:
            yield self
        finally:
            self._stopping.set()
            thread.join()
