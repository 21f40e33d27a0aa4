"""The parent's own port, on loopback: metrics of all its children as one, and how they are.

No key is asked for and no secret is told. What asks by another name than this machine's is a web
page whose name was made to lead here, and is refused. It has no part in serving: requests of
callers never come here, and a child that stands still delays an answer by a second.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, Protocol

import msgspec
from uvicorn import Config

from inference.gateway.downstream import Receive, Scope, Send
from inference.gateway.headers import JSON
from inference.gateway.processes import ServingProcess
from inference.gateway.server import QuietServer

LOOPBACK = "127.0.0.1"

_OWN_NAMES = frozenset({LOOPBACK.encode(), b"localhost"})

TEXT = b"text/plain; version=0.0.4; charset=utf-8"


class Standing(StrEnum):
    """Whether a gateway takes requests."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPING = "stopping"


class Watched(Protocol):
    """The gateway as its admin port sees it."""

    @property
    def standing(self) -> Standing: ...

    @property
    def children(self) -> Sequence[ServingProcess]: ...

    @property
    def generation(self) -> int | None: ...

    async def ask_all(self) -> None: ...

    async def metrics(self) -> bytes: ...


Answer = tuple[int, bytes, bytes]
"""Status, content type and body."""


class AdminApp:
    """An ASGI application over one gateway."""

    def __init__(self, gateway: Watched) -> None:
        self._gateway = gateway
        self._pages: Mapping[str, Callable[[], Awaitable[Answer]]] = {
            "/metrics": self._metrics,
            "/ready": self._ready,
            "/health": self._health,
            "/debug": self._debug,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        page = self._pages.get(scope["path"])
        if not _is_for_us(scope):
            status, kind, body = _json(421, {"status": "not the name of this machine"})
        elif page is None:
            status, kind, body = _json(404, {"status": "not found", "paths": [*self._pages]})
        elif scope["method"] not in ("GET", "HEAD"):
            status, kind, body = _json(405, {"status": "method not allowed"})
        else:
            status, kind, body = await page()
        headers = (
            (b"content-type", kind),
            (b"content-length", b"%d" % len(body)),
            (b"cache-control", b"no-store"),
        )
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def _metrics(self) -> Answer:
        return 200, TEXT, await self._gateway.metrics()

    async def _health(self) -> Answer:
        """200: the parent answers."""
        return _json(200, {"status": "ok"})

    async def _ready(self) -> Answer:
        """200 while a child accepts and the gateway is wanted; else 503."""
        standing = self._gateway.standing
        accepting = sum(one.serves for one in self._gateway.children)
        status = 200 if standing is Standing.READY else 503
        return _json(status, {"status": standing.value, "accepting": accepting})

    async def _debug(self) -> Answer:
        await self._gateway.ask_all()
        return _json(
            200,
            {
                "status": self._gateway.standing.value,
                "restart_generation": self._gateway.generation,
                "processes": [_facts(one) for one in self._gateway.children],
            },
        )


def _is_for_us(scope: Scope) -> bool:
    """Whether it was asked by a name of this machine, or by none, as no browser does."""
    hosts = [value for name, value in scope["headers"] if name == b"host"]
    return all(host.lower().partition(b":")[0] in _OWN_NAMES for host in hosts)


def _facts(child: ServingProcess) -> dict[str, Any]:
    """One child: how it stands, and its vitals, null if it never said."""
    return {
        "slot": child.slot,
        "pid": child.pid,
        "is_accepting": child.serves,
        "is_leaving": child.is_leaving,
        "is_due": child.superseded.is_set(),
        "vitals": None if child.last is None else msgspec.to_builtins(child.last.vitals),
    }


def _json(status: int, document: object) -> Answer:
    return status, JSON, msgspec.json.encode(document)


def make_admin_server(gateway: Watched) -> QuietServer:
    """A server of the admin port; `serve(sockets=[…])` runs it until `should_exit`."""
    return QuietServer(
        Config(
            AdminApp(gateway),
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=1,
        )
    )
