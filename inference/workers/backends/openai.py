"""Any server that speaks OpenAI's API and no more: unknown stream options may be refused."""

from inference.contract.kinds import Backend
from inference.decisions.endpoints import OFFERS
from inference.workers.base import BackendTraits

TRAITS = BackendTraits(
    kind=Backend.OPENAI,
    usage_options={"include_usage": b"true"},
    saturated_statuses=frozenset((429, 503)),
    endpoints=frozenset(OFFERS[Backend.OPENAI]),
    chat_bound="max_completion_tokens",  # the newer models refuse the other
)
