"""OpenAI's responses and Anthropic's messages: shaped and counted as vLLM does."""

from collections.abc import Iterator
from typing import Any

import msgspec

from tests.upstream.script import PROMPT_TOKENS, Behaviour, Call

Document = dict[str, Any]


def response(document: Document, behaviour: Behaviour, call: Call) -> Document:
    """A whole response: one message with the script's text."""
    call.served_tokens = len(_words(behaviour))
    call.usage = _response_usage(behaviour, call.served_tokens)
    item = _item(call, [_text_part(behaviour.text)], "completed")
    return _response(document, call, "completed", [item], usage=call.usage)


def response_frames(document: Document, behaviour: Behaviour, call: Call) -> Iterator[Document]:
    """The events of a streamed response; the last alone tells the usage."""
    at = {"item_id": f"msg_{call.number}", "output_index": 0}
    part = {**at, "content_index": 0}
    begun = _response(document, call, "in_progress", [], usage=None)
    numbers = iter(range(1_000_000))

    def event(kind: str, **members: Any) -> Document:
        return {"type": f"response.{kind}", "sequence_number": next(numbers), **members}

    yield event("created", response=begun)
    yield event("in_progress", response=begun)
    yield event("output_item.added", output_index=0, item=_item(call, [], "in_progress"))
    yield event("content_part.added", **part, part=_text_part(""))
    for word in _words(behaviour):
        call.served_tokens += 1
        yield event("output_text.delta", **part, delta=word, logprobs=[])
    yield event("output_text.done", **part, text=behaviour.text, logprobs=[])
    yield event("content_part.done", **part, part=_text_part(behaviour.text))
    item = _item(call, [_text_part(behaviour.text)], "completed")
    yield event("output_item.done", output_index=0, item=item)
    call.usage = _response_usage(behaviour, call.served_tokens)
    done = _response(document, call, "completed", [item], usage=call.usage)
    yield event("completed", response=done)


def message(document: Document, behaviour: Behaviour, call: Call) -> Document:
    """A whole message of the script's text."""
    call.served_tokens = len(_words(behaviour))
    call.usage = _message_usage(behaviour, call.served_tokens)
    content = [{"type": "text", "text": behaviour.text}]
    return {
        **_message(document, call, content),
        "stop_reason": "end_turn",
        "usage": call.usage,
    }


def message_frames(document: Document, behaviour: Behaviour, call: Call) -> Iterator[Document]:
    """The events of a streamed message: the first counts the prompt, the last but one all."""
    first = {**_message(document, call, []), "stop_reason": None, "stop_sequence": None}
    yield {"type": "message_start", "message": {**first, "usage": _message_usage(behaviour, 0)}}
    at = {"index": 0}
    text = {"type": "text", "text": ""}
    yield {"type": "content_block_start", **at, "content_block": text}
    for word in _words(behaviour):
        call.served_tokens += 1
        delta = {"type": "text_delta", "text": word}
        yield {"type": "content_block_delta", **at, "delta": delta}
    yield {"type": "content_block_stop", **at}
    call.usage = _message_usage(behaviour, call.served_tokens)
    end = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": call.usage}
    yield {"type": "message_stop"}


def named_event(document: Document) -> bytes:
    """A server-sent event that says what it is on a line of its own."""
    return b"event: %b\ndata: %b\n\n" % (document["type"].encode(), msgspec.json.encode(document))


def _words(behaviour: Behaviour) -> list[str]:
    words = behaviour.text.split(" ")
    return [word if index == 0 else f" {word}" for index, word in enumerate(words)]


def _response(
    document: Document, call: Call, status: str, output: list[Document], *, usage: Document | None
) -> Document:
    return {
        "id": f"resp_{call.number}",
        "object": "response",
        "created_at": int(call.received_at),
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": document.get("instructions"),
        "model": document.get("model"),
        "output": output,
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "top_p": 1.0,
        "tool_choice": "auto",
        "tools": document.get("tools") or [],
        "usage": usage,
    }


def _item(call: Call, content: list[Document], status: str) -> Document:
    item = {"id": f"msg_{call.number}", "type": "message", "role": "assistant"}
    return {**item, "status": status, "content": content}


def _text_part(text: str) -> Document:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message(document: Document, call: Call, content: list[Document]) -> Document:
    made = {"id": f"chatcmpl-{call.number}", "type": "message", "role": "assistant"}
    return {**made, "content": content, "model": document.get("model")}


def _response_usage(behaviour: Behaviour, served: int) -> Document | None:
    if not isinstance(behaviour.usage, msgspec.UnsetType):
        return behaviour.usage
    return {
        "input_tokens": PROMPT_TOKENS,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": served,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": PROMPT_TOKENS + served,
    }


def _message_usage(behaviour: Behaviour, served: int) -> Document | None:
    if not isinstance(behaviour.usage, msgspec.UnsetType):
        return behaviour.usage
    return {"input_tokens": PROMPT_TOKENS, "output_tokens": served}
