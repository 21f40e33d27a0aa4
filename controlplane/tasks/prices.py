"""Repricings: a page after the other, for as long as a job may take."""

import time

from billiard.exceptions import SoftTimeLimitExceeded
from celery import shared_task

from controlplane.errors import ControlPlaneError
from controlplane.services import repricings

_FOR_S = 60.0
"""Then another job goes on with it, so that no other waits for long."""


@shared_task(name="prices.reprice")
def reprice() -> str | None:
    """Go on with the repricing that has waited longest; returns its id."""
    with repricings.sole_job() as is_sole:
        job = repricings.next_job() if is_sole else None
        if job is None:
            return None
        until = time.monotonic() + _FOR_S
        try:
            while repricings.step(job.pk) and time.monotonic() < until:
                pass
        except SoftTimeLimitExceeded:
            pass  # the page that was under way is done again by the next job
        except ControlPlaneError as error:
            repricings.give_up(job.pk, error.detail)
        return job.pk
