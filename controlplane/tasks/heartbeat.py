"""A sign of life by round trip: beat queued it, a worker took it, the store took the time."""

import time

from celery import shared_task

from controlplane.bridge.parts import HEARTBEAT_KEY
from controlplane.bridge.store import open_store

HEARTBEAT_LIFE_S = 24 * 3600


@shared_task(name="jobs.heartbeat")
def beat() -> None:
    """Write the time of now where `/-/status` reads it."""
    with open_store() as store:
        store.set(HEARTBEAT_KEY, f"{time.time():.3f}", ex=HEARTBEAT_LIFE_S)
