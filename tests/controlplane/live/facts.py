"""What gateways and a supervisor would say, at a noon of our own."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from controlplane.services.live import Census, record_sample
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Applied, Traffic, Vitals, WorkerGauges
from inference.decisions.histograms import bucket_of

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
NOON_S = int(NOON.timestamp())
LONG_AGO_S = NOON_S - 86_400.0
BOTH = Census(live=2, seen=2, missing=())


def after(seconds: float) -> datetime:
    """So long after noon."""
    return NOON + timedelta(seconds=seconds)


def histogram(*values: float) -> dict[int, int]:
    """These values, counted."""
    counts: dict[int, int] = {}
    for value in values:
        counts[bucket_of(value)] = counts.get(bucket_of(value), 0) + 1
    return counts


def traffic(at_s: int, organisation_id: str, pool_id: str = "", **fields: Any) -> Traffic:
    """One bucket that began so long after noon."""
    return Traffic(at=NOON_S + at_s, organisation_id=organisation_id, pool_id=pool_id, **fields)


def child(process: str, *buckets: Traffic, written_s: float, **fields: Any) -> Vitals:
    """A serving process that has run for a day, as it wrote so long after noon."""
    told: Mapping[str, Any] = {
        "role": ProcessRole.GATEWAY,
        "gateway": process.rpartition("/")[0],
        "pid": 1,
        "started_at": LONG_AGO_S,
        "applied": Applied("00", 7),
        **fields,
    }
    return Vitals(process=process, written_at=NOON_S + written_s, traffic=buckets, **told)


def supervisor(*gauges: WorkerGauges, written_s: float) -> Vitals:
    """The leading supervisor."""
    return Vitals(
        role=ProcessRole.POOLS,
        gateway="",
        process="pools/host-1",
        pid=2,
        started_at=LONG_AGO_S,
        written_at=NOON_S + written_s,
        applied=Applied("00", 7),
        is_leader=True,
        workers=gauges,
    )


def gauges(worker_id: str, at_s: float, **fields: Any) -> WorkerGauges:
    """One measurement so long after noon."""
    pool_id = worker_id.rpartition("-")[0]
    return WorkerGauges(worker_id=worker_id, pool_id=pool_id, at=NOON_S + at_s, **fields)


def sampled(now_s: float, *records: Vitals, census: Census = BOTH) -> None:
    """The tick of a sampler that read these records so long after noon."""
    record_sample(records, census, now=after(now_s))


def quiet(now_s: float, *, names: Sequence[str] = ("a/0",)) -> None:
    """A tick in which gateways report and nothing happened."""
    sampled(now_s, *(child(name, written_s=now_s) for name in names))
