"""POST /v1/completions."""

from collections.abc import Coroutine
from typing import Any

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


def complete_text(services: Services, downstream: Downstream) -> Coroutine[Any, Any, None]:
    """Continue a text or several, whole or as a stream."""
    return run(Exchange(services, downstream, endpoint=Endpoint.COMPLETIONS))
