"""The backends there are, by kind."""

from collections.abc import Mapping

from inference.contract.kinds import Backend
from inference.workers.backends import openai, vllm
from inference.workers.base import BackendTraits

REGISTRY: Mapping[Backend, BackendTraits] = {
    Backend.VLLM: vllm.TRAITS,
    Backend.OPENAI: openai.TRAITS,
}
