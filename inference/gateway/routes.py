"""Which handler answers what: the whole public surface of the gateway."""

from collections.abc import Awaitable, Callable, Mapping

from inference.errors import MethodNotAllowed, PathNotFound
from inference.gateway.downstream import Downstream
from inference.gateway.handlers.chat import complete_chat
from inference.gateway.handlers.health import answer_health, answer_ready
from inference.gateway.handlers.models import list_models
from inference.gateway.services import Services

Handler = Callable[[Services, Downstream], Awaitable[None]]

ROUTES: Mapping[str, Mapping[str, Handler]] = {
    "/v1/chat/completions": {"POST": complete_chat},
    "/v1/models": {"GET": list_models},
    "/health": {"GET": answer_health, "HEAD": answer_health},
    "/ready": {"GET": answer_ready, "HEAD": answer_ready},
}


def find_handler(method: str, path: str) -> Handler:
    """The handler of a path and method, or PathNotFound or MethodNotAllowed."""
    methods = ROUTES.get(path)
    if methods is None:
        raise PathNotFound
    handler = methods.get(method)
    if handler is None:
        raise MethodNotAllowed(*methods)
    return handler
