"""POST /v1/responses, and what is answered to those who ask for one again."""

from collections.abc import Coroutine
from typing import Any

from inference.contract.kinds import Endpoint
from inference.errors import NoCapacity, ResponseNotFound
from inference.gateway.auth import identify
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.refusals import check_caller
from inference.gateway.services import Services


def respond_to(services: Services, downstream: Downstream) -> Coroutine[Any, Any, None]:
    """Answer with a response, whole or as a stream."""
    return run(Exchange(services, downstream, endpoint=Endpoint.RESPONSES))


async def find_response(services: Services, downstream: Downstream) -> None:
    """Tell who may ask that no response is kept."""
    snapshot = services.snapshots.current
    if snapshot is None:
        raise NoCapacity("This gateway has no configuration yet.")
    now = services.clock()
    identity = identify(
        snapshot, downstream.headers.authorization, peppers=services.peppers, now=now
    )
    check_caller(snapshot, identity, now=now)
    raise ResponseNotFound
