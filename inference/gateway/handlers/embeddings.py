"""POST /v1/embeddings."""

from collections.abc import Coroutine
from typing import Any

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


def embed(services: Services, downstream: Downstream) -> Coroutine[Any, Any, None]:
    """Answer with a vector for each input."""
    return run(Exchange(services, downstream, endpoint=Endpoint.EMBEDDINGS))
