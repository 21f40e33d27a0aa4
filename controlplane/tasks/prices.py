"""Repricings, a page after the other, and the roll-up of what our own GPUs cost."""

import time

from billiard.exceptions import SoftTimeLimitExceeded
from celery import shared_task
from django.db import InterfaceError, OperationalError
from django.utils import timezone

from controlplane.errors import ControlPlaneError
from controlplane.services import own_costs, repricings

_CANCELLED = "57014"
_FOR_S = 60.0
"""Then another job goes on with it, so that no other waits for long."""


@shared_task(name="prices.compute_own_costs")
def compute_own_costs() -> int:
    """Compute what GPUs cost in the last hours; returns how many rows were written."""
    now = timezone.now()
    with own_costs.sole_job() as is_sole:
        hours = own_costs.hours_to_compute(now) if is_sole else ()
        return sum(own_costs.compute_hour(hour, now) for hour in hours)


@shared_task(name="prices.forget_old_costs")
def forget_old_costs() -> int:
    """Remove what is older than anybody asks for."""
    return own_costs.forget_old_costs(timezone.now())


@shared_task(name="prices.reprice")
def reprice() -> str | None:
    """Go on with the repricing that has waited longest; returns its id.

    One that can't be done ends as failed. What the database couldn't do for now is tried again
    when all others had their turn, and a page that took too long by smaller ones.
    """
    with repricings.sole_job() as is_sole:
        job_id = repricings.take_next() if is_sole else None
        if job_id is None:
            return None
        until = time.monotonic() + _FOR_S
        try:
            while repricings.step(job_id) and time.monotonic() < until:
                pass
        except SoftTimeLimitExceeded:
            pass  # the page that was under way is done again by the next job
        except ControlPlaneError as error:
            repricings.give_up(job_id, error.detail)
        except (InterfaceError, OperationalError) as error:
            if getattr(error.__cause__, "sqlstate", None) != _CANCELLED:
                raise
            repricings.slow_down(job_id)
        except Exception:
            repricings.give_up(job_id, "An error of ours ended it; the log has more.")
            raise
        return job_id
