"""POST /tokenize and /detokenize, which are vLLM's."""

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


async def tokenize(services: Services, downstream: Downstream) -> None:
    """Answer with the tokens a text or a conversation is made of."""
    await run(Exchange(services, downstream, endpoint=Endpoint.TOKENIZE))


async def detokenize(services: Services, downstream: Downstream) -> None:
    """Answer with the text of tokens."""
    await run(Exchange(services, downstream, endpoint=Endpoint.DETOKENIZE))
