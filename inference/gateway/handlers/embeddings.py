"""POST /v1/embeddings."""

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


async def embed(services: Services, downstream: Downstream) -> None:
    """Answer with a vector for each input."""
    await run(Exchange(services, downstream, endpoint=Endpoint.EMBEDDINGS))
