"""Requests of each endpoint: read as little as must be known, forward the rest as it came."""

from collections.abc import Callable, Mapping
from dataclasses import field
from functools import lru_cache

import msgspec

from inference.contract.kinds import Endpoint
from inference.contract.sealing import without_secrets
from inference.contract.values import changed, frozen
from inference.decisions.cost import bound_prompt_tokens
from inference.decisions.facts import RequestFacts
from inference.decisions.prompts import Template
from inference.errors import InvalidRequest
from inference.gateway.media import may_have_media, media_in
from inference.gateway.members import (
    Members,
    check_list,
    check_text_or_list,
    count_items,
    count_prompts,
    flag,
    is_given,
    is_true,
    join_members,
    object_of,
    raw_members,
    split_members,
    text_of,
    value_of,
    whole_number,
)

MAX_CHARS = 255
"""What is kept of an end user, of a session, and of a header that a rule looks at."""

_encode = msgspec.json.Encoder().encode

# English text has about four bytes a token.
BYTES_PER_TOKEN = 4

_END_USER = ("user", "safety_identifier")
_CHAT_BOUNDS = ("max_completion_tokens", "max_tokens")
_MESSAGES = ("messages",)
_EMBEDS = "prompt_embeds"

# vLLM's other two are no JSON but bytes, with what belongs to them in a header.
_ENCODING_FORMATS = (None, "float", "base64")

# What would need an answer to be kept: a worker keeps its own to itself, and forgets them.
_STORED = {
    "previous_response_id": "send the whole conversation as `input`",
    "conversation": "send the whole conversation as `input`",
    "background": "leave it out, and stream if the answer takes long",
}

# vLLM takes no null for `background`, which is neither here nor there.
_STORES_NOTHING = {"store": b"false"}
_NOR_LATER = {**_STORES_NOTHING, "background": b"false"}

# The two sides of what is scored, by the names that engines have given them.
_SIDES = (
    ("text_1", "text_2"),
    ("queries", "documents"),
    ("queries", "items"),
    ("data_1", "data_2"),
)


@frozen
class InferenceRequest:
    """A request, understood as far as the gateway must.

    `prompt_members` are those that make the prompt, in its order. `replaced` are members that a
    worker gets in place of the caller's. `shows_usage` and `shows_continuous_usage` are what the
    caller asked to see in its stream, which is not what the gateway asks the engine for; where
    `takes_stream_options` is false, an engine tells its usage unasked. `answers_each` is how many
    each prompt is to get. `media_bytes` of the prompt are no text, so that their length says
    nothing of its tokens.
    """

    model: str
    facts: RequestFacts
    members: Members
    prompt_members: tuple[str, ...]
    is_stream: bool = False
    takes_stream_options: bool = False
    shows_usage: bool = False
    shows_continuous_usage: bool = False
    stream_options: Members = field(default_factory=dict)
    answers_each: int = 1
    replaced: Mapping[str, bytes] = field(default_factory=dict)
    media_bytes: int = 0
    template: Template | None = None

    @property
    def prompt_bytes(self) -> bytes:
        """What the model is given, as the caller wrote it: JSON of messages, prompt or input."""
        members = self.members
        return b"".join([members[name] for name in self.prompt_members if name in members])

    @property
    def prompt_view(self) -> memoryview:
        """The same, of one member without a copy."""
        names = self.prompt_members
        return memoryview(self.members[names[0]] if len(names) == 1 else self.prompt_bytes)


def parse_request(endpoint: Endpoint, body: bytes) -> InferenceRequest:
    """Understand a body, or raise InvalidRequest naming the field at fault."""
    members = split_members(body)
    request = _READERS[endpoint](text_of(members, "model"), members, body)
    if request.facts.prompt_tokens:
        return request  # all of it was understood at once
    media_bytes = _media_in(request) if may_have_media(body) or _EMBEDS in members else 0
    facts = changed(
        request.facts,
        prompt_tokens=_tokens_of(request.facts.prompt_tokens_max, media_bytes),
        end_user=_end_user(members, endpoint),
    )
    return changed(request, facts=facts, media_bytes=media_bytes)


def _read_chat(model: str, members: Members, body: bytes) -> InferenceRequest:
    check_list(members, "messages")
    requested = None  # engines differ in which of two they go by
    for name in _CHAT_BOUNDS:
        if name in members and (given := whole_number(members, name)) is not None:
            requested = given if requested is None or given > requested else requested
    answers = _answers(members, "n") if "n" in members else 1
    prompt_tokens_max = bound_prompt_tokens(len(body), body.count(b'"role"'))
    is_plain = "stream" not in members and not may_have_media(body)
    facts = RequestFacts(
        model,
        prompt_tokens_max,
        requested,
        answers,
        # of what is plain all is said here, which is quicker than to complete it afterwards
        prompt_tokens=_tokens_of(prompt_tokens_max, 0) if is_plain else 0,
        end_user=_end_user(members, Endpoint.CHAT) if is_plain else None,
    )
    if is_plain:
        return InferenceRequest(
            model, facts, members, _MESSAGES, takes_stream_options=True, answers_each=answers
        )
    return _with_stream_options(facts, members, "messages", answers_each=answers)


def _read_completion(model: str, members: Members, body: bytes) -> InferenceRequest:
    given = [name for name in ("prompt", "prompt_embeds") if is_given(members, name)] or ["prompt"]
    prompts = sum(count_prompts(members, name) for name in given)
    requested = whole_number(members, "max_tokens")
    if requested == 0:
        requested = 1  # an engine that is to echo and no more generates one token all the same
    answers = _answers(members, "n")
    facts = RequestFacts(
        model=model,
        endpoint=Endpoint.COMPLETIONS,
        prompt_tokens_max=_prompt_bound(body, texts=prompts),
        output_tokens_requested=requested,
        answers=prompts * max(answers, _answers(members, "best_of")),
        prompts=prompts,
    )
    return _with_stream_options(facts, members, given[0], answers_each=answers)


def _read_response(model: str, members: Members, body: bytes) -> InferenceRequest:
    """Nothing is stored: the next request may go to another worker, which would know nothing."""
    for name, advice in _STORED.items():
        if is_given(members, name) and bytes(members[name]) != b"false":
            raise InvalidRequest(
                f"`{name}` is not offered, because responses are not stored here: {advice}.",
                param=name,
            )
    check_text_or_list(members, "input")
    flag(members, "store")
    facts = RequestFacts(
        model=model,
        endpoint=Endpoint.RESPONSES,
        prompt_tokens_max=_prompt_bound(body, texts=2),  # one of text alone, and its instructions
        output_tokens_requested=whole_number(members, "max_output_tokens"),
    )
    return InferenceRequest(
        model,
        facts,
        members,
        ("instructions", "input"),
        is_stream=flag(members, "stream"),
        replaced=_NOR_LATER if "background" in members else _STORES_NOTHING,
    )


def _read_message(model: str, members: Members, body: bytes) -> InferenceRequest:
    check_list(members, "messages")
    facts = RequestFacts(
        model=model,
        endpoint=Endpoint.MESSAGES,
        prompt_tokens_max=_prompt_bound(body, texts=1),
        output_tokens_requested=whole_number(members, "max_tokens"),
    )
    prompt = ("system", "messages")
    return InferenceRequest(model, facts, members, prompt, is_stream=flag(members, "stream"))


def _read_embedding(model: str, members: Members, body: bytes) -> InferenceRequest:
    if value_of(members, "encoding_format") not in _ENCODING_FORMATS:
        raise InvalidRequest("`encoding_format` must be float or base64.", param="encoding_format")
    is_chat = is_given(members, "messages") and not is_given(members, "input")
    prompt = "messages" if is_chat else "input"
    texts = count_prompts(members, prompt)
    facts = RequestFacts(
        model=model,
        endpoint=Endpoint.EMBEDDINGS,
        prompt_tokens_max=_prompt_bound(body, texts=texts),
        answers=0,
        prompts=texts,
    )
    return InferenceRequest(model, facts, members, (prompt,))


def _read_rerank(model: str, members: Members, body: bytes) -> InferenceRequest:
    if not is_given(members, "query"):
        raise InvalidRequest("`query` must be given.", param="query")
    check_list(members, "documents")
    sides = ("query", "documents")
    return _pairing(Endpoint.RERANK, model, members, body, sides=sides)


def _read_score(model: str, members: Members, body: bytes) -> InferenceRequest:
    for sides in _SIDES:
        if all(is_given(members, side) for side in sides):
            return _pairing(Endpoint.SCORE, model, members, body, sides=sides)
    names = " or ".join(f"`{one}` and `{other}`" for one, other in _SIDES)
    raise InvalidRequest(f"What is to be compared must be given: {names}.", param=_SIDES[0][0])


def _pairing(
    endpoint: Endpoint, model: str, members: Members, body: bytes, *, sides: tuple[str, str]
) -> InferenceRequest:
    """A request to compare: a model that reads both sides at once reads a lone one every time.

    So it does with all that belongs to neither, as an instruction would.
    """
    counts = [count_items(members, side) for side in sides]
    pairs = max(*counts, 1)
    once = sum(
        len(members[side]) for side, count in zip(sides, counts, strict=True) if count == pairs
    )
    facts = RequestFacts(
        model=model,
        endpoint=endpoint,
        prompt_tokens_max=bound_prompt_tokens(once + pairs * (len(body) - once), 2 * pairs),
        answers=0,
        prompts=pairs,
    )
    return InferenceRequest(model, facts, members, sides)


def _read_tokenize(model: str, members: Members, _body: bytes) -> InferenceRequest:
    if is_given(members, "messages"):
        check_list(members, "messages")
        prompt = "messages"
    else:
        prompt = "prompt"
        if not isinstance(value_of(members, prompt), str):
            raise InvalidRequest("`prompt` must be a string, or `messages` a list.", param=prompt)
    return _counting(Endpoint.TOKENIZE, model, members, prompt)


def _read_detokenize(model: str, members: Members, _body: bytes) -> InferenceRequest:
    check_list(members, "tokens")
    return _counting(Endpoint.DETOKENIZE, model, members, "tokens")


def _read_count(model: str, members: Members, _body: bytes) -> InferenceRequest:
    check_list(members, "messages")
    return _counting(Endpoint.COUNT_TOKENS, model, members, "system", "messages")


_READERS: Mapping[Endpoint, Callable[[str, Members, bytes], InferenceRequest]] = {
    Endpoint.CHAT: _read_chat,
    Endpoint.COMPLETIONS: _read_completion,
    Endpoint.RESPONSES: _read_response,
    Endpoint.MESSAGES: _read_message,
    Endpoint.EMBEDDINGS: _read_embedding,
    Endpoint.RERANK: _read_rerank,
    Endpoint.SCORE: _read_score,
    Endpoint.TOKENIZE: _read_tokenize,
    Endpoint.DETOKENIZE: _read_detokenize,
    Endpoint.COUNT_TOKENS: _read_count,
}


def upstream_body(
    request: InferenceRequest,
    *,
    served_model: str,
    usage_options: Mapping[str, bytes],
    chat_bound: str = "max_tokens",
) -> bytes:
    """The body a worker is sent: the caller's, but for `model`, what is replaced, and usage options
    in streams that take them. A bound that the gateway sets to a chat is called `chat_bound`.
    """
    members = {**request.members, "model": _encoded_name(served_model)}
    asks_for_usage = request.is_stream and request.takes_stream_options
    if not (request.replaced or asks_for_usage):
        return join_members(members)
    members |= raw_members(request.replaced)
    is_chat, ours = request.facts.endpoint is Endpoint.CHAT, "max_tokens"
    if is_chat and ours in request.replaced and not is_given(request.members, ours):
        members[chat_bound] = members.pop(ours)
    if asks_for_usage:
        options = join_members({**request.stream_options, **raw_members(usage_options)})
        members["stream_options"] = msgspec.Raw(options)
    return join_members(members)


def _with_stream_options(
    facts: RequestFacts, members: Members, prompt_member: str, *, answers_each: int
) -> InferenceRequest:
    """A request for text that may be a stream which tells its usage if it is asked to."""
    if not flag(members, "stream"):
        return InferenceRequest(
            facts.model,
            facts,
            members,
            (prompt_member,),
            takes_stream_options=True,
            answers_each=answers_each,
        )
    options = object_of(members, "stream_options")
    return InferenceRequest(
        model=facts.model,
        facts=facts,
        members=members,
        prompt_members=(prompt_member,),
        is_stream=True,
        takes_stream_options=True,
        shows_usage=is_true(options.get("include_usage")),
        shows_continuous_usage=is_true(options.get("continuous_usage_stats")),
        stream_options=options,
        answers_each=answers_each,
    )


def _counting(
    endpoint: Endpoint, model: str, members: Members, *prompt_members: str
) -> InferenceRequest:
    """A request that no model is needed for, only its tokenizer."""
    facts = RequestFacts(model, 0, answers=0, endpoint=endpoint)
    return InferenceRequest(model, facts, members, prompt_members)


def _prompt_bound(body: bytes, *, texts: int = 0) -> int:
    """The most tokens the prompts of a body have; an engine adds a few to each text or message."""
    return bound_prompt_tokens(len(body), texts + body.count(b'"role"'))


def _answers(members: Members, name: str) -> int:
    given = whole_number(members, name)
    return 1 if given is None else max(given, 1)


@lru_cache(maxsize=1_024)
def _encoded_name(name: str) -> msgspec.Raw:
    """The name of a model that is served, of which there is a bounded set."""
    return msgspec.Raw(_encode(name))


def _tokens_of(prompt_bytes: int, media_bytes: int) -> int:
    """About how many tokens so much text has."""
    return max(prompt_bytes - media_bytes, 0) // BYTES_PER_TOKEN


def _media_in(request: InferenceRequest) -> int:
    """How much of the prompt is no text."""
    prompt = request.prompt_bytes
    if request.prompt_members == (_EMBEDS,):
        return len(prompt)
    return media_in(prompt)


def _end_user(members: Members, endpoint: Endpoint) -> str | None:
    """Whom the caller names as its own user, if it does; what is no text names nobody."""
    if endpoint is Endpoint.MESSAGES:
        metadata = value_of(members, "metadata")
        return kept_text(metadata.get("user_id")) if isinstance(metadata, dict) else None
    for name in _END_USER:
        if name in members and (user := kept_text(value_of(members, name))) is not None:
            return user
    return None


def kept_text(text: object) -> str | None:
    """A text that any log and any database can hold; a key in its place is blanked out."""
    if not isinstance(text, str) or not text:
        return None
    text = without_secrets(text[:MAX_CHARS])[:MAX_CHARS]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
