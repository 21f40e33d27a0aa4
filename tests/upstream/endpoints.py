"""Which answer belongs to which path; chat's own is the server's."""

from collections.abc import Iterator
from typing import Any

import msgspec

from tests.upstream.answers import (
    completion,
    completion_frames,
    counted,
    detokenized,
    embeddings,
    reranked,
    scored,
    tokenized,
)
from tests.upstream.named import message, message_frames, named_event, response, response_frames
from tests.upstream.script import Behaviour, Call


def other_answer(
    path: str, document: dict[str, Any], behaviour: Behaviour, call: Call
) -> dict[str, object] | None:
    """What is answered as one document at any endpoint but chat; None is left to chat's ways."""
    match path.rpartition("/")[2]:
        case "embeddings":
            return embeddings(document, behaviour, call)
        case "rerank":
            return reranked(document, behaviour, call)
        case "score":
            return scored(document, behaviour, call)
        case "tokenize":
            return tokenized(document)
        case "detokenize":
            return detokenized(document)
        case "count_tokens":
            return counted(document)
        case "completions" if not path.endswith("/chat/completions") and not call.is_stream:
            return completion(document, behaviour, call)
        case "responses" if not call.is_stream:
            return response(document, behaviour, call)
        case "messages" if not call.is_stream:
            return message(document, behaviour, call)
    return None


def other_frames(
    path: str, document: dict[str, Any], behaviour: Behaviour, call: Call
) -> Iterator[bytes]:
    """The events of a stream at any endpoint but chat."""
    match path.rpartition("/")[2]:
        case "responses":
            yield from map(named_event, response_frames(document, behaviour, call))
        case "messages":
            yield from map(named_event, message_frames(document, behaviour, call))
        case _:
            yield from map(event, completion_frames(document, behaviour, call))
            yield b"data: [DONE]\n\n"


def event(document: object) -> bytes:
    """A server-sent event without a name."""
    return b"data: %b\n\n" % msgspec.json.encode(document)
