"""POST /v1/rerank and /v1/score, at the other paths that servers have them at too."""

from collections.abc import Coroutine
from typing import Any

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


def rerank(services: Services, downstream: Downstream) -> Coroutine[Any, Any, None]:
    """Answer with documents in the order of their bearing on a query."""
    return run(Exchange(services, downstream, endpoint=Endpoint.RERANK))


def score(services: Services, downstream: Downstream) -> Coroutine[Any, Any, None]:
    """Answer with how near texts are to each other."""
    return run(Exchange(services, downstream, endpoint=Endpoint.SCORE))
