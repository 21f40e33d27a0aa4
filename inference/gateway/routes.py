"""Which handler answers what: the whole public surface of the gateway."""

from collections.abc import Awaitable, Callable, Mapping

from inference.contract.kinds import Endpoint
from inference.decisions.endpoints import OTHER_PATHS, PATHS
from inference.errors import MethodNotAllowed, PathNotFound
from inference.gateway.downstream import Downstream
from inference.gateway.handlers.chat import complete_chat
from inference.gateway.handlers.completions import complete_text
from inference.gateway.handlers.embeddings import embed
from inference.gateway.handlers.feedback import take_feedback
from inference.gateway.handlers.health import answer_health, answer_ready
from inference.gateway.handlers.messages import answer_messages, count_tokens
from inference.gateway.handlers.models import list_models
from inference.gateway.handlers.responses import find_response, respond_to
from inference.gateway.handlers.scores import rerank, score
from inference.gateway.handlers.tokens import detokenize, tokenize
from inference.gateway.services import Services

Handler = Callable[[Services, Downstream], Awaitable[None]]

HANDLERS: Mapping[Endpoint, Handler] = {
    Endpoint.CHAT: complete_chat,
    Endpoint.COMPLETIONS: complete_text,
    Endpoint.RESPONSES: respond_to,
    Endpoint.MESSAGES: answer_messages,
    Endpoint.EMBEDDINGS: embed,
    Endpoint.RERANK: rerank,
    Endpoint.SCORE: score,
    Endpoint.TOKENIZE: tokenize,
    Endpoint.DETOKENIZE: detokenize,
    Endpoint.COUNT_TOKENS: count_tokens,
}

ROUTES: Mapping[str, Mapping[str, Handler]] = {
    **{path: {"POST": HANDLERS[endpoint]} for endpoint, path in PATHS.items()},
    **{path: {"POST": HANDLERS[endpoint]} for path, endpoint in OTHER_PATHS.items()},
    "/v1/models": {"GET": list_models},
    "/v1/feedback": {"POST": take_feedback},
    "/health": {"GET": answer_health, "HEAD": answer_health},
    "/ready": {"GET": answer_ready, "HEAD": answer_ready},
}

HOT_ROUTES: Mapping[bytes, Handler] = {
    PATHS[endpoint].encode(): ROUTES[PATHS[endpoint]]["POST"]
    for endpoint in (Endpoint.CHAT, Endpoint.COMPLETIONS, Endpoint.EMBEDDINGS)
}
"""Where most requests go, by the bytes of a POST's target: served without ASGI."""


# What can be done with one response, by what follows its id.
_OF_A_RESPONSE: Mapping[str, Mapping[str, Handler]] = {
    "": {"GET": find_response, "DELETE": find_response},
    "/cancel": {"POST": find_response},
    "/input_items": {"GET": find_response},
}


def find_handler(method: str, path: str) -> Handler:
    """The handler of a path and method, or PathNotFound or MethodNotAllowed."""
    methods = ROUTES.get(path) or _methods_of_a_response(path)
    if methods is None:
        raise PathNotFound
    handler = methods.get(method)
    if handler is None:
        raise MethodNotAllowed(*methods)
    return handler


def _methods_of_a_response(path: str) -> Mapping[str, Handler] | None:
    below = path.removeprefix(PATHS[Endpoint.RESPONSES] + "/")
    if below == path:
        return None
    response_id, slash, action = below.partition("/")
    return _OF_A_RESPONSE.get(slash + action) if response_id else None
