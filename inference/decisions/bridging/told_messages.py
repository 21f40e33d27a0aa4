"""Chat's answers, in the words of Anthropic's messages."""

from collections.abc import Iterable, Mapping
from io import StringIO

import msgspec

from inference.contract.events import Usage
from inference.decisions.bridging.base import Document, Said
from inference.decisions.bridging.pieces import (
    MOST_KEPT,
    Arguments,
    Call,
    Ending,
    Head,
    Piece,
    Refusal,
    Room,
    Text,
    Thought,
    Unreadable,
    Whole,
    is_whole,
)

_REASONS: Mapping[str | None, str] = {
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}

INVALID_JSON = "INVALID_JSON"
"""Where Anthropic tells its callers to keep arguments that are no JSON object."""

# The block that text goes on in, beside those of calls by their place.
_TEXT, _THOUGHT = -1, -2


def tell_message(whole: Whole, said: Said) -> Document:
    """A whole message."""
    blocks: list[dict[str, object]] = []
    texts: list[list[str]] = []
    at: dict[int, int] = {}
    has_refused = False
    for piece in whole.pieces:
        key = _key_of(piece)
        has_refused = has_refused or isinstance(piece, Refusal)
        if key not in at or (key < 0 and at[key] != len(blocks) - 1):
            at[key] = len(blocks)
            blocks.append(dict(_block_of(piece)))
            texts.append([])
        if not isinstance(piece, Call):
            texts[at[key]].append(piece.text)
    for block, parts in zip(blocks, texts, strict=True):
        text = "".join(parts)
        match block["type"]:
            case "tool_use":
                block["input"] = _input_of(text)
            case "thinking":
                block["thinking"] = text
            case _:
                block["text"] = text
    reason, sequence = _reason(
        whole.ending, said, has_calls=_has_calls(at), has_refused=has_refused
    )
    return {
        **_message(whole.head, blocks),
        "stop_reason": reason,
        "stop_sequence": sequence,
        "usage": usage_told(whole.usage),
    }


class MessageTelling:
    """A streamed message. Blocks end when the next begins; a call's once its arguments are whole.

    Calls whose parts come interleaved are open side by side, so that no part gets to another. So
    are those after one whose arguments are too long to be kept, and to be known whole.
    """

    def __init__(self, said: Said, *, most_kept: float = MOST_KEPT) -> None:
        self.next_number = 0
        self._said = said
        self._blocks = 0
        self._open: dict[int, int] = {}
        self._closed: set[int] = set()
        self._arguments: dict[int, StringIO] = {}
        self._cut: set[int] = set()
        self._room = Room(most_kept)
        self._has_refused = False

    def begin(self, head: Head, usage: Usage | None) -> list[Document]:
        message = {
            **_message(head, []),
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage_told(usage),
        }
        return [{"type": "message_start", "message": message}]

    def add(self, piece: Piece) -> list[Document]:
        key = _key_of(piece)
        self._has_refused = self._has_refused or isinstance(piece, Refusal)
        events: list[Document] = []
        if key not in self._open:
            if key in self._closed:
                if isinstance(piece, Arguments) and not piece.text.strip():
                    return []
                raise Unreadable  # its arguments were whole, and go on
            events += self._close_finished()
            self._open[key] = self._blocks
            self._blocks += 1
            block = _block_of(piece)
            events.append({"type": _START, "index": self._open[key], "content_block": block})
        if isinstance(piece, Arguments):
            if self._room.takes(len(piece.text)):
                self._arguments.setdefault(key, StringIO()).write(piece.text)
            else:
                self._cut.add(key)
        delta = _delta_of(piece)
        if delta is not None:
            events.append({"type": _DELTA, "index": self._open[key], "delta": delta})
        return events

    def end(self, ending: Ending, usage: Usage | None) -> list[Document]:
        has_calls = bool(self._arguments.keys() | self._closed) or _has_calls(self._open)
        reason, sequence = _reason(
            ending, self._said, has_calls=has_calls, has_refused=self._has_refused
        )
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        return [
            *self._stops(sorted(self._open.values())),
            {"type": "message_delta", "delta": delta, "usage": usage_told(usage)},
            {"type": "message_stop"},
        ]

    def _close_finished(self) -> list[Document]:
        """Another block begins: end those that nothing more can come of."""
        done = {key: index for key, index in self._open.items() if key < 0 or self._is_whole(key)}
        for key in done:
            del self._open[key]
        self._closed |= {key for key in done if key >= 0}
        return self._stops(sorted(done.values()))

    def _is_whole(self, key: int) -> bool:
        arguments = self._arguments.get(key)
        return arguments is not None and key not in self._cut and is_whole(arguments.getvalue())

    def _stops(self, indexes: Iterable[int]) -> list[Document]:
        return [{"type": "content_block_stop", "index": index} for index in indexes]


_START, _DELTA = "content_block_start", "content_block_delta"


def usage_told(usage: Usage | None) -> Document:
    """A usage in Anthropic's counts: `input_tokens` are those that no cache had.

    The dialect has no word for a count that isn't known but 0.
    """
    known = usage or Usage()
    prompt, cached = known.prompt_tokens or 0, known.cached_tokens
    read = min(cached or 0, prompt)
    told: dict[str, object] = {
        "input_tokens": prompt - read,
        "output_tokens": known.completion_tokens or 0,
    }
    if cached is not None:
        told["cache_read_input_tokens"] = read
    if known.reasoning_tokens is not None:
        told["output_tokens_details"] = {"thinking_tokens": known.reasoning_tokens}
    return told


def _message(head: Head, content: list[dict[str, object]]) -> dict[str, object]:
    return {
        "id": f"msg_{head.id}",
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": content,
    }


def _key_of(piece: Piece) -> int:
    match piece:
        case Call() | Arguments():
            return piece.place
        case Thought():
            return _THOUGHT
    return _TEXT


def _block_of(piece: Piece) -> Document:
    """The block that begins with a piece, as yet empty."""
    match piece:
        case Call():
            return {"type": "tool_use", "id": piece.id, "name": piece.name, "input": {}}
        case Thought():
            return {"type": "thinking", "thinking": "", "signature": ""}
        case Text() | Refusal():
            return {"type": "text", "text": ""}
    raise Unreadable  # arguments of a call that hasn't begun


def _delta_of(piece: Piece) -> Document | None:
    match piece:
        case Arguments():
            return {"type": "input_json_delta", "partial_json": piece.text}
        case Thought():
            return {"type": "thinking_delta", "thinking": piece.text}
        case Text() | Refusal():
            return {"type": "text_delta", "text": piece.text}
    return None


def _input_of(arguments: str) -> object:
    if not arguments.strip():
        return {}
    return msgspec.json.decode(arguments) if is_whole(arguments) else {INVALID_JSON: arguments}


def _has_calls(keys: Iterable[int]) -> bool:
    return any(key >= 0 for key in keys)


def _reason(
    ending: Ending, said: Said, *, has_calls: bool, has_refused: bool
) -> tuple[str, str | None]:
    """Why the message ended, and the stop sequence it met if the server told that."""
    reason = _REASONS.get(ending.finish)
    if reason is not None:
        return reason, None
    if has_refused:
        return "refusal", None
    if has_calls:
        return "tool_use", None
    stops = said.told.get("stop_sequences")
    if isinstance(stops, list) and ending.stopped_by in stops:
        return "stop_sequence", ending.stopped_by
    return "end_turn", None
