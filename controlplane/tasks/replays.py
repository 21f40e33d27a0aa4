"""Replays: run one at a time, looked back at, and forgotten in the end."""

from billiard.exceptions import SoftTimeLimitExceeded
from celery import shared_task
from django.utils import timezone

from controlplane.bridge.hindsight import look_back
from controlplane.bridge.replaying import run_replay
from controlplane.errors import ControlPlaneError
from controlplane.services import replays


@shared_task(name="replays.run_queued")
def run_queued() -> str | None:
    """Run the replay that has waited longest, if none runs; returns its id."""
    with replays.sole_job() as is_sole:
        return _run_next() if is_sole else None


def _run_next() -> str | None:
    now = timezone.now()
    replays.fail_abandoned(now)
    replay = replays.take_queued(now)
    if replay is None:
        return None
    try:
        replays.conclude(replay, run_replay(replay))
    except SoftTimeLimitExceeded:
        replays.give_up(replay, "It took longer than a job may; ask for fewer requests.")
    except ControlPlaneError as error:
        replays.give_up(replay, error.detail)
    except Exception:
        replays.give_up(replay, "An error of ours ended it; the log has more.")
        raise
    return replay.pk


@shared_task(name="replays.look_back")
def look_back_at_replays() -> int:
    """Compare what was foretold with what came, unless a replay runs."""
    with replays.sole_job() as is_sole:
        return look_back(timezone.now()) if is_sole else 0


@shared_task(name="replays.forget_old")
def forget_old_replays() -> int:
    """Remove replays that are old."""
    return replays.forget_old_replays(timezone.now())
