"""Chat completions to tell in other words: whole, and cut into the chunks they may have come in."""

from itertools import pairwise
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from inference.contract.events import Usage
from inference.decisions.bridging.pieces import Answer, Pieces, head_of, read_answer

USAGE = Usage(10, 5, 4, 2)

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""Answers take a while to draw, and on a busy machine a long one."""

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
ARGUMENTS = st.dictionaries(TEXTS, st.integers() | TEXTS | st.none(), max_size=3).map(
    lambda one: msgspec.json.encode(one).decode()
)


@st.composite
def messages(draw: st.DrawFn) -> dict[str, Any]:
    """What an assistant answers: thoughts, a text, calls, each or none."""
    message: dict[str, Any] = {"role": "assistant", "content": draw(st.none() | TEXTS)}
    if draw(st.booleans()):
        message["reasoning_content"] = draw(TEXTS)
    calls = draw(st.lists(st.tuples(TEXTS, ARGUMENTS), max_size=3))
    if calls:
        message["tool_calls"] = [
            {
                "id": f"call_{place}",
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for place, (name, arguments) in enumerate(calls)
        ]
    return message


@st.composite
def chunked(draw: st.DrawFn, message: dict[str, Any]) -> list[dict[str, Any]]:
    """A message's deltas in the order servers send them, cut where chance will."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    for name in ("reasoning_content", "content"):
        deltas += [{name: part} for part in draw(cuts(message.get(name) or ""))]
    for place, call in enumerate(message.get("tool_calls", ())):
        function = call["function"]
        first = {**call, "index": place, "function": {**function, "arguments": ""}}
        deltas.append({"tool_calls": [first]})
        deltas += [
            {"tool_calls": [{"index": place, "function": {"arguments": part}}]}
            for part in draw(cuts(function["arguments"]))
        ]
    return deltas


@st.composite
def cuts(draw: st.DrawFn, text: str) -> list[str]:
    """A text in parts."""
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=4)))
    bounds = [0, *places, len(text)]
    return [text[one:other] for one, other in pairwise(bounds)]


def whole(message: dict[str, Any], *, finish: str = "stop", **more: Any) -> dict[str, Any]:
    """A completion of this message."""
    return _answer({"message": message, "finish_reason": finish, **more})


def chunk(delta: dict[str, Any], *, finish: str | None = None, **more: Any) -> Answer:
    """A chunk of one."""
    return read_answer(
        msgspec.json.encode(_answer({"delta": delta, "finish_reason": finish, **more}))
    )


def usage_in_chat(usage: Usage | None) -> dict[str, Any] | None:
    """A usage as chat's servers tell it."""
    if usage is None:
        return None
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def _answer(choice: dict[str, Any]) -> dict[str, Any]:
    return {"id": "x", "model": "served", "created": 7, "choices": [{"index": 0, **choice}]}


def told(telling: Any, chunks: list[Answer], *, usage: Usage | None = USAGE) -> list[Any]:
    """All events of a stream."""
    taken = Pieces("r1")
    events = list(telling.begin(head_of(chunks[0], answer_id="r1", at=0), None))
    for one in chunks:
        for piece in taken.of(one):
            events += telling.add(piece)
    taken.end()
    return events + telling.end(taken.ending, usage)
