"""vLLM's OpenAI-compatible server.

`continuous_usage_stats` puts exact counts into every frame, which makes the bill of a stream that
is cut exact. 503 without Retry-After is `--max-num-queued-reqs`: the worker is full.
"""

from inference.contract.kinds import Backend
from inference.decisions.endpoints import OFFERS
from inference.workers.base import BackendTraits

TRAITS = BackendTraits(
    kind=Backend.VLLM,
    usage_options={"include_usage": b"true", "continuous_usage_stats": b"true"},
    saturated_statuses=frozenset((429, 503)),
    endpoints=frozenset(OFFERS[Backend.VLLM]),
    reasoning="reasoning",
)
