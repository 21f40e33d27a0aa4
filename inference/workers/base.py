"""What is known of a kind of backend, as data."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference.contract.kinds import Backend, Endpoint

USUAL_REASONING = "reasoning_content"
"""The member of a chat's message in which most servers know earlier thoughts."""


@dataclass(frozen=True, slots=True)
class BackendTraits:
    """What a backend of this kind understands and how it says that it is full.

    `usage_options` are members of `stream_options` (JSON texts by name) that make it report usage
    in a stream. `saturated_statuses` mean "busy, try another", not "broken". `endpoints` are
    what it can be asked for, if its model is one for that. `chat_bound` is the member that bounds a
    chat's answers, if the caller named none. `reasoning` is the member of a chat's message in which
    it knows earlier thoughts.
    """

    kind: Backend
    usage_options: Mapping[str, bytes]
    saturated_statuses: frozenset[int]
    endpoints: frozenset[Endpoint]
    chat_bound: str = "max_tokens"
    reasoning: str = USUAL_REASONING
