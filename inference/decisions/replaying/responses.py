"""OpenAI's responses: items of output with parts, whose last event has the whole answer in it."""

from collections.abc import Iterable, Iterator
from itertools import count

from inference.contract.events import Usage
from inference.decisions.replaying.base import Document, Shown

_LAST = frozenset(("response.completed", "response.incomplete"))
_UNFIT = frozenset(("content_filter",))


class ResponseForm:
    """Of responses."""

    names_events = True
    ends_with_mark = False

    def whole_of(self, events: Iterable[Document], usage: Usage | None) -> Document | None:
        whole: Document | None = None
        for event in events:
            if event.get("type") in _LAST and isinstance(event.get("response"), dict):
                whole = event["response"]
        return whole

    def events_of(self, whole: Document, shown: Shown) -> list[Document]:
        begun = {**whole, "status": "in_progress", "output": [], "usage": None}
        events: list[Document] = [
            {"type": "response.created", "response": begun},
            {"type": "response.in_progress", "response": begun},
        ]
        for place, item in enumerate(whole["output"]):
            events += _item_told(place, item)
        ending = "incomplete" if whole.get("status") == "incomplete" else "completed"
        events.append({"type": f"response.{ending}", "response": whole})
        numbers = count()
        return [{**event, "sequence_number": next(numbers)} for event in events]

    def is_fit(self, whole: Document) -> bool:
        if not whole.get("output") or whole.get("error"):
            return False
        details = whole.get("incomplete_details") or {}
        reason = details.get("reason") if isinstance(details, dict) else None
        return whole.get("status") in (None, "completed", "incomplete") and reason not in _UNFIT

    def is_cut(self, whole: Document) -> bool:
        return whole.get("status") == "incomplete"

    def has_tool_calls(self, whole: Document) -> bool:
        return any(str(item.get("type", "")).endswith("_call") for item in whole["output"])

    def text_of(self, whole: Document) -> str:
        parts = (part for item in whole["output"] for part in item.get("content") or ())
        return "\n".join(str(part["text"]) for part in parts if part.get("text"))


def _item_told(place: int, item: Document) -> Iterator[Document]:
    """One item, from its beginning to its end."""
    at = {"output_index": place}
    part_at = {**at, "item_id": item.get("id", "")}
    parts = item.get("content") if isinstance(item.get("content"), list) else None
    summary = item.get("summary") if isinstance(item.get("summary"), list) else None
    empty = {**item, "status": "in_progress"}
    if parts is not None:
        empty["content"] = []
    if "arguments" in item:
        empty["arguments"] = ""
    if summary is not None:
        empty["summary"] = []
    yield {"type": "response.output_item.added", **at, "item": empty}
    for number, part in enumerate(summary or ()):
        yield from _summary_told({**part_at, "summary_index": number}, part)
    for number, part in enumerate(parts or ()):
        yield from _part_told({**part_at, "content_index": number}, part)
    if "arguments" in item:
        kind, arguments = "response.function_call_arguments", item["arguments"]
        yield {"type": f"{kind}.delta", **part_at, "delta": arguments}
        yield {"type": f"{kind}.done", **part_at, "arguments": arguments}
    yield {"type": "response.output_item.done", **at, "item": item}


_PARTS = {
    "output_text": ("response.output_text", "text"),
    "refusal": ("response.refusal", "refusal"),
    "reasoning_text": ("response.reasoning_text", "text"),
}


def _part_told(at: Document, part: Document) -> Iterator[Document]:
    kind, member = _PARTS.get(str(part.get("type")), ("", ""))
    text = part.get(member, "") if member else ""
    logprobs: Document = {"logprobs": part.get("logprobs") or []} if "text" in kind else {}
    empty = {**part, member: ""} if member else part
    yield {"type": "response.content_part.added", **at, "part": empty}
    if member:
        yield {"type": f"{kind}.delta", **at, "delta": text, **logprobs}
        yield {"type": f"{kind}.done", **at, member: text, **logprobs}
    yield {"type": "response.content_part.done", **at, "part": part}


def _summary_told(at: Document, part: Document) -> Iterator[Document]:
    text = part.get("text", "")
    kind = "response.reasoning_summary"
    yield {"type": f"{kind}_part.added", **at, "part": {**part, "text": ""}}
    yield {"type": f"{kind}_text.delta", **at, "delta": text}
    yield {"type": f"{kind}_text.done", **at, "text": text}
    yield {"type": f"{kind}_part.done", **at, "part": part}
