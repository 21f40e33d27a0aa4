"""What follows from false hits: an entry taken out, a threshold raised, by people or by jobs."""

from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog
from django.db.models import Max
from django.utils import timezone

from controlplane.decisions.cache_calibration import (
    Raise,
    Steps,
    raised_by_complaint,
    raised_threshold,
)
from controlplane.decisions.cache_rollups import SERVED
from controlplane.errors import Conflict
from controlplane.models import AuditEntry, CachePolicy, FalseHit, Organisation, Request, Route
from controlplane.selectors.cache_usage import (
    list_checks_by_route,
    list_checks_of_routes,
    threshold_of,
)
from controlplane.services import audit
from controlplane.services.actors import Actor, ActorKind, Via, system_actor
from controlplane.services.cache_usage import PERSON
from controlplane.services.purges import create_purge
from controlplane.services.routes import update_route
from controlplane.services.snapshots import configuration_edit, staged_once
from inference.contract.kinds import CacheTier, PurgeKind

LOOKED_BACK = timedelta(days=30)
"""Checks that are older tell of other questions, and of thresholds that were raised since."""

log = structlog.get_logger(__name__)


def tell_wrong_answer(actor: Actor, *, request: Request) -> FalseHit:
    """Take the answer that a request was given out of the caches, so that nobody is given it again.

    The entry is purged, a false hit is noted with the actor's reason, and where the answer was
    found by meaning, the route's threshold is raised by one step. Raises Conflict where the answer
    came from no cache, was put together of vectors, or was told of already.
    """
    use = request.cache or {}
    if use.get("inputs") is not None:
        raise Conflict(
            "These vectors are kept input by input, each an entry of its own: purge their "
            "namespace or the policy."
        )
    if use.get("outcome") not in SERVED or not use.get("entry_id"):
        raise Conflict("This answer came from no cache.")
    organisation = Organisation.objects.get(pk=request.organisation_id)
    with staged_once(actor, actor.reason or "a wrong answer was told of"):
        found, is_new = FalseHit.objects.get_or_create(
            event_id=request.event_id,
            source=PERSON,
            defaults={
                "organisation_id": request.organisation_id,
                "at": timezone.now(),
                "project_id": request.project_id,
                "route_id": request.route_id or "",
                "policy_id": use["policy_id"],
                "entry_id": use["entry_id"],
                "similarity": use.get("similarity"),
                "told_by": actor.label,
                "reason": actor.reason[: audit.REASON_LENGTH],
            },
        )
        if not is_new:
            raise Conflict("Somebody told of this answer already; its entry is gone.")
        audit.record(
            actor,
            action="wrong_answer",
            noun="requests",
            object_id=request.event_id,
            organisation_id=request.organisation_id,
            after={"entry_id": use["entry_id"], "policy_id": use["policy_id"]},
        )
        create_purge(
            actor, organisation=organisation, kind=PurgeKind.ENTRY.value, value=use["entry_id"]
        )
        if use.get("tier") == CacheTier.SEMANTIC and use.get("similarity") is not None:
            _raise_by_a_step(actor, request.route_id, use["similarity"])
    return found


def _raise_by_a_step(actor: Actor, route_id: str | None, similarity: float) -> None:
    route = Route.objects.select_related("cache_policy").filter(pk=route_id).first()
    present = threshold_of(route)
    raised = None if present is None else raised_by_complaint(present, similarity)
    if route is not None and raised is not None:
        update_route(actor, route_id=route.pk, changes={"similarity_min": raised})


def calibrate(now: datetime) -> int:
    """Raise the thresholds of routes whose hits by meaning are surely false too often.

    Returns how many were raised; each is an edit of its own, made by the system.
    """
    raised = 0
    holding = CachePolicy.objects.filter(
        is_enabled=True,
        tiers__contains=[CacheTier.SEMANTIC.value],
        false_hits_max_percent__isnull=False,
        routes__isnull=False,
    )
    homes = holding.order_by("organisation_id").values_list("organisation_id", flat=True)
    for organisation_id in list(homes.distinct()):
        for route_id, steps in sorted(_checks_of(organisation_id, now).items()):
            raised += _calibrate_route(organisation_id, route_id, steps)
    return raised


def _checks_of(organisation_id: str, now: datetime) -> Mapping[str, Steps]:
    """Checks by route: where a person set its threshold, those of the hours since.

    Or a threshold that somebody lowered would be raised again by what had raised it before.
    """
    since = now - LOOKED_BACK
    found = dict(list_checks_by_route(organisation_id, since))
    edits = AuditEntry.objects.filter(
        noun="routes", object_id__in=list(found), at__gte=since, before__has_key="similarity_min"
    ).exclude(actor_kind=ActorKind.SYSTEM)
    for route_id, at in edits.values_list("object_id").annotate(Max("at")):
        found[route_id] = list_checks_of_routes([route_id], at).get(route_id, {})
    return found


def _calibrate_route(organisation_id: str, route_id: str, steps: Steps) -> int:
    if _raise_of(organisation_id, route_id, steps) is None:
        return 0
    with configuration_edit():
        # what was read before the lock may have changed
        found = _raise_of(organisation_id, route_id, steps)
        if found is None:
            return 0
        raised, words = found
        actor = system_actor("calibration of caches", via=Via.JOB, reason=words)
        update_route(actor, route_id=route_id, changes={"similarity_min": raised.similarity_min})
    log.info("threshold of a route raised", route=route_id, similarity=raised.similarity_min)
    return 1


def _raise_of(organisation_id: str, route_id: str, steps: Steps) -> tuple[Raise, str] | None:
    """What a route's threshold is to be raised to and why, if it is."""
    found = Route.objects.select_related("cache_policy")
    route = found.filter(pk=route_id, organisation_id=organisation_id).first()
    policy = None if route is None else route.cache_policy
    present = threshold_of(route)
    if policy is None or present is None or policy.false_hits_max_percent is None:
        return None
    if not policy.is_enabled or CacheTier.SEMANTIC.value not in policy.tiers:
        return None
    raised = raised_threshold(steps, present, policy.false_hits_max_percent / 100)
    return None if raised is None else (raised, _words(raised, present, policy))


def _words(raised: Raise, present: float, policy: CachePolicy) -> str:
    rate = raised.rate
    return (
        f"{rate.false_hits} of {rate.checks} checked hits at {present:.2f} or more were false "
        f"(at least {100 * rate.low:.1f} % with 95 % confidence); policy {policy.name} allows "
        f"{policy.false_hits_max_percent:g} %"
    )
