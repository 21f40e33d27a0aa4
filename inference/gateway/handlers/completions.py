"""POST /v1/completions."""

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


async def complete_text(services: Services, downstream: Downstream) -> None:
    """Continue a text or several, whole or as a stream."""
    await run(Exchange(services, downstream, endpoint=Endpoint.COMPLETIONS))
