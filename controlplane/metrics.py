"""`/-/metrics`: this plane's figures for Prometheus, to the machine itself or to who has the token.

Without `HEADWORKS_METRICS_TOKEN` it answers callers on loopback alone, and by the names of
loopback, so that no proxy hands it out and no web page can read it by a name that was made to lead
there.
"""

import ipaddress
import secrets

from asgiref.sync import sync_to_async
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from controlplane.bridge.control_metrics import (
    Figure,
    exposition,
    figures_of_parts,
    figures_of_rows,
    figures_of_store,
)
from controlplane.status import gather_parts

_NAMES = ("localhost", "127.0.0.1", "[::1]")


@require_safe
async def metrics(request: HttpRequest) -> HttpResponse:
    """Tell how well recorder, jobs, outbox and books are; without the database, what is left."""
    if not _may_read(request):
        return HttpResponse("Metrics are for this machine, or by their token.\n", status=403)
    parts = await gather_parts()
    found: list[Figure] = list(figures_of_parts(parts))
    found += await sync_to_async(lambda: list(figures_of_store()))()
    if not any(one.name == "database" and one.state == "down" for one in parts):
        found += await sync_to_async(lambda: list(figures_of_rows(timezone.now())))()
    return HttpResponse(exposition(found), content_type=CONTENT_TYPE_LATEST)


def _may_read(request: HttpRequest) -> bool:
    token = settings.HEADWORKS.metrics_token
    if token is not None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return secrets.compare_digest(given.encode(), token.get_secret_value().encode())
    host = request.get_host()
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return name in _NAMES and _is_loopback(request.META.get("REMOTE_ADDR", ""))


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
