"""Whose API a path speaks, where that makes a difference beside its answers: errors and ids."""

from collections.abc import Mapping
from enum import Enum

from inference.contract.kinds import Endpoint
from inference.decisions.endpoints import PATHS


class Dialect(Enum):
    """OpenAI's in general, its responses' (whose streams have errors of their own), Anthropic's."""

    OPENAI = "openai"
    RESPONSES = "responses"
    ANTHROPIC = "anthropic"


DIALECTS: Mapping[Endpoint, Dialect] = {
    Endpoint.RESPONSES: Dialect.RESPONSES,
    Endpoint.MESSAGES: Dialect.ANTHROPIC,
    Endpoint.COUNT_TOKENS: Dialect.ANTHROPIC,
}
"""What an endpoint's callers understand, if it isn't OpenAI's."""


def dialect_at(path: str) -> Dialect:
    """What callers of a path understand, whether there is anything at it or not."""
    is_anthropic = path.startswith(PATHS[Endpoint.MESSAGES])
    return Dialect.ANTHROPIC if is_anthropic else Dialect.OPENAI
