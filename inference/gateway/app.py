"""The gateway as an ASGI application."""

import structlog

from inference.errors import GatewayError, InternalError
from inference.gateway.dialects import Dialect, dialect_at
from inference.gateway.downstream import AsgiDownstream, Downstream, Receive, Scope, Send
from inference.gateway.error_responses import error_frame, error_response
from inference.gateway.headers import answer_headers
from inference.gateway.identifiers import RANDOM_BITS, event_id
from inference.gateway.routes import Handler, find_handler
from inference.gateway.services import Services

log = structlog.get_logger(__name__)


class GatewayApp:
    """Serves HTTP scopes on a server that runs `gateway.protocol.GatewayProtocol`.

    What a process needs is started before and stopped after the server, by `gateway.child`, so
    there is no lifespan here.
    """

    def __init__(self, services: Services) -> None:
        self.services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            raise RuntimeError("the gateway speaks HTTP only")
        downstream = AsgiDownstream(scope, receive, send, is_last=self.is_draining)
        dialect = dialect_at(scope["path"])
        try:
            handler = find_handler(scope["method"], scope["path"])
        except GatewayError as error:
            await self.refuse(downstream, error, dialect)
        else:
            await self.answer(downstream, handler, dialect)

    @property
    def is_draining(self) -> bool:
        """Whether the configuration wants every answer to be its connection's last."""
        return self.services.is_draining

    async def answer(
        self, downstream: Downstream, handler: Handler, dialect: Dialect = Dialect.OPENAI
    ) -> None:
        """Have a request answered, by its handler or with the error that came of it."""
        try:
            await handler(self.services, downstream)
        except GatewayError as error:
            await self.refuse(downstream, error, dialect)
        except Exception:
            log.exception("request handler failed")
            await self.refuse(downstream, InternalError(), dialect)

    async def refuse(
        self, downstream: Downstream, error: GatewayError, dialect: Dialect = Dialect.OPENAI
    ) -> None:
        """Answer a request that no exchange answered."""
        if downstream.has_started:
            await downstream.abort(error_frame(error, dialect))
            return
        now_ms = int(self.services.clock() * 1000)
        request_id = event_id(now_ms, self.services.random_bits(RANDOM_BITS))
        response = error_response(error, dialect)
        headers = answer_headers(request_id, content_length=len(response.body), dialect=dialect)
        await downstream.respond(response.status, headers + response.headers, response.body)
