"""Looks back at replays: was the draft published, and did what was foretold come true?"""

import time
from collections.abc import Sequence
from datetime import datetime, timedelta

import structlog
from billiard.exceptions import SoftTimeLimitExceeded
from django.db.models import F

from controlplane.bridge.explaining import route_of
from controlplane.bridge.replaying import observe
from controlplane.decisions.replays import is_same_route
from controlplane.models import ConfigRevision, ConfigSection, Replay, ReplayState
from controlplane.selectors.replays import list_revisions_since
from controlplane.services.replays import note_observed, note_published
from inference.contract.codec import decode_section
from inference.contract.snapshot import RouteRecord

WAITS_FOR = timedelta(days=7)
"""A draft that wasn't published for so long will hardly be; nobody looks for it any more."""

MOST_S = 60.0
"""So long may one round take; what it didn't get to, the oldest, waits for the next."""

log = structlog.get_logger(__name__)


def look_back(now: datetime) -> int:
    """Bring up to date the replays whose outcome isn't all known yet, the newest first.

    Returns how many. One that can't be compared is told in the log and keeps no other from it.
    """
    started, count = time.monotonic(), 0
    for replay in _open_ones(now):
        if time.monotonic() - started > MOST_S:
            log.warning("replays left for the next round", compared=count)
            break
        try:
            count += look_back_at(replay, now)
        except SoftTimeLimitExceeded:
            raise
        except Exception:
            log.exception("a replay could not be compared with what came", replay_id=replay.pk)
    return count


def _open_ones(now: datetime) -> Sequence[Replay]:
    """Those that something may still be learned of.

    A comparison is over one span after the publication, so two more are enough to make it in.
    """
    done = Replay.objects.filter(state=ReplayState.DONE).exclude(observed__is_whole=True)
    waiting = done.filter(published_at=None, created_at__gt=now - WAITS_FOR)
    published = done.filter(published_at__gt=now - 3 * (F("until") - F("since")))
    return [*(waiting | published).order_by("-created_at")]


def look_back_at(replay: Replay, now: datetime) -> bool:
    """Compare with what was foretold, if the draft was published and something came since.

    The time after it ends when the route is changed again, or is as long as what was replayed.
    """
    published, replaced = _in_force(replay)
    if published is None:
        return False
    if replay.published_version is None:
        note_published(replay, published)
    until = min(now, published.created_at + (replay.until - replay.since))
    if replaced is not None:
        until = min(until, replaced.created_at)
    if until <= published.created_at:
        return False
    observed = observe(replay, published.created_at, until)
    observed["is_replaced"] = replaced is not None
    observed["is_whole"] = bool(observed["is_whole"]) or replaced is not None
    note_observed(replay, observed)
    return True


def _in_force(replay: Replay) -> tuple[ConfigRevision | None, ConfigRevision | None]:
    """The version that brought the draft, and the next one that changed the route again."""
    published, drafted = None, route_of(replay.drafted)
    for revision in list_revisions_since(replay):
        found = _route_in(revision, replay.route_id)
        is_drafted = found is not None and is_same_route(found, drafted)
        if published is None and is_drafted:
            published = revision
        elif published is not None and not is_drafted:
            return published, revision
    return published, None


def _route_in(revision: ConfigRevision, route_id: str) -> RouteRecord | None:
    """The route in a version, None if it has none or isn't kept any longer."""
    section = ConfigSection.objects.filter(digest=revision.manifest.get("routes")).first()
    if section is None:
        return None
    for record in decode_section("routes", bytes(section.content)):
        if record.id == route_id:
            found: RouteRecord = record
            return found
    return None
