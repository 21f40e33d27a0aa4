"""A fleet as its processes would tell of it, put into the state store."""

from dataclasses import replace
from typing import Any

from django.conf import settings
from redis import Redis

from inference.contract import codec, sealing, wire
from inference.contract.fleet import Directory, WorkerEntry
from inference.contract.kinds import ProcessRole, WorkerState
from inference.contract.vitals import Applied, Vitals

CHANGED_AT = 1_700_000_000.0


def worker(worker_id: str, state: WorkerState, **fields: Any) -> WorkerEntry:
    """An entry of the directory; its pool is what its id begins with."""
    pool_id = worker_id.rpartition("-")[0]
    entry = WorkerEntry(worker_id, pool_id, "http://127.0.0.1:9000/v1", state, CHANGED_AT)
    return replace(entry, **fields)


def put_directory(store: Redis, *workers: WorkerEntry) -> None:
    """Write the directory as the leader does."""
    document = codec.encode_directory(Directory(1, 1, CHANGED_AT, workers))
    store.hset(wire.DIRECTORY, "sealed", sealing.seal(settings.HEADWORKS.data_key_bytes, document))


def vitals(process: str, **fields: Any) -> Vitals:
    """The record of a gateway process that runs on version 7."""
    # a lineage older than any: an edit that follows is not behind it
    applied = Applied("00", 7)
    record = Vitals(ProcessRole.GATEWAY, "g", process, 1, CHANGED_AT, CHANGED_AT, applied)
    return replace(record, **fields)


def put_vitals(store: Redis, *records: Vitals) -> None:
    """Write records as their processes do."""
    for record in records:
        store.set(wire.vitals_key(record.process), codec.encode_vitals(record))
