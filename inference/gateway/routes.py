"""Which handler answers what: the whole public surface of the gateway."""

from collections.abc import Awaitable, Callable, Mapping

from inference.contract.kinds import Endpoint
from inference.decisions.endpoints import PATHS
from inference.errors import MethodNotAllowed, PathNotFound
from inference.gateway.downstream import Downstream
from inference.gateway.handlers.chat import complete_chat
from inference.gateway.handlers.completions import complete_text
from inference.gateway.handlers.embeddings import embed
from inference.gateway.handlers.health import answer_health, answer_ready
from inference.gateway.handlers.models import list_models
from inference.gateway.handlers.tokens import detokenize, tokenize
from inference.gateway.services import Services

Handler = Callable[[Services, Downstream], Awaitable[None]]

ROUTES: Mapping[str, Mapping[str, Handler]] = {
    PATHS[Endpoint.CHAT]: {"POST": complete_chat},
    PATHS[Endpoint.COMPLETIONS]: {"POST": complete_text},
    PATHS[Endpoint.EMBEDDINGS]: {"POST": embed},
    PATHS[Endpoint.TOKENIZE]: {"POST": tokenize},
    PATHS[Endpoint.DETOKENIZE]: {"POST": detokenize},
    # for clients that can be given one base URL only
    "/v1/tokenize": {"POST": tokenize},
    "/v1/detokenize": {"POST": detokenize},
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
