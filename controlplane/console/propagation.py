"""After a save: on how many gateways the new version is in force, asked until it's all of them."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_safe

from controlplane.bridge.vitals import read_propagation
from controlplane.console.scope import Scope, scoped
from controlplane.decisions.propagation import GatewayFacts
from controlplane.selectors.revisions import get_revision_at

APPLIED = "applied"
"""Query parameter of the page a save leads to: the version, or 0 if gateways read none of it."""

WAIT_S = 10.0
"""A gateway that hears nothing for so long is named as missing; it polls every 2 s."""

_LONGEST = 19


@dataclass(frozen=True, slots=True)
class Applied:
    """How far a version has come. `seconds` is None where it was in force before anyone looked.

    `missing` and `refused` name gateways; they are empty to roles of teams and projects alone.
    """

    version: int
    live: int
    seen: int
    missing: tuple[str, ...]
    refused: tuple[str, ...]
    is_over: bool
    is_known: bool = True
    seconds: float | None = None

    @property
    def is_everywhere(self) -> bool:
        return self.is_known and self.live == self.seen > 0


def applied_context(request: HttpRequest) -> dict[str, Any]:
    """What a page says after a save, by the parameter in its address."""
    version = _version_in(request.GET.get(APPLIED, ""))
    if version is None:
        return {}
    return {"is_saved": True, "saved_version": version}


@require_safe
@scoped
def propagation(request: HttpRequest, scope: Scope, version: int) -> HttpResponse:
    """Tell how far a version has come; asks to be asked again until it is over."""
    applied = find_applied(version, timezone.now())
    if not scope.access.reads_organisation(scope.organisation.pk):
        applied = replace(applied, missing=(), refused=())
    return render(request, "components/applied.html", {"applied": applied})


def find_applied(version: int, now: datetime) -> Applied:
    """Compare what gateways say they run with a version of the current lineage."""
    revision = get_revision_at(version)
    found = read_propagation()
    age_s = WAIT_S
    if revision is not None:
        age_s = max((now - revision.created_at).total_seconds(), 0.0)
    if found is None:
        return Applied(version, 0, 0, (), (), is_over=age_s >= WAIT_S, is_known=False)
    behind = [one for one in found.gateways if not _runs(one, version, found.lineage)]
    refused = tuple(
        f"{one.name}: {one.refused_at}" for one in behind if one.refused_version is not None
    )
    is_everywhere = bool(found.gateways) and not behind
    return Applied(
        version,
        found.seen - len(behind),
        found.seen,
        tuple(one.name for one in behind),
        refused,
        is_over=is_everywhere or age_s >= WAIT_S,
        seconds=age_s if is_everywhere and age_s < WAIT_S else None,
    )


def _runs(gateway: GatewayFacts, version: int, lineage: str | None) -> bool:
    """A later version contains the edit too."""
    is_ours = gateway.is_live and gateway.lineage == lineage
    return is_ours and gateway.version is not None and gateway.version >= version


def _version_in(text: str) -> int | None:
    is_number = text.isascii() and text.isdigit() and len(text) < _LONGEST
    return int(text) if is_number else None
