"""What the upstream answers: shaped and counted as vLLM does."""

import base64
import struct
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.upstream.script import PROMPT_TOKENS, Behaviour, Call

Document = dict[str, Any]

VECTOR = [0.6, 0.8]
MAX_MODEL_LEN = 2048


def deltas_of(behaviour: Behaviour) -> list[dict[str, object]]:
    """The deltas of an answer: one a word, spaces kept, unless the script gives its own."""
    if behaviour.deltas is not None:
        return behaviour.deltas
    words = behaviour.text.split(" ")
    return [{"content": word if index == 0 else f" {word}"} for index, word in enumerate(words)]


def usage_of(behaviour: Behaviour, served: int, *, prompts: int = 1) -> dict[str, object] | None:
    if isinstance(behaviour.usage, msgspec.UnsetType):
        return {
            "prompt_tokens": PROMPT_TOKENS * prompts,
            "completion_tokens": served,
            "total_tokens": PROMPT_TOKENS * prompts + served,
        }
    return behaviour.usage


def inputs_of(given: object) -> list[object]:
    """The prompts or inputs of a request: a list of tokens is one of them."""
    if isinstance(given, list) and given and not isinstance(given[0], int):
        return given
    return [given]


def embeddings(document: Document, behaviour: Behaviour, call: Call) -> Document:
    """A vector for each input, as floats or in base64, cut to `dimensions`."""
    vector: list[float] = VECTOR[: document.get("dimensions") or len(VECTOR)]
    shown: object = vector
    if document.get("encoding_format") == "base64":
        shown = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
    data = [
        {"object": "embedding", "index": index, "embedding": shown}
        for index in range(len(inputs_of(document.get("input"))))
    ]
    call.usage = usage_of(behaviour, 0)
    if isinstance(behaviour.usage, msgspec.UnsetType) and call.usage is not None:
        del call.usage["completion_tokens"]
    model = document.get("model")
    return {"object": "list", "model": model, "data": data, "usage": call.usage}


def tokenized(document: Document) -> Document:
    """A token a byte."""
    parts = [str(message.get("content")) for message in document.get("messages") or ()]
    text = str(document["prompt"]) if "prompt" in document else "".join(parts)
    tokens = list(text.encode())
    strings = [chr(token) for token in tokens] if document.get("return_token_strs") else None
    return {
        "count": len(tokens),
        "max_model_len": MAX_MODEL_LEN,
        "tokens": tokens,
        "token_strs": strings,
    }


def detokenized(document: Document) -> Document:
    """The text of such tokens."""
    return {"prompt": bytes(document["tokens"]).decode()}


def counted(document: Document) -> Document:
    """How many bytes a conversation of Anthropic's has, as its number of tokens."""
    given = (document.get("system") or "", document.get("messages") or ())
    count = len(msgspec.json.encode(given))
    return {"input_tokens": count, "context_management": {"original_input_tokens": count}}


def reranked(document: Document, behaviour: Behaviour, call: Call) -> Document:
    """Documents in the order they were given in, each half as relevant as the one before."""
    documents = document.get("documents") or []
    top = document.get("top_n") or len(documents)
    results = [
        {"index": index, "document": {"text": text}, "relevance_score": 0.5**index}
        for index, text in enumerate(documents[:top])
    ]
    call.usage = _read_usage(behaviour, len(documents))
    made = {"id": f"score-{call.number}", "model": document.get("model")}
    return {**made, "usage": call.usage, "results": results}


def scored(document: Document, behaviour: Behaviour, call: Call) -> Document:
    """A score for each pair."""
    sides = [inputs_of(document[name]) for name in ("text_1", "text_2") if name in document]
    pairs = max((len(side) for side in sides), default=1)
    data = [{"index": index, "object": "score", "score": 0.5} for index in range(pairs)]
    call.usage = _read_usage(behaviour, pairs)
    return {"object": "list", "model": document.get("model"), "data": data, "usage": call.usage}


def _read_usage(behaviour: Behaviour, pairs: int) -> dict[str, object] | None:
    if not isinstance(behaviour.usage, msgspec.UnsetType):
        return behaviour.usage
    return {"prompt_tokens": PROMPT_TOKENS * pairs, "total_tokens": PROMPT_TOKENS * pairs}


def completion(document: Document, behaviour: Behaviour, call: Call) -> Document:
    """A whole completion: `n` choices for each prompt, with its prompt before it if `echo`."""
    prompts, each = inputs_of(document.get("prompt")), document.get("n") or 1
    words = [str(delta.get("content") or "") for delta in deltas_of(behaviour)]
    call.served_tokens = len(words) * len(prompts) * each
    call.usage = usage_of(behaviour, call.served_tokens, prompts=len(prompts))
    choices = [
        _choice(document, index, [*_echo(document, prompts[index // each]), *words], finish="stop")
        for index in range(len(prompts) * each)
    ]
    return {**_frame(document, call, choices), "usage": call.usage}


def completion_frames(document: Document, behaviour: Behaviour, call: Call) -> Iterator[Document]:
    """The frames of a stream. The usage in them is of their own choice, the closing one of all."""
    prompts, each = inputs_of(document.get("prompt")), document.get("n") or 1
    words = [str(delta.get("content") or "") for delta in deltas_of(behaviour)]
    options = document.get("stream_options") or {}
    is_continuous = options.get("include_usage") and options.get("continuous_usage_stats")
    for number, word in enumerate(words, start=1):
        for index in range(len(prompts) * each):
            echo = _echo(document, prompts[index // each]) if number == 1 else []
            frame = _frame(document, call, [_choice(document, index, [*echo, word])])
            call.served_tokens += 1
            call.usage = usage_of(behaviour, call.served_tokens, prompts=len(prompts))
            usage = usage_of(behaviour, number) if is_continuous else None
            yield frame if usage is None else {**frame, "usage": usage}
    for index in range(len(prompts) * each):
        yield _frame(document, call, [_choice(document, index, [""], finish="stop")])
    if options.get("include_usage") and call.usage is not None:
        yield {**_frame(document, call, []), "usage": call.usage}


def _echo(document: Document, prompt: object) -> list[str]:
    return [f"{prompt} "] if document.get("echo") else []


def _choice(
    document: Document, index: int, words: list[str], *, finish: str | None = None
) -> Document:
    logprobs = None
    if document.get("logprobs") is not None:
        logprobs = {
            "tokens": words,
            "token_logprobs": [-0.5] * len(words),
            "top_logprobs": [{word: -0.5} for word in words],
            "text_offset": [0] * len(words),
        }
    return {"index": index, "text": "".join(words), "logprobs": logprobs, "finish_reason": finish}


def _frame(document: Document, call: Call, choices: list[Document]) -> Document:
    return {
        "id": f"cmpl-{call.number}",
        "object": "text_completion",
        "created": int(time.time()),
        "model": document.get("model"),
        "choices": choices,
    }
