"""Requests of each endpoint: read as little as must be known, forward the rest as it came.

The body is split at its top level only. Everything below stays the caller's bytes: unknown fields,
large integers, floats and escapes reach the engine as they were sent.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from inference.contract.kinds import Endpoint
from inference.decisions.cost import bound_prompt_tokens
from inference.decisions.plan import RequestFacts
from inference.errors import InvalidRequest

Members = Mapping[str, msgspec.Raw]

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode

_LIST = ord("[")

# A text, a list of tokens, or a list of those.
_TEXT_OR_LIST = re.compile(rb'"|\[\s*(?:[0-9\]]|(?P<first_of_many>.))', re.DOTALL)

# vLLM's other two are no JSON but bytes, with what belongs to them in a header.
_ENCODING_FORMATS = (None, "float", "base64")

# Half of a pair of escapes: the decoder looks for the other half, and says only what it found.
_HALF_A_PAIR = re.compile(rb"(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u)")
_PAIR_BYTES = 12
_POSITION = re.compile(r"\(byte (\d+)\)")


# Pictures and sounds in a conversation: data URLs, and the bare base64 of an `input_audio`.
_MEDIA = re.compile(rb'"data(?::[^",\s]{1,100};base64,[^"]*|"\s*:\s*"[^"]*)"')


@dataclass(frozen=True, slots=True)
class InferenceRequest:
    """A request, understood as far as the gateway must.

    `shows_usage` and `shows_continuous_usage` are what the caller asked to see in its stream, which
    is not what the gateway asks the engine for. `answers_each` is how many each prompt is to get.
    """

    model: str
    facts: RequestFacts
    members: Members
    prompt_member: str
    is_stream: bool = False
    shows_usage: bool = False
    shows_continuous_usage: bool = False
    stream_options: Members = field(default_factory=dict)
    answers_each: int = 1

    @property
    def prompt_bytes(self) -> bytes:
        """What the model is given, as the caller wrote it: JSON of messages, prompt or input."""
        return bytes(self.members[self.prompt_member])

    @property
    def media_bytes(self) -> int:
        """How much of the prompt is no text, so that its length says nothing of its tokens."""
        prompt = self.members[self.prompt_member]
        if self.prompt_member == "prompt_embeds":
            return len(bytes(prompt))
        return sum(found.end() - found.start() for found in _MEDIA.finditer(prompt))


def parse_request(endpoint: Endpoint, body: bytes) -> InferenceRequest:
    """Understand a body, or raise InvalidRequest naming the field at fault."""
    members = _members(body)
    return _READERS[endpoint](_model(members), members, body)


def _read_chat(model: str, members: Members, body: bytes) -> InferenceRequest:
    _check_list(members, "messages")
    requested = _whole_number(members, "max_completion_tokens")
    if requested is None:
        requested = _whole_number(members, "max_tokens")
    answers = _answers(members, "n")
    facts = RequestFacts(
        model=model,
        prompt_tokens_max=_prompt_bound(body),
        output_tokens_requested=requested,
        answers=answers,
    )
    return _generating(facts, members, prompt_member="messages", answers_each=answers)


def _read_completion(model: str, members: Members, body: bytes) -> InferenceRequest:
    given = [name for name in ("prompt", "prompt_embeds") if _is_given(members, name)] or ["prompt"]
    prompts = sum(_prompts(members, name) for name in given)
    requested = _whole_number(members, "max_tokens")
    if requested == 0:
        requested = 1  # an engine that is to echo and no more generates one token all the same
    answers = _answers(members, "n")
    facts = RequestFacts(
        model=model,
        endpoint=Endpoint.COMPLETIONS,
        prompt_tokens_max=_prompt_bound(body, texts=prompts),
        output_tokens_requested=requested,
        answers=prompts * max(answers, _answers(members, "best_of")),
    )
    return _generating(facts, members, prompt_member=given[0], answers_each=answers)


def _read_embedding(model: str, members: Members, body: bytes) -> InferenceRequest:
    if _value(members, "encoding_format") not in _ENCODING_FORMATS:
        raise InvalidRequest("`encoding_format` must be float or base64.", param="encoding_format")
    is_chat = _is_given(members, "messages") and not _is_given(members, "input")
    prompt = "messages" if is_chat else "input"
    texts = _prompts(members, prompt)
    facts = RequestFacts(
        model=model,
        endpoint=Endpoint.EMBEDDINGS,
        prompt_tokens_max=_prompt_bound(body, texts=texts),
        answers=0,
    )
    return InferenceRequest(model, facts, members, prompt)


def _read_tokenize(model: str, members: Members, _body: bytes) -> InferenceRequest:
    if _is_given(members, "messages"):
        _check_list(members, "messages")
        prompt = "messages"
    else:
        prompt = "prompt"
        if not isinstance(_value(members, prompt), str):
            raise InvalidRequest("`prompt` must be a string, or `messages` a list.", param=prompt)
    facts = RequestFacts(model, 0, answers=0, endpoint=Endpoint.TOKENIZE)
    return InferenceRequest(model, facts, members, prompt)


def _read_detokenize(model: str, members: Members, _body: bytes) -> InferenceRequest:
    _check_list(members, "tokens")
    facts = RequestFacts(model, 0, answers=0, endpoint=Endpoint.DETOKENIZE)
    return InferenceRequest(model, facts, members, "tokens")


_READERS: Mapping[Endpoint, Callable[[str, Members, bytes], InferenceRequest]] = {
    Endpoint.CHAT: _read_chat,
    Endpoint.COMPLETIONS: _read_completion,
    Endpoint.EMBEDDINGS: _read_embedding,
    Endpoint.TOKENIZE: _read_tokenize,
    Endpoint.DETOKENIZE: _read_detokenize,
}


def upstream_body(
    request: InferenceRequest, *, served_model: str, usage_options: Mapping[str, bytes]
) -> bytes:
    """The body a worker is sent: the caller's, but for `model` and, in streams, usage options."""
    changed: dict[str, bytes | msgspec.Raw] = {**request.members, "model": _encode(served_model)}
    if request.is_stream:
        changed["stream_options"] = _joined({**request.stream_options, **usage_options})
    return _joined(changed)


def _members(body: bytes) -> dict[str, msgspec.Raw]:
    if not body:
        raise InvalidRequest("The request body is empty.")
    try:
        if not body.isascii():
            body.decode()  # text that is skipped over isn't checked by the decoder
        return _split(body)
    except UnicodeDecodeError as error:
        raise InvalidRequest("The request body is not valid UTF-8.") from error
    except msgspec.ValidationError as error:
        raise InvalidRequest("The request body must be a JSON object.") from error
    except msgspec.DecodeError as error:
        if _is_half_a_pair(str(error), body):
            raise InvalidRequest(
                "The request body is not valid Unicode: it has half of a surrogate pair."
            ) from error
        raise InvalidRequest(f"The request body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise InvalidRequest("The request body is nested too deeply.") from error


def _is_half_a_pair(message: str, body: bytes) -> bool:
    """Whether the decoder's complaint is about a surrogate without its other half."""
    position = _POSITION.search(message)
    end = len(body) if position is None else int(position[1])
    last = body[max(end - _PAIR_BYTES, 0) : end]
    return "surrogate" in message or _HALF_A_PAIR.search(last) is not None


def _model(members: Members) -> str:
    model = _value(members, "model")
    if not isinstance(model, str) or not model:
        raise InvalidRequest("`model` must be a non-empty string.", param="model")
    return model


def _generating(
    facts: RequestFacts, members: Members, *, prompt_member: str, answers_each: int
) -> InferenceRequest:
    """A request for text, which may be a stream."""
    is_stream = _flag(members, "stream")
    options = _stream_options(members) if is_stream else {}
    return InferenceRequest(
        model=facts.model,
        facts=facts,
        members=members,
        prompt_member=prompt_member,
        is_stream=is_stream,
        shows_usage=_is_true(options.get("include_usage")),
        shows_continuous_usage=_is_true(options.get("continuous_usage_stats")),
        stream_options=options,
        answers_each=answers_each,
    )


def _prompt_bound(body: bytes, *, texts: int = 0) -> int:
    """The most tokens the prompts of a body have; an engine adds a few to each text or message."""
    return bound_prompt_tokens(body_bytes=len(body), messages=texts + body.count(b'"role"'))


def _answers(members: Members, name: str) -> int:
    given = _whole_number(members, name)
    return 1 if given is None else max(given, 1)


def _check_list(members: Members, name: str) -> None:
    if name not in members or memoryview(members[name])[0] != _LIST:
        raise InvalidRequest(f"`{name}` must be a list.", param=name)


def _prompts(members: Members, name: str) -> int:
    """How many prompts a member holds: a text or a list of tokens is one, else a list of them."""
    raw = members.get(name)
    start = None if raw is None else _TEXT_OR_LIST.match(raw)
    if raw is None or start is None:
        raise InvalidRequest(f"`{name}` must be a string or a list.", param=name)
    return len(_items(raw)) if start["first_of_many"] else 1


def _is_given(members: Members, name: str) -> bool:
    return name in members and bytes(memoryview(members[name])[:5]) != b"null"


def _stream_options(members: Members) -> dict[str, msgspec.Raw]:
    raw = members.get("stream_options")
    if raw is None or bytes(raw) == b"null":
        return {}
    try:
        return _split(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(
            "`stream_options` must be an object.", param="stream_options"
        ) from error


def _flag(members: Members, name: str) -> bool:
    raw = members.get(name)
    if raw is None:
        return False
    text = bytes(raw)
    if text not in (b"true", b"false", b"null"):
        raise InvalidRequest(f"`{name}` must be true or false.", param=name)
    return text == b"true"


def _is_true(raw: msgspec.Raw | None) -> bool:
    return raw is not None and bytes(raw) == b"true"


def _whole_number(members: Members, name: str) -> int | None:
    """Read what an engine would take for a whole number: 2, 2.0 and "2"; None is not given."""
    if name not in members:
        return None
    value = _value(members, name)
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidRequest(f"`{name}` must be a whole number.", param=name)


def _value(members: Members, name: str) -> object:
    raw = members.get(name)
    if raw is None:
        return None
    try:
        value: object = _decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"`{name}` cannot be read.", param=name) from error
    return value


def _joined(members: Mapping[str, bytes | msgspec.Raw]) -> bytes:
    parts: list[bytes | msgspec.Raw] = []
    for name, raw in members.items():
        parts += (b"," if parts else b"{", _name(name), raw)
    parts.append(b"}" if parts else b"{}")
    return b"".join(parts)


def _name(name: str) -> bytes:
    if name.isascii() and name.isidentifier():
        return b'"%b":' % name.encode()
    return _encode(name) + b":"
