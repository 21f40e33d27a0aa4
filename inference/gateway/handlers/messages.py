"""POST /v1/messages and /v1/messages/count_tokens, which are Anthropic's."""

from collections.abc import Coroutine
from typing import Any

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


def answer_messages(services: Services, downstream: Downstream) -> Coroutine[Any, Any, None]:
    """Answer a conversation with a message, whole or as a stream."""
    return run(Exchange(services, downstream, endpoint=Endpoint.MESSAGES))


def count_tokens(services: Services, downstream: Downstream) -> Coroutine[Any, Any, None]:
    """Answer with how many tokens a conversation is."""
    return run(Exchange(services, downstream, endpoint=Endpoint.COUNT_TOKENS))
