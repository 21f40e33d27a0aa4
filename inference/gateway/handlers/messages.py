"""POST /v1/messages and /v1/messages/count_tokens, which are Anthropic's."""

from inference.contract.kinds import Endpoint
from inference.gateway.downstream import Downstream
from inference.gateway.exchange import Exchange
from inference.gateway.pipeline import run
from inference.gateway.services import Services


async def answer_messages(services: Services, downstream: Downstream) -> None:
    """Answer a conversation with a message, whole or as a stream."""
    await run(Exchange(services, downstream, endpoint=Endpoint.MESSAGES))


async def count_tokens(services: Services, downstream: Downstream) -> None:
    """Answer with how many tokens a conversation is."""
    await run(Exchange(services, downstream, endpoint=Endpoint.COUNT_TOKENS))
