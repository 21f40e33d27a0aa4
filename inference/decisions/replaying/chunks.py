"""OpenAI's chat and completions: choices, told in chunks that are put together by their index."""

from collections.abc import Iterable, Mapping

from inference.contract.events import Usage
from inference.decisions.replaying.base import BAD_FINISHES, Document, Shown

_OF_CHUNKS = frozenset(("choices", "usage", "object"))
_JOINED = frozenset(("content", "reasoning_content", "reasoning", "refusal", "arguments"))


class ChatForm:
    """Of chat: a choice has a message, told in deltas."""

    names_events = False
    ends_with_mark = True

    def whole_of(self, events: Iterable[Document], usage: Usage | None) -> Document | None:
        head, choices = _gathered(events, _add_to_message)
        if head is None or not choices:
            return None
        for choice in choices:
            message: Document = choice.setdefault("message", {})
            message.setdefault("role", "assistant")
            message.setdefault("content", None)
            if "tool_calls" in message:
                message["tool_calls"] = _in_order(message["tool_calls"])
        return _whole(head, "chat.completion", choices, usage)

    def events_of(self, whole: Document, shown: Shown) -> list[Document]:
        frames: list[Document] = []
        for choice in whole["choices"]:
            index, message = choice["index"], choice["message"]
            role = {"role": message.get("role", "assistant"), "content": ""}
            frames.append(_told(index, role))
            rest = {name: one for name, one in message.items() if name != "role" and one}
            if "tool_calls" in rest:
                rest["tool_calls"] = [
                    {"index": place, **call} for place, call in enumerate(rest["tool_calls"])
                ]
            frames.append(_told(index, rest) | _logprobs_of(choice))
            others = {
                name: one
                for name, one in choice.items()
                if name not in ("index", "message", "logprobs")
            }
            frames.append({"index": index, "delta": {}, **others})
        return _chunks(whole, "chat.completion.chunk", frames, shown)

    def is_fit(self, whole: Document) -> bool:
        return _are_fit(whole)

    def is_cut(self, whole: Document) -> bool:
        return _is_cut(whole)

    def has_tool_calls(self, whole: Document) -> bool:
        messages = [one.get("message") or {} for one in whole["choices"]]
        return any(one.get("tool_calls") or one.get("function_call") for one in messages)

    def text_of(self, whole: Document) -> str:
        return "\n".join(str(one["message"].get("content") or "") for one in whole["choices"])


class CompletionForm:
    """Of completions: a choice has a text."""

    names_events = False
    ends_with_mark = True

    def whole_of(self, events: Iterable[Document], usage: Usage | None) -> Document | None:
        head, choices = _gathered(events, _add_to_text)
        if head is None or not choices:
            return None
        return _whole(head, "text_completion", choices, usage)

    def events_of(self, whole: Document, shown: Shown) -> list[Document]:
        frames: list[Document] = []
        for choice in whole["choices"]:
            frames.append(
                {"index": choice["index"], "text": choice["text"], "finish_reason": None}
                | _logprobs_of(choice)
            )
            frames.append({**choice, "text": "", "logprobs": None})
        return _chunks(whole, "text_completion", frames, shown)

    def is_fit(self, whole: Document) -> bool:
        return _are_fit(whole)

    def is_cut(self, whole: Document) -> bool:
        return _is_cut(whole)

    def has_tool_calls(self, whole: Document) -> bool:
        return False

    def text_of(self, whole: Document) -> str:
        return "\n".join(str(one.get("text") or "") for one in whole["choices"])


def usage_member(usage: Usage) -> Document:
    """A usage as it is told beside choices."""
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    told: Document = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
    if usage.cached_tokens is not None:
        told["prompt_tokens_details"] = {"cached_tokens": usage.cached_tokens}
    if usage.reasoning_tokens is not None:
        told["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return told


def _gathered(events: Iterable[Document], add: object) -> tuple[Document | None, list[Document]]:
    """What all chunks have in common, and their choices put together, in order."""
    assert callable(add)
    head: Document | None = None
    choices: dict[int, Document] = {}
    for chunk in events:
        if head is None:
            head = {name: one for name, one in chunk.items() if name not in _OF_CHUNKS}
        for told in chunk.get("choices") or ():
            index = told.get("index", 0)
            choice = choices.setdefault(index, {"index": index, "finish_reason": None})
            add(choice, told)
            for name, one in told.items():
                if name == "logprobs":
                    _add_logprobs(choice, one)
                elif name not in ("index", "delta", "text") and one is not None:
                    choice[name] = one
    return head, [choices[index] for index in sorted(choices)]


def _add_to_message(choice: Document, told: Document) -> None:
    message: Document = choice.setdefault("message", {})
    for name, one in (told.get("delta") or {}).items():
        if name == "tool_calls":
            _add_calls(message.setdefault(name, {}), one or ())
        elif one is not None:
            _add(message, name, one)


def _add_to_text(choice: Document, told: Document) -> None:
    choice["text"] = choice.get("text", "") + (told.get("text") or "")


def _add_calls(calls: dict[int, Document], told: Iterable[Document]) -> None:
    """Put parts of calls together: each names the call it is of by its index alone."""
    for part in told:
        index = part.get("index", 0)
        call = calls.setdefault(index, {})
        for name, one in part.items():
            if name != "index" and one is not None:
                _add(call, name, one)


def _add(whole: Document, name: str, part: object) -> None:
    """Add a part of a member: texts that come in pieces are joined, objects are looked into."""
    if isinstance(part, dict):
        inner = whole.setdefault(name, {})
        for key, one in part.items():
            if one is not None:
                _add(inner, key, one)
    elif isinstance(part, str) and name in _JOINED:
        whole[name] = (whole.get(name) or "") + part
    elif isinstance(part, list) and isinstance(whole.get(name), list):
        whole[name] = [*whole[name], *part]
    else:
        whole[name] = part


def _add_logprobs(choice: Document, told: object) -> None:
    if isinstance(told, dict):
        kept = choice.get("logprobs") or {}
        for name, one in told.items():
            is_more = isinstance(one, list) and isinstance(kept.get(name), list)
            kept[name] = [*kept[name], *one] if is_more else one
        choice["logprobs"] = kept
    else:
        choice.setdefault("logprobs", None)


def _in_order(calls: Mapping[int, Document]) -> list[Document]:
    return [calls[index] for index in sorted(calls)]


def _whole(
    head: Document, kind: str, choices: list[Document], usage: Usage | None
) -> Document | None:
    if any(choice["finish_reason"] is None for choice in choices):
        return None
    whole: Document = {**head, "object": kind, "choices": choices}
    if usage is not None:
        whole["usage"] = usage_member(usage)
    return whole


def _told(index: int, delta: Document) -> Document:
    return {"index": index, "delta": delta, "finish_reason": None}


def _logprobs_of(choice: Document) -> Document:
    logprobs = choice.get("logprobs")
    return {} if logprobs is None else {"logprobs": logprobs}


def _chunks(whole: Document, kind: str, frames: list[Document], shown: Shown) -> list[Document]:
    head = {name: one for name, one in whole.items() if name not in _OF_CHUNKS}
    head["object"] = kind
    usage = whole.get("usage")
    each: Document = {"usage": usage} if shown.frame_usage and usage is not None else {}
    chunks = [{**head, "choices": [frame], **each} for frame in frames]
    if shown.usage and usage is not None:
        chunks.append({**head, "choices": [], "usage": usage})
    return chunks


def _are_fit(whole: Document) -> bool:
    choices = whole.get("choices")
    if not isinstance(choices, list) or not choices:
        return False
    finishes = [one.get("finish_reason") for one in choices]
    return all(isinstance(one, str) and one not in BAD_FINISHES for one in finishes)


def _is_cut(whole: Document) -> bool:
    return any(one.get("finish_reason") == "length" for one in whole["choices"])
