"""The members of a request's body: split at the top level, read one by one, put together again.

Everything below the top level stays the caller's bytes: unknown fields, large integers, floats and
escapes reach the engine as they were sent. What cannot be read is an InvalidRequest that names the
field.
"""

import re
from collections.abc import Mapping

import msgspec

from inference.errors import InvalidRequest

Members = Mapping[str, msgspec.Raw]

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_text = msgspec.json.Decoder(str).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode

_LIST, _TEXT = ord("["), ord('"')


# A text, a list of tokens, or a list of those.
_TEXT_OR_LIST = re.compile(rb'"|\[\s*(?:[0-9\]]|(?P<first_of_many>.))', re.DOTALL)

# Half of a pair of escapes: the decoder looks for the other half, and says only what it found.
_HALF_A_PAIR = re.compile(rb"(?<!\\)\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u)")
_PAIR_BYTES = 12
_POSITION = re.compile(r"\(byte (\d+)\)")


def split_members(body: bytes) -> dict[str, msgspec.Raw]:
    """The top-level members of a body."""
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


def join_members(members: Mapping[str, msgspec.Raw]) -> bytes:
    """A body of these members, in their order."""
    return _encode(members)


def raw_members(members: Mapping[str, bytes]) -> Members:
    """Members of ours, ready to be put among a caller's."""
    return {name: msgspec.Raw(value) for name, value in members.items()}


def text_of(members: Members, name: str) -> str:
    """A text that must be there and not empty."""
    try:
        text = _text(members[name])
    except (KeyError, msgspec.ValidationError):
        text = ""
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"`{name}` cannot be read.", param=name) from error
    if not text:
        raise InvalidRequest(f"`{name}` must be a non-empty string.", param=name)
    return text


def check_list(members: Members, name: str) -> None:
    """Refuse what is no list."""
    raw = members.get(name)
    if raw is None or memoryview(raw)[0] != _LIST:
        raise InvalidRequest(f"`{name}` must be a list.", param=name)


def check_text_or_list(members: Members, name: str) -> None:
    """Refuse what is neither a text nor a list."""
    if name not in members or memoryview(members[name])[0] not in (_TEXT, _LIST):
        raise InvalidRequest(f"`{name}` must be a string or a list.", param=name)


def count_prompts(members: Members, name: str) -> int:
    """How many prompts a member holds: a text or a list of tokens is one, else a list of them."""
    raw = members.get(name)
    start = None if raw is None else _TEXT_OR_LIST.match(raw)
    if raw is None or start is None:
        raise InvalidRequest(f"`{name}` must be a string or a list.", param=name)
    return len(_items(raw)) if start["first_of_many"] else 1


def count_items(members: Members, name: str) -> int:
    """How many items a member holds: one, unless it is a list."""
    raw = members[name]
    return len(_items(raw)) if memoryview(raw)[0] == _LIST else 1


def is_given(members: Members, name: str) -> bool:
    """Whether a member is there and not null."""
    return name in members and bytes(memoryview(members[name])[:5]) != b"null"


def is_true(raw: msgspec.Raw | None) -> bool:
    """Whether a member is there and true."""
    return raw is not None and bytes(raw) == b"true"


def flag(members: Members, name: str) -> bool:
    """A truth; null and missing are False."""
    raw = members.get(name)
    if raw is None:
        return False
    text = bytes(raw)
    if text not in (b"true", b"false", b"null"):
        raise InvalidRequest(f"`{name}` must be true or false.", param=name)
    return text == b"true"


def whole_number(members: Members, name: str) -> int | None:
    """Read what an engine would take for a whole number: 2, 2.0 and "2"; None is not given."""
    value = value_of(members, name)
    if value is None or type(value) is int:
        return value
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        return int(value)
    raise InvalidRequest(f"`{name}` must be a whole number.", param=name)


def value_of(members: Members, name: str) -> object:
    """A member, decoded whole; None if it isn't there."""
    raw = members.get(name)
    if raw is None:
        return None
    try:
        value: object = _decode(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"`{name}` cannot be read.", param=name) from error
    return value


def object_of(members: Members, name: str) -> dict[str, msgspec.Raw]:
    """The members of a member; none if it is null or missing."""
    raw = members.get(name)
    if raw is None or bytes(raw) == b"null":
        return {}
    try:
        return _split(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest(f"`{name}` must be an object.", param=name) from error


def _is_half_a_pair(message: str, body: bytes) -> bool:
    """Whether the decoder's complaint is about a surrogate without its other half."""
    position = _POSITION.search(message)
    end = len(body) if position is None else int(position[1])
    last = body[max(end - _PAIR_BYTES, 0) : end]
    return "surrogate" in message or _HALF_A_PAIR.search(last) is not None
