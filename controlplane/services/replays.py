"""Replays: asked for, run by a job, and judged by what came after."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from controlplane.models import ConfigRevision, Replay, ReplayState, Route
from controlplane.services.actors import Actor
from controlplane.services.drafts import drafted_route

KEPT_FOR = timedelta(days=90)

GONE_AFTER = timedelta(seconds=60)
"""A job that didn't move its replay on for so long is not running any more."""

REPLAY_LOCK = 0x4857_5250
"""Key of the advisory lock of replays' jobs ("HWRP"), the same for every process."""


@contextmanager
def sole_job() -> Iterator[bool]:
    """Whether no other job is at work on replays; as long as this lasts none will be.

    They take long and the jobs' role has two hands: one stays free for what can't wait.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [REPLAY_LOCK])
        (is_sole,) = cursor.fetchone()
    try:
        yield is_sole
    finally:
        if is_sole:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [REPLAY_LOCK])


def request_replay(
    actor: Actor,
    *,
    route: Route,
    changes: Mapping[str, Any],
    edit: Callable[[], object],
    hours: int,
    most_requests: int,
    now: datetime | None = None,
) -> Replay:
    """Ask what the edit of a route would have done to the last hours; a job answers.

    `changes` are the edit as a PATCH takes it. Raises what the edit would be refused with.
    """
    until = now or timezone.now()
    with transaction.atomic():
        drafted = drafted_route(edit, route.pk)
        return Replay.objects.create(
            organisation_id=route.organisation_id,
            created_by=actor.label[:255],
            route_id=route.pk,
            route_name=route.name,
            changes=changes,
            drafted=drafted.record,
            lineage=drafted.lineage,
            version=drafted.version,
            since=until - timedelta(hours=hours),
            until=until,
            most_requests=most_requests,
        )


def take_queued(now: datetime) -> Replay | None:
    """Take the oldest replay that waits, unless one runs; whoever changes its row runs it."""
    if Replay.objects.filter(state=ReplayState.RUNNING).exists():
        return None
    for pk in (
        Replay.objects.filter(state=ReplayState.QUEUED)
        .order_by("created_at")
        .values_list("pk", flat=True)[:10]
    ):
        waiting = Replay.objects.filter(pk=pk, state=ReplayState.QUEUED)
        if waiting.update(state=ReplayState.RUNNING, beat_at=now):
            return Replay.objects.get(pk=pk)
    return None


def note_alive(replay: Replay) -> None:
    """Say that its job is still at it."""
    running = Replay.objects.filter(pk=replay.pk, state=ReplayState.RUNNING)
    running.update(beat_at=timezone.now())


def note_progress(replay: Replay, *, done: int, total: int) -> None:
    """Say how far it is."""
    running = Replay.objects.filter(pk=replay.pk, state=ReplayState.RUNNING)
    running.update(done=done, total=total, beat_at=timezone.now())


def conclude(replay: Replay, report: Mapping[str, Any]) -> None:
    """Write down what was foretold."""
    running = Replay.objects.filter(pk=replay.pk, state=ReplayState.RUNNING)
    running.update(state=ReplayState.DONE, report=report, ended_at=timezone.now())


def give_up(replay: Replay, detail: str) -> None:
    """Write down that it could not be done, and why."""
    running = Replay.objects.filter(pk=replay.pk, state=ReplayState.RUNNING)
    running.update(state=ReplayState.FAILED, detail=detail, ended_at=timezone.now())


def fail_abandoned(now: datetime) -> int:
    """End those whose job is gone; returns how many."""
    lost = Replay.objects.filter(state=ReplayState.RUNNING, beat_at__lt=now - GONE_AFTER)
    return lost.update(
        state=ReplayState.FAILED, detail="The job that ran it has ended.", ended_at=now
    )


def note_published(replay: Replay, revision: ConfigRevision) -> None:
    """Remember which version brought the draft, and when."""
    Replay.objects.filter(pk=replay.pk).update(
        published_version=revision.version, published_at=revision.created_at
    )


def note_observed(replay: Replay, observed: Mapping[str, Any]) -> None:
    """Write down what was seen since."""
    Replay.objects.filter(pk=replay.pk).update(observed=observed)


def forget_old_replays(now: datetime) -> int:
    """Remove those whose time is over; returns how many."""
    removed, _ = Replay.objects.filter(created_at__lt=now - KEPT_FOR).delete()
    return removed
