"""uvicorn, set up for the gateway and driven by whoever runs the process."""

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from uvicorn import Config, Server

from inference.contract.params import GATEWAY_DRAIN_S
from inference.gateway.app import GatewayApp
from inference.gateway.hot import HotProtocol
from inference.gateway.listener import BACKLOG
from inference.gateway.protocol import GatewayProtocol

# Longer than the idle time-out of common load balancers (60 s), so that they close first.
KEEP_ALIVE_S = 75


class QuietServer(Server):
    """A uvicorn server that leaves the process's signals alone: set `should_exit` to stop it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class GatewayServer(QuietServer):
    """A server whose stop breaks off no request: not one under way, nor one on its way here.

    `accepting` is set once it accepts connections.
    """

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.accepting = asyncio.Event()
        self._second = 0

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.accepting.set()

    async def on_tick(self, counter: int) -> bool:
        # uvicorn makes a new `date` each ten ticks, which may begin late in a second: by that it is
        # told for up to a second too long
        before, self._second = self._second, int(time.time())
        return await super().on_tick(0 if self._second != before else 1)

    async def _wait_tasks_to_complete(self) -> None:
        # a connection accepted at the last moment is made only after all were told of the end
        for connection in list(self.server_state.connections):
            connection.shutdown()
        await super()._wait_tasks_to_complete()


def make_server(
    app: GatewayApp, *, drain_s: int = GATEWAY_DRAIN_S, is_hot: bool = True
) -> GatewayServer:
    """A server of this app; `serve(sockets=[…])` runs it until it has drained.

    Unless it `is_hot`, every request goes by ASGI, which is slower and answers the same.
    """
    return GatewayServer(
        Config(
            app,
            http=HotProtocol if is_hot else GatewayProtocol,
            loop="uvloop",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=True,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=drain_s,
        )
    )
