"""The same by REST: what a page shows, or what a form would change, as a line for a shell."""

import json
import shlex
from collections.abc import Mapping

from django.http import HttpRequest, QueryDict
from django.urls import reverse

from controlplane.console.scope import PARAMETER, Scope

TOKEN = "$API_TOKEN"
REASON_HEADER = "X-Headworks-Reason"
LIVE_WINDOW = "15m"
"""What live pages show unless their address says otherwise; the API's own default is longer."""

_JOIN = " \\\n  "


def reading(
    request: HttpRequest,
    scope: Scope,
    path: str,
    query: QueryDict | None = None,
    *,
    place: str = PARAMETER,
) -> str:
    """The call that answers what a page shows.

    `place` is what the path calls the organisation; "" where it takes none.
    """
    asked = QueryDict(mutable=True) if query is None else query.copy()
    if place and scope.is_choice and place not in asked:
        asked[place] = scope.organisation.pk
    address = request.build_absolute_uri(path)
    if asked:
        address = f"{address}?{asked.urlencode()}"
    return _JOIN.join((f'curl -H "Authorization: Bearer {TOKEN}"', shlex.quote(address)))


def live_call(request: HttpRequest, scope: Scope, **subject: str) -> str:
    """The call that answers what the Live tab of this `pool` or `route` shows."""
    asked = QueryDict(mutable=True)
    asked.update({**subject, "window": request.GET.get("window") or LIVE_WINDOW})
    if request.GET.get("until"):
        asked["until"] = request.GET["until"]
    return reading(request, scope, reverse("api-live-list"), asked)


def changing(
    request: HttpRequest,
    method: str,
    path: str,
    document: Mapping[str, object] | None = None,
    *,
    version: int | None = None,
    reason: str = "",
) -> str:
    """The call that makes the same change, at the same version."""
    parts = [f"curl -X {method}", f'-H "Authorization: Bearer {TOKEN}"']
    if version is not None:
        parts.append("-H " + shlex.quote(f'If-Match: "{version}"'))
    if reason:
        told = " ".join(reason.split())
        parts.append("-H " + shlex.quote(f"{REASON_HEADER}: {told}"))
    if document is not None:
        parts.append("-H 'Content-Type: application/json'")
        parts.append("-d " + shlex.quote(json.dumps(document, ensure_ascii=False)))
    parts.append(shlex.quote(request.build_absolute_uri(path)))
    return _JOIN.join(parts)
