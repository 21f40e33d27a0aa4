"""The backends there are, by kind."""

from collections.abc import Mapping

from inference.contract.kinds import Backend, Endpoint
from inference.workers.backends import openai, vllm
from inference.workers.base import BackendTraits

REGISTRY: Mapping[Backend, BackendTraits] = {
    Backend.VLLM: vllm.TRAITS,
    Backend.OPENAI: openai.TRAITS,
}

OFFERS: Mapping[Backend, frozenset[Endpoint]] = {
    kind: traits.endpoints for kind, traits in REGISTRY.items()
}
"""What each kind of backend can be asked for."""
