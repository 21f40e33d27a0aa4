"""Gateways as the System page tells them: what each says of itself, and what can be done to it."""

from collections.abc import Sequence
from dataclasses import dataclass

from django.urls import reverse

from controlplane.bridge.gateways import GatewayNow, read_gateways
from controlplane.console.details import State
from controlplane.console.formats import count
from controlplane.console.nouns import GATEWAYS
from controlplane.console.pages import Action
from controlplane.decisions.propagation import DrainState, GatewayFacts
from controlplane.models import AuditEntry
from controlplane.selectors.access import Access
from controlplane.selectors.audit import list_newest_entries

DRAIN, PUT_BACK, RESTART = "drain", "put-back", "restart"
VERBS = {DRAIN: "Drain", PUT_BACK: "Put back", RESTART: "Restart"}


@dataclass(frozen=True, slots=True)
class GatewayRow:
    """One gateway. `is_told` is whether the reader may know what it has under way, and act.

    `last` is the newest change of what is wanted, to who reads the platform's trail.
    """

    name: str
    state: State
    detail: str
    version: int | None
    processes: str
    restart: str
    is_told: bool
    inflight: int | None
    acts: Sequence[Action]
    last: AuditEntry | None


def gateway_rows(access: Access) -> Sequence[GatewayRow] | None:
    """All gateways; None if nobody can tell now."""
    now = read_gateways()
    if now.propagation is None:
        return None
    is_told = access.is_platform_admin
    ids = [one.setting_id for one in now.gateways if one.setting_id] if is_told else []
    last = list_newest_entries(access, GATEWAYS.key, ids)
    return [_row(one, last.get(one.setting_id), is_told=is_told) for one in now.gateways]


def _row(gateway: GatewayNow, last: AuditEntry | None, *, is_told: bool) -> GatewayRow:
    facts = gateway.facts
    return GatewayRow(
        name=gateway.name,
        state=_state(gateway, is_told=is_told),
        detail=_detail(gateway),
        version=None if facts is None else facts.version,
        processes="none" if facts is None else _processes(facts),
        restart=_restart(gateway),
        is_told=is_told,
        inflight=None if facts is None else facts.inflight,
        acts=_acts(gateway) if is_told else (),
        last=last,
    )


def _state(gateway: GatewayNow, *, is_told: bool) -> State:
    match gateway.state:
        case DrainState.SERVING:
            return State("Serving")
        case DrainState.DRAINED:
            return State("Drained", "pause", "idle")
        case DrainState.DRAINING:
            left = None if gateway.facts is None or not is_told else gateway.facts.inflight
            return State(f"Draining{_left_words(left)}", "clock", "info")
        case _:
            if gateway.facts is None:
                return State("Not seen", "nodata", "idle")
            return State("Silent", "crit", "crit")


def _left_words(left: int | None) -> str:
    if left is None:
        return ""
    return f": {count(left)} request{'' if left == 1 else 's'} left"


def _detail(gateway: GatewayNow) -> str:
    facts = gateway.facts
    if facts is None:
        return "It was not seen lately; what is wanted of it applies when it comes."
    if gateway.state is DrainState.DRAINED:
        return "Its /ready answers 503; what reaches it is still served."
    is_wanted = gateway.is_drained
    if gateway.state is DrainState.DRAINING and not is_wanted:
        return "No drain is wanted: it comes back, or is being stopped."
    if gateway.state is DrainState.DRAINING and not facts.is_draining:
        begun = f"{facts.children_draining:,} of {facts.children_seen:,} processes"
        return f"{begun} have begun to drain."
    return ""


def _processes(facts: GatewayFacts) -> str:
    return f"{facts.children_live:,} of {facts.children_seen:,} report"


def _restart(gateway: GatewayNow) -> str:
    """Where a restart that was asked for has come to."""
    if not gateway.is_restarting:
        return ""
    return f"Restarting: generation {gateway.restart_generation:,} is wanted"


def _acts(gateway: GatewayNow) -> Sequence[Action]:
    first = PUT_BACK if gateway.is_drained else DRAIN
    icon = "play" if gateway.is_drained else "pause"
    return (
        Action(VERBS[first], act_url(gateway.name, first), icon=icon),
        Action(VERBS[RESTART], act_url(gateway.name, RESTART), icon="restart"),
    )


def act_url(name: str, act: str) -> str:
    return reverse(f"gateway-{act}", args=[name])
