"""What an answer used, from the words of its endpoint: tokens in, out, cached and of reasoning."""

from collections.abc import Callable, Mapping

from inference.contract.events import Usage
from inference.contract.kinds import Endpoint
from inference.decisions.cost import MAX_TOKENS, read_detail, read_tokens, usage_from
from inference.decisions.endpoints import COUNTING

Member = Mapping[str, object]


def usage_of(endpoint: Endpoint, member: object) -> Usage | None:
    """What a usage object of this endpoint says; None if there is none.

    What an endpoint never uses is 0, said or not; what it doesn't say is None.
    """
    if endpoint in COUNTING:
        return Usage(prompt_tokens=0, completion_tokens=0)
    return _READERS[endpoint](member) if isinstance(member, dict) else None


def at_least(usage: Usage | None, *, pieces: int) -> Usage | None:
    """A usage of a stream that broke off: each piece of an answer was a token or more."""
    if not pieces or (usage is not None and (usage.completion_tokens or 0) >= pieces):
        return usage
    if usage is None:
        return Usage(completion_tokens=pieces)
    return Usage(usage.prompt_tokens, pieces, usage.cached_tokens, usage.reasoning_tokens)


def _of_responses(member: Member) -> Usage:
    return Usage(
        prompt_tokens=read_tokens(member.get("input_tokens")),
        completion_tokens=read_tokens(member.get("output_tokens")),
        cached_tokens=read_detail(member.get("input_tokens_details"), "cached_tokens"),
        reasoning_tokens=read_detail(member.get("output_tokens_details"), "reasoning_tokens"),
    )


def _of_messages(member: Member) -> Usage:
    """Here `input_tokens` are those that were neither read from a cache nor written to one."""
    fresh = read_tokens(member.get("input_tokens"))
    cached = read_tokens(member.get("cache_read_input_tokens"))
    written = read_tokens(member.get("cache_creation_input_tokens"))
    prompt = None
    if fresh is not None:
        prompt = min(fresh + (cached or 0) + (written or 0), MAX_TOKENS)
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=read_tokens(member.get("output_tokens")),
        cached_tokens=cached,
    )


def _of_reading(member: Member) -> Usage:
    """Some servers count a rerank in total only, which is what was read."""
    prompt = read_tokens(member.get("prompt_tokens"))
    if prompt is None:
        prompt = read_tokens(member.get("total_tokens"))
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=0,
        cached_tokens=read_detail(member.get("prompt_tokens_details"), "cached_tokens"),
    )


_READERS: Mapping[Endpoint, Callable[[Member], Usage]] = {
    Endpoint.CHAT: usage_from,
    Endpoint.COMPLETIONS: usage_from,
    Endpoint.RESPONSES: _of_responses,
    Endpoint.MESSAGES: _of_messages,
    Endpoint.EMBEDDINGS: _of_reading,
    Endpoint.RERANK: _of_reading,
    Endpoint.SCORE: _of_reading,
}
