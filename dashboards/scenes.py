"""The facts of a live page, read at one moment: rows by selectors, the fleet from its own words."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from zoneinfo import ZoneInfo

from controlplane.bridge.vitals import Fleet, place_of_refusal, read_fleet
from controlplane.decisions.pool_conditions import Wanted, condition_of
from controlplane.errors import NotFound
from controlplane.models import Pool
from controlplane.selectors.access import Access
from controlplane.selectors.alerts import list_firing
from controlplane.selectors.budget_effects import list_refusing
from controlplane.selectors.live import Span, get_live, newest, span_of
from controlplane.selectors.organisations import list_organisations
from controlplane.selectors.pools import list_pools
from dashboards.base import SLOTS, PoolLine, Refusal, Scene
from dashboards.documents import slots_of
from dashboards.kinds import Page
from dashboards.scopes import LiveScope

FEED_ACCESS = Access(is_platform_admin=True)
"""The feed computes for everybody; who may watch a scope was asked at its socket's door."""


def read_whole(
    access: Access, scope: LiveScope, now: datetime, until: datetime | None = None
) -> Scene:
    """The whole window, ending now or at `until`; raises NotFound, and Invalid for a bad end."""
    scene = _read(access, scope, now, span_of(scope.window, now, until=until), read_fleet())
    # what holds now is nothing of a past
    return scene if until is None else replace(scene, alerts=(), refusing=())


def read_newest(scope: LiveScope, now: datetime, fleet: Fleet | None) -> Scene:
    """The newest buckets alone, for the feed; raises NotFound when the scope is gone."""
    return _read(FEED_ACCESS, scope, now, newest(span_of(scope.window, now)), fleet)


def _read(
    access: Access, scope: LiveScope, now: datetime, span: Span, fleet: Fleet | None
) -> Scene:
    organisation = list_organisations(access).filter(pk=scope.organisation_id).first()
    if organisation is None:
        raise NotFound
    view = get_live(access, organisation, span, pool_id=scope.pool_id, route_id=scope.route_id)
    rows = list(list_pools(access).filter(organisation_id=organisation.pk).order_by("name"))
    # a queue each pool of the scope: of a route those that it may send to
    own = {one.key for one in view.queues}
    shown = [row for row in rows if row.pk in own]
    return Scene(
        page=scope.page,
        view=view,
        now=now,
        zone=ZoneInfo(organisation.time_zone),
        zone_name=organisation.time_zone,
        pools=[_line(row, fleet) for row in shown],
        slots=slots_of([row.pk for row in rows], SLOTS),
        refusals=_refusals(fleet),
        has_store=fleet is not None,
        alerts=list_firing(organisation) if scope.page is Page.OVERVIEW else (),
        refusing=list_refusing(organisation, now) if scope.page is Page.OVERVIEW else (),
    )


def _line(row: Pool, fleet: Fleet | None) -> PoolLine:
    workers = None
    if fleet is not None and fleet.workers is not None:
        workers = [one for one in fleet.workers if one.pool_id == row.pk]
    wanted = Wanted(
        row.name,
        row.provisioner,
        row.power,
        row.replicas,
        len(row.addresses),
        cordoned=row.cordoned,
    )
    condition = condition_of(wanted, workers, has_leader=fleet is not None and fleet.has_leader)
    return PoolLine(
        id=row.pk,
        name=row.name,
        model=row.model.name,
        state=condition.kind,
        reason=condition.reason,
        ready=condition.ready,
        wanted=condition.wanted,
        is_priced=row.is_priced,
    )


def _refusals(fleet: Fleet | None) -> Sequence[Refusal]:
    """Which gateways refused a version, and at which kind of record; what it names stays out."""
    if fleet is None:
        return ()
    return sorted(
        {
            Refusal(one.gateway, one.applied.refused_version, place_of_refusal(one.applied))
            for one in fleet.gateways
            if one.applied.refused_why is not None
        },
        key=lambda one: (one.gateway, one.version or 0),
    )
