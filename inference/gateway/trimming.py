"""Shorter answers than were asked for: the member that bounds them, by endpoint."""

from collections.abc import Mapping
from dataclasses import replace

from inference.contract.kinds import Endpoint
from inference.gateway.members import is_given
from inference.gateway.schemas import InferenceRequest

_MEMBERS: Mapping[Endpoint, tuple[str, ...]] = {
    Endpoint.CHAT: ("max_completion_tokens", "max_tokens"),
    Endpoint.COMPLETIONS: ("max_tokens",),
    Endpoint.RESPONSES: ("max_output_tokens",),
    Endpoint.MESSAGES: ("max_tokens",),
}
"""What bounds an answer; where none is given, the last is what all engines know."""


_CONTRARY = ("min_tokens", "thinking")
"""What asks for a least length, or a budget that must fit into the answer."""


def may_be_trimmed(request: InferenceRequest) -> bool:
    """Whether an engine would take the request with shorter answers."""
    return not any(is_given(request.members, name) for name in _CONTRARY)


def trimmed(request: InferenceRequest, *, endpoint: Endpoint, most: int) -> InferenceRequest:
    """The request with answers of `most` tokens at most; what has none stays as it is."""
    names = _MEMBERS.get(endpoint, ())
    given = [name for name in names if is_given(request.members, name)] or names[-1:]
    if not given:
        return request
    bound = dict.fromkeys(given, b"%d" % most)
    return replace(request, replaced={**request.replaced, **bound})
