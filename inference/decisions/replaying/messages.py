"""Anthropic's messages: blocks of content, each told from its beginning to its end."""

import json
from collections.abc import Iterable, Iterator, Mapping

from inference.contract.events import Usage
from inference.decisions.replaying.base import Document, Shown

_UNFIT = frozenset(("refusal", "error", "content_filter"))

# What a block is at first, and the member that a delta of this kind adds to.
_JOINED: Mapping[str, tuple[str, str]] = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("signature", "signature"),
}
_BLOCKS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "text": (("text", "text_delta"),),
    "thinking": (("thinking", "thinking_delta"), ("signature", "signature_delta")),
}


class MessageForm:
    """Of messages."""

    names_events = True
    ends_with_mark = False

    def whole_of(self, events: Iterable[Document], usage: Usage | None) -> Document | None:
        whole: Document = {}
        blocks: dict[int, Document] = {}
        written: dict[int, str] = {}
        for event in events:
            match event.get("type"):
                case "message_start":
                    whole = dict(event["message"])
                case "content_block_start":
                    blocks[event["index"]] = dict(event["content_block"])
                case "content_block_delta":
                    _add(blocks[event["index"]], event["delta"], written, event["index"])
                case "message_delta":
                    whole |= event["delta"]
                    told = {k: v for k, v in (event.get("usage") or {}).items() if v is not None}
                    whole["usage"] = {**(whole.get("usage") or {}), **told}
        for index, text in written.items():
            blocks[index]["input"] = json.loads(text) if text else {}
        if not whole.get("stop_reason"):
            return None
        return {**whole, "content": [blocks[index] for index in sorted(blocks)]}

    def events_of(self, whole: Document, shown: Shown) -> list[Document]:
        usage = whole.get("usage") or {}
        begun = {**whole, "content": [], "stop_reason": None, "stop_sequence": None}
        begun["usage"] = {**usage, "output_tokens": 0}
        events: list[Document] = [{"type": "message_start", "message": begun}]
        for index, block in enumerate(whole["content"]):
            events += [{**event, "index": index} for event in _block_told(block)]
        end = {name: whole.get(name) for name in ("stop_reason", "stop_sequence")}
        events.append({"type": "message_delta", "delta": end, "usage": usage})
        events.append({"type": "message_stop"})
        return events

    def is_fit(self, whole: Document) -> bool:
        reason = whole.get("stop_reason")
        return bool(whole.get("content")) and isinstance(reason, str) and reason not in _UNFIT

    def is_cut(self, whole: Document) -> bool:
        return whole.get("stop_reason") == "max_tokens"

    def has_tool_calls(self, whole: Document) -> bool:
        return any(str(block.get("type", "")).endswith("tool_use") for block in whole["content"])

    def text_of(self, whole: Document) -> str:
        return "\n".join(str(one["text"]) for one in whole["content"] if one.get("text"))


def _add(block: Document, delta: Document, written: dict[int, str], index: int) -> None:
    kind = delta.get("type", "")
    if kind == "input_json_delta":
        written[index] = written.get(index, "") + delta["partial_json"]
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta["citation"]]
    elif kind in _JOINED:
        member, told = _JOINED[kind]
        block[member] = (block.get(member) or "") + delta[told]


def _block_told(block: Document) -> Iterator[Document]:
    """One block's events."""
    kind = str(block.get("type"))
    members = _BLOCKS.get(kind, ())
    empty = {**block, **{member: "" for member, _ in members if member in block}}
    deltas = [
        {"type": delta, member: block[member]} for member, delta in members if block.get(member)
    ]
    if kind.endswith("tool_use") and isinstance(block.get("input"), dict):
        empty["input"] = {}
        written = json.dumps(block["input"], ensure_ascii=False)
        deltas.append({"type": "input_json_delta", "partial_json": written})
    if block.get("citations"):
        empty["citations"] = []
        deltas += [{"type": "citations_delta", "citation": one} for one in block["citations"]]
    yield {"type": "content_block_start", "content_block": empty}
    for delta in deltas:
        yield {"type": "content_block_delta", "delta": delta}
    yield {"type": "content_block_stop"}
