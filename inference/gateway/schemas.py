"""Chat requests: read as little as must be known, forward the rest as it came.

The body is split at its top level only. Everything below stays the caller's bytes: unknown fields,
large integers, floats and escapes reach the engine as they were sent.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from inference.decisions.cost import bound_prompt_tokens
from inference.decisions.plan import RequestFacts
from inference.errors import InvalidRequest

Members = Mapping[str, msgspec.Raw]

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

_LIST = ord("[")

# Half of a pair of escapes: the decoder looks for the other half, and says only what it found.
_HALF_A_PAIR = re.compile(rb"(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u)")
_PAIR_BYTES = 12
_POSITION = re.compile(r"\(byte (\d+)\)")


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat request, understood as far as the gateway must.

    `shows_usage` and `shows_continuous_usage` are what the caller asked to see in its stream, which
    is not what the gateway asks the engine for.
    """

    model: str
    is_stream: bool
    shows_usage: bool
    shows_continuous_usage: bool
    facts: RequestFacts
    members: Members
    stream_options: Members


def parse_chat(body: bytes) -> ChatRequest:
    """Understand a body, or raise InvalidRequest naming the field at fault."""
    members = _members(body)
    model = _model(members)
    is_stream = _flag(members, "stream")
    if "messages" not in members or memoryview(members["messages"])[0] != _LIST:
        raise InvalidRequest("`messages` must be a list.", param="messages")
    options = _stream_options(members) if is_stream else {}
    return ChatRequest(
        model=model,
        is_stream=is_stream,
        shows_usage=_is_true(options.get("include_usage")),
        shows_continuous_usage=_is_true(options.get("continuous_usage_stats")),
        facts=_facts(model, members, body),
        members=members,
        stream_options=options,
    )


def upstream_body(
    request: ChatRequest, *, served_model: str, usage_options: Mapping[str, bytes]
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


def _facts(model: str, members: Members, body: bytes) -> RequestFacts:
    requested = _whole_number(members, "max_completion_tokens")
    if requested is None:
        requested = _whole_number(members, "max_tokens")
    answers = _whole_number(members, "n")
    return RequestFacts(
        model=model,
        prompt_tokens_max=bound_prompt_tokens(body_bytes=len(body), messages=body.count(b'"role"')),
        output_tokens_requested=requested,
        answers=1 if answers is None else answers,
    )


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
