"""Chat's answers, in the words of OpenAI's responses."""

from dataclasses import dataclass, field
from io import StringIO
from math import inf

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

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}

# The items that text and thoughts go on in, beside those of calls by their place.
_MESSAGE, _THOUGHT = -1, -2

# What an item, and a part of one, counts for beside its texts, which is about what it takes.
_ITEM_CHARS, _PART_CHARS = 600, 300

_PREFIXES = {"message": "msg", "reasoning": "rs", "function_call": "fc"}


def tell_response(whole: Whole, said: Said) -> Document:
    """A whole response: what the stream of it would end with."""
    telling = ResponseTelling(said, most_kept=inf)
    telling.begin(whole.head, None)
    for piece in whole.pieces:
        telling.add(piece)
    last = telling.end(whole.ending, whole.usage)[-1]["response"]
    assert isinstance(last, dict)
    return last


@dataclass(slots=True)
class _Part:
    """A part of an item's content; `kind` is its type."""

    kind: str
    index: int
    kept: StringIO = field(default_factory=StringIO)

    def document(self) -> dict[str, object]:
        text = self.kept.getvalue()
        match self.kind:
            case "output_text":
                return {"type": self.kind, "text": text, "annotations": [], "logprobs": []}
            case "refusal":
                return {"type": self.kind, "refusal": text}
        return {"type": self.kind, "text": text}


@dataclass(slots=True)
class _Item:
    """An item of the output. A call has its arguments in place of parts, and if they weren't all
    kept, it `is_cut`. `last` is the part that began last, be it among those kept or not.
    """

    id: str
    index: int
    kind: str
    call: Call | None = None
    parts: list[_Part] = field(default_factory=list)
    last: _Part | None = None
    arguments: StringIO = field(default_factory=StringIO)
    is_cut: bool = False
    status: str = "in_progress"

    def document(self) -> dict[str, object]:
        told: dict[str, object] = {"id": self.id, "type": self.kind, "status": self.status}
        content = [part.document() for part in self.parts]
        if self.call is not None:
            return told | {
                "call_id": self.call.id,
                "name": self.call.name,
                "arguments": self.arguments.getvalue(),
            }
        if self.kind == "reasoning":
            return told | {"summary": [], "content": content}
        return told | {"role": "assistant", "content": content}


class ResponseTelling:
    """A streamed response. An item ends when the next begins; a call once its arguments are whole.

    Calls whose parts come interleaved are open side by side, so that no part gets to another. What
    goes beyond `most_kept` characters is told once, as it comes; the events that repeat the answer
    have its beginning, and the last says so. A call beyond is open to the end.
    """

    def __init__(self, said: Said, *, most_kept: float = MOST_KEPT) -> None:
        self.next_number = 0
        self._said = said
        self._head = Head("", "", 0)
        self._room = Room(most_kept)
        self._begun_items = 0
        self._items: list[_Item] = []
        self._open: dict[int, _Item] = {}
        self._closed: set[int] = set()

    def begin(self, head: Head, usage: Usage | None) -> list[Document]:
        self._head = head
        begun = self._response("in_progress", None)
        kinds = ("response.created", "response.in_progress")
        return [self._event(kind, response=begun) for kind in kinds]

    def add(self, piece: Piece) -> list[Document]:
        key = _key_of(piece)
        events: list[Document] = []
        item = self._open.get(key)
        if item is None:
            if key in self._closed:
                if isinstance(piece, Arguments) and not piece.text.strip():
                    return []
                raise Unreadable  # its arguments were whole, and go on
            events += self._close_finished()
            item = self._open[key] = self._begun(piece)
            events.append(self._event("response.output_item.added", **_at(item)))
        if isinstance(piece, Call):
            return events
        if isinstance(piece, Arguments):
            if self._room.takes(len(piece.text)):
                item.arguments.write(piece.text)
            else:
                item.is_cut = True
            at = {"item_id": item.id, "output_index": item.index}
            kind = "response.function_call_arguments.delta"
            return [*events, self._event(kind, **at, delta=piece.text)]
        return events + self._add_text(item, piece)

    def end(self, ending: Ending, usage: Usage | None) -> list[Document]:
        reason = _INCOMPLETE.get(ending.finish or "")
        status = "completed" if reason is None else "incomplete"
        events: list[Document] = []
        for item in sorted(self._open.values(), key=lambda one: one.index):
            events += self._close(item, status)
        done = self._response(status, usage, reason=reason)
        return [*events, self._event(f"response.{status}", response=done)]

    def _begun(self, piece: Piece) -> _Item:
        match piece:
            case Call():
                kind = "function_call"
            case Thought():
                kind = "reasoning"
            case Text() | Refusal():
                kind = "message"
            case _:
                raise Unreadable  # arguments of a call that hasn't begun
        index, self._begun_items = self._begun_items, self._begun_items + 1
        item = _Item(f"{_PREFIXES[kind]}_{self._head.id}_{index}", index, kind)
        item.call = piece if isinstance(piece, Call) else None
        if self._room.takes(_ITEM_CHARS):
            self._items.append(item)
        return item

    def _add_text(self, item: _Item, piece: Thought | Text | Refusal) -> list[Document]:
        kind = _part_kind(piece)
        events: list[Document] = []
        part = item.last
        if part is None or part.kind != kind:
            if part is not None:
                events += self._close_part(item, part)
            part = item.last = _Part(kind, 0 if part is None else part.index + 1)
            if self._room.takes(_PART_CHARS):
                item.parts.append(part)
            added = part.document()
            events.append(self._event("response.content_part.added", **_in(item, part), part=added))
        if self._room.takes(len(piece.text)):
            part.kept.write(piece.text)
        more: dict[str, object] = {"logprobs": []} if kind == "output_text" else {}
        delta = self._event(f"response.{kind}.delta", **_in(item, part), delta=piece.text, **more)
        return [*events, delta]

    def _close_finished(self) -> list[Document]:
        """Another item begins: end those that nothing more can come of."""
        events: list[Document] = []
        for key, item in list(self._open.items()):
            if key < 0 or (not item.is_cut and is_whole(item.arguments.getvalue())):
                del self._open[key]
                events += self._close(item, "completed")
                if key >= 0:
                    self._closed.add(key)
        return events

    def _close(self, item: _Item, status: str) -> list[Document]:
        item.status = status
        events: list[Document] = []
        if item.call is not None:
            events.append(
                self._event(
                    "response.function_call_arguments.done",
                    item_id=item.id,
                    output_index=item.index,
                    name=item.call.name,
                    arguments=item.arguments.getvalue(),
                )
            )
        elif item.last is not None:
            events += self._close_part(item, item.last)
        return [*events, self._event("response.output_item.done", **_at(item))]

    def _close_part(self, item: _Item, part: _Part) -> list[Document]:
        at, document = _in(item, part), part.document()
        name = "refusal" if part.kind == "refusal" else "text"
        more: dict[str, object] = {"logprobs": []} if part.kind == "output_text" else {}
        said = {name: document[name]}
        return [
            self._event(f"response.{part.kind}.done", **at, **said, **more),
            self._event("response.content_part.done", **at, part=document),
        ]

    def _response(
        self, status: str, usage: Usage | None, *, reason: str | None = None
    ) -> dict[str, object]:
        head = self._head
        told: dict[str, object] = {
            "id": f"resp_{head.id}",
            "object": "response",
            "created_at": head.at,
            "status": status,
            "error": None,
            "incomplete_details": None if reason is None else {"reason": reason},
            "model": head.model,
            "output": [item.document() for item in self._items],
            **self._said.told,
            "usage": usage_told(usage),
        }
        if head.service_tier is not None:
            told["service_tier"] = head.service_tier
        if self._room.is_over:
            told["is_output_cut"] = True
        return told

    def _event(self, kind: str, **members: object) -> Document:
        number = self.next_number
        self.next_number += 1
        return {"type": kind, "sequence_number": number, **members}


def usage_told(usage: Usage | None) -> Document | None:
    """A usage in the counts of responses, which have 0 for details that aren't known."""
    if usage is None:
        return None
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens or 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": prompt + completion,
    }


def _key_of(piece: Piece) -> int:
    match piece:
        case Call() | Arguments():
            return piece.place
        case Thought():
            return _THOUGHT
    return _MESSAGE


def _part_kind(piece: Thought | Text | Refusal) -> str:
    match piece:
        case Thought():
            return "reasoning_text"
        case Refusal():
            return "refusal"
    return "output_text"


def _at(item: _Item) -> dict[str, object]:
    return {"output_index": item.index, "item": item.document()}


def _in(item: _Item, part: _Part) -> dict[str, object]:
    return {"item_id": item.id, "output_index": item.index, "content_index": part.index}
