"""Any server that speaks OpenAI's API and no more: unknown stream options may be refused."""

from inference.contract.kinds import Backend, Endpoint
from inference.workers.base import BackendTraits

TRAITS = BackendTraits(
    kind=Backend.OPENAI,
    usage_options={"include_usage": b"true"},
    saturated_statuses=frozenset((429, 503)),
    endpoints=frozenset((Endpoint.CHAT, Endpoint.COMPLETIONS, Endpoint.EMBEDDINGS)),
)
