"""GET /health and /ready: no login, no upstream call, nothing about the installation."""

from inference.gateway.downstream import Downstream
from inference.gateway.headers import JSON
from inference.gateway.services import Services


async def answer_health(_services: Services, downstream: Downstream) -> None:
    """200: the process answers."""
    await _respond(downstream, 200, b'{"status":"ok"}')


async def answer_ready(services: Services, downstream: Downstream) -> None:
    """200 once there is a configuration to serve by, else 503; 503 too while it is to be drained.

    Without the state store requests are served all the same, by what is on disk: `degraded`.
    """
    if services.snapshots.current is None:
        await _respond(downstream, 503, b'{"status":"waiting for a configuration"}')
    elif services.is_draining:
        await _respond(downstream, 503, b'{"status":"draining"}')
    elif services.state_store.is_up:
        await _respond(downstream, 200, b'{"status":"ready","degraded":false}')
    else:
        await _respond(
            downstream, 200, b'{"status":"ready","degraded":true,"unreachable":["state store"]}'
        )


async def _respond(downstream: Downstream, status: int, body: bytes) -> None:
    headers = (
        (b"content-type", JSON),
        (b"content-length", b"%d" % len(body)),
        (b"cache-control", b"no-store"),
    )
    await downstream.respond(status, headers, body)
