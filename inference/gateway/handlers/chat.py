"""POST /v1/chat/completions."""

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


async def complete_chat(services: Services, downstream: Downstream) -> None:
    """Answer a chat request, whole or as a stream."""
    await run(Exchange(services, downstream, endpoint=Endpoint.CHAT))
