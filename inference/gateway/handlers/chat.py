"""POST /v1/chat/completions."""

from collections.abc import Coroutine
from typing import Any

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


def complete_chat(services: Services, downstream: Downstream) -> Coroutine[Any, Any, None]:
    """Answer a chat request, whole or as a stream."""
    return run(Exchange(services, downstream, endpoint=Endpoint.CHAT))
