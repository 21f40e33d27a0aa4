"""What kill switches turn off: one that is thrown and has not expired refuses what it names."""

from inference.contract.kinds import SwitchSubject
from inference.contract.snapshot import (
    ConfigSnapshot,
    KeyRecord,
    PoolRecord,
    RouteRecord,
    SwitchRecord,
)


def switch_on_caller(
    snapshot: ConfigSnapshot, identity: KeyRecord, *, now: float
) -> SwitchRecord | None:
    """The switch that turns off the caller's organisation, project or key."""
    if not snapshot.thrown:
        return None
    organisation_id = identity.organisation_id
    return (
        _thrown(snapshot, organisation_id, SwitchSubject.ORGANISATION, None, now)
        or _thrown(snapshot, organisation_id, SwitchSubject.PROJECT, identity.project_id, now)
        or _thrown(snapshot, organisation_id, SwitchSubject.KEY, identity.id, now)
    )


def switch_on_route(
    snapshot: ConfigSnapshot, route: RouteRecord, *, now: float
) -> SwitchRecord | None:
    """The switch that turns off a route."""
    if not snapshot.thrown:
        return None
    return _thrown(snapshot, route.organisation_id, SwitchSubject.ROUTE, route.id, now)


def switch_on_pool(
    snapshot: ConfigSnapshot, pool: PoolRecord, *, now: float
) -> SwitchRecord | None:
    """The switch that turns off a pool, or the model it serves."""
    if not snapshot.thrown:
        return None
    organisation_id = pool.organisation_id
    return _thrown(snapshot, organisation_id, SwitchSubject.POOL, pool.id, now) or _thrown(
        snapshot, organisation_id, SwitchSubject.MODEL, pool.model_id, now
    )


def _thrown(
    snapshot: ConfigSnapshot,
    organisation_id: str,
    subject: SwitchSubject,
    subject_id: str | None,
    now: float,
) -> SwitchRecord | None:
    switch = snapshot.thrown.get((organisation_id, subject, subject_id))
    if switch is None or (switch.expires_at is not None and switch.expires_at <= now):
        return None
    return switch
