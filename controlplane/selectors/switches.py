"""Kill switches that are thrown, as a caller may see them; an expired one turns off nothing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Q, QuerySet
from django.utils import timezone

from controlplane.models import Key, Organisation, Pool, Request, Route, RouteTarget, Switch
from controlplane.selectors.access import Access
from controlplane.selectors.impact import Traffic, get_traffic
from controlplane.selectors.subjects import visible_by_subject
from inference.contract.kinds import SwitchSubject

SINCE = timedelta(hours=1)
MOST_LOOKED_AT = 20_000
"""Of a busy organisation's last hour only so many requests are looked at for a key's share."""


def list_switches(access: Access) -> QuerySet[Switch]:
    """What is off now."""
    held = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    return visible_by_subject(access, Switch.objects.filter(held))


def get_switch_on(
    access: Access, organisation_id: str, subject: str, subject_id: str | None
) -> Switch | None:
    """The switch that turns off this very thing, if one does and the caller may know."""
    rows = list_switches(access).filter(organisation_id=organisation_id, subject=subject)
    named = {"subject_id__isnull": True} if subject_id is None else {"subject_id": subject_id}
    return rows.filter(**named).first()


@dataclass(frozen=True, slots=True)
class Effect:
    """What turning a thing off would touch, by the last hour and the configuration of now.

    `requests` are its own of that hour and `total` the organisation's; both None to roles that
    don't read all of it. `is_capped`: only the newest MOST_LOOKED_AT of the hour were looked at.
    `refused` are routes that would have no target left, `narrowed` those that would have fewer;
    `keys` counts the live keys whose requests would be refused. Names are in their order.
    """

    requests: int | None
    total: int | None
    is_capped: bool
    projects: tuple[str, ...]
    refused: tuple[str, ...]
    narrowed: tuple[str, ...]
    keys: int


def get_effect(
    access: Access, organisation: Organisation, subject: SwitchSubject, subject_id: str | None
) -> Effect:
    """What turning this off would touch."""
    now = timezone.now()
    traffic = _traffic_of(access, organisation, subject, subject_id, now - SINCE)
    refused, narrowed = _routes_of(organisation, subject, subject_id)
    requests, total, is_capped = None, None, False
    if access.reads_organisation(organisation.pk):
        total = get_traffic(access, organisation, since=now - SINCE).requests
        requests = traffic.requests
        if subject is SwitchSubject.KEY and subject_id is not None:
            requests, is_capped = _requests_of_key(organisation, subject_id, now)
    return Effect(
        requests,
        total,
        is_capped,
        tuple(traffic.projects),
        refused,
        narrowed,
        _keys_of(organisation, subject, subject_id).count(),
    )


_TRAFFIC = {
    SwitchSubject.ROUTE: "route_id",
    SwitchSubject.POOL: "pool_id",
    SwitchSubject.MODEL: "model_id",
    SwitchSubject.PROJECT: "project_id",
}


def _traffic_of(
    access: Access,
    organisation: Organisation,
    subject: SwitchSubject,
    subject_id: str | None,
    since: datetime,
) -> Traffic:
    if subject is SwitchSubject.KEY:
        return Traffic(0, 0, 0, 0, ())
    asked = {_TRAFFIC[subject]: subject_id} if subject in _TRAFFIC else {}
    return get_traffic(access, organisation, since=since, **asked)


def _requests_of_key(organisation: Organisation, pk: str, now: datetime) -> tuple[int, bool]:
    """How many of the last hour's requests came with a key, and whether not all were looked at."""
    key = Key.objects.get(pk=pk)
    rows = Request.objects.filter(organisation_id=organisation.pk)
    since = now - SINCE
    recent = rows.filter(day__gte=since.date(), at__gte=since)
    newest = recent.order_by("-at", "-event_id").values_list("key_id", flat=True)
    seen = list(newest[:MOST_LOOKED_AT])
    return seen.count(key.public_id), len(seen) == MOST_LOOKED_AT


def _keys_of(
    organisation: Organisation, subject: SwitchSubject, subject_id: str | None
) -> QuerySet[Key]:
    """The live keys whose every request would be refused, or of a route those that may ask it."""
    live = Key.objects.filter(organisation=organisation, is_enabled=True, revoked_at__isnull=True)
    live = live.filter(Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now()))
    match subject:
        case SwitchSubject.ORGANISATION:
            return live
        case SwitchSubject.PROJECT:
            return live.filter(project_id=subject_id)
        case SwitchSubject.KEY:
            return live.filter(pk=subject_id)
        case SwitchSubject.ROUTE:
            named = live.filter(routes=subject_id).values("pk")
            return live.filter(Q(is_restricted=False) | Q(pk__in=named))
        case _:
            return live.none()


def _routes_of(
    organisation: Organisation, subject: SwitchSubject, subject_id: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the routes that would have no target left, and of those that would have fewer."""
    if subject not in (SwitchSubject.POOL, SwitchSubject.MODEL):
        return (), ()
    pools = dict(Pool.objects.filter(organisation=organisation).values_list("pk", "model_id"))
    asked = {pk for pk, model in pools.items() if subject_id in (pk, model)}
    off = asked | _pools_off(organisation, pools)
    targets: dict[str, set[str]] = {}
    rows = RouteTarget.objects.filter(organisation=organisation, route__is_enabled=True)
    for route_id, pool_id in rows.values_list("route_id", "pool_id"):
        targets.setdefault(route_id, set()).add(pool_id)
    refused, narrowed = [], []
    routes = Route.objects.filter(organisation=organisation, is_enabled=True).order_by("name")
    for pk, name, rules in routes.values_list("pk", "name", "rules"):
        by_rule = {one["pool_id"] for rule in rules for one in rule.get("targets", ())}
        usual = targets.get(pk, set())
        if asked.isdisjoint(usual | by_rule):
            continue
        (refused if usual and usual <= off else narrowed).append(name)
    return tuple(refused), tuple(narrowed)


def _pools_off(organisation: Organisation, pools: Mapping[str, str]) -> set[str]:
    """Pools that are off already, by themselves or with their model."""
    held = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    kinds: Collection[str] = (SwitchSubject.POOL.value, SwitchSubject.MODEL.value)
    rows = Switch.objects.filter(held, organisation=organisation, subject__in=kinds)
    off = set(rows.values_list("subject_id", flat=True))
    return {pk for pk, model in pools.items() if not off.isdisjoint((pk, model))}
