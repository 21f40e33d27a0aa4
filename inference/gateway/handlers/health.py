"""GET /health and /ready: no login, no upstream call, nothing about the installation."""

from inference.gateway.downstream import Downstream, respond
from inference.gateway.headers import JSON
from inference.gateway.services import Services

_HEADERS = ((b"content-type", JSON), (b"cache-control", b"no-store"))


async def answer_health(_services: Services, downstream: Downstream) -> None:
    """200: the process answers."""
    await respond(downstream, 200, _HEADERS, b'{"status":"ok"}')


async def answer_ready(services: Services, downstream: Downstream) -> None:
    """200 once there is a configuration to serve by, else 503."""
    is_ready = services.snapshots.current is not None
    body = b'{"status":"ready"}' if is_ready else b'{"status":"waiting for configuration"}'
    await respond(downstream, 200 if is_ready else 503, _HEADERS, body)
