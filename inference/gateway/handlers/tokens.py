"""POST /tokenize and /detokenize, which are vLLM's."""

from collections.abc import Coroutine
from typing import Any

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


def tokenize(services: Services, downstream: Downstream) -> Coroutine[Any, Any, None]:
    """Answer with the tokens a text or a conversation is made of."""
    return run(Exchange(services, downstream, endpoint=Endpoint.TOKENIZE))


def detokenize(services: Services, downstream: Downstream) -> Coroutine[Any, Any, None]:
    """Answer with the text of tokens."""
    return run(Exchange(services, downstream, endpoint=Endpoint.DETOKENIZE))
