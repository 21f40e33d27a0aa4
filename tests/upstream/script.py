"""What a test may tell the upstream to do, and what the upstream tells of each call."""

from typing import Any, Literal

import msgspec

PROMPT_TOKENS = 10
DEFAULT_TEXT = "one two three four five"


class Behaviour(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How calls are answered. `calls` is how many it covers before the next one; None is all.

    Without `usage` the count is `PROMPT_TOKENS` and one token a delta; `usage` is reported as it
    stands, null included. `body` is sent verbatim instead of a completion. `deltas` and `frames`
    replace the deltas made of `text` (frames: whole verbatim server-sent events). `cut_after`
    ends a stream after so many frames by `ending`. Times are milliseconds.
    """

    calls: int | None = None
    delay_ms: float = 0
    gap_ms: float = 0
    status: int = 200
    headers: dict[str, str] = {}
    content_type: str | None = None
    body: str | None = None
    text: str = DEFAULT_TEXT
    deltas: list[dict[str, Any]] | None = None
    frames: list[str] | None = None
    usage: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    knows_continuous_usage: bool = True
    cut_after: int | None = None
    ending: Literal["clean", "close", "reset", "hang"] = "clean"
    before_head: Literal["answer", "close", "reset", "hang"] = "answer"


class Call(msgspec.Struct):
    """One recorded call. `served_tokens` counts the deltas that were written to the socket."""

    number: int
    method: str
    path: str
    headers: dict[str, str]
    body_bytes: int
    body_sha256: str
    body: str | None
    is_stream: bool
    received_at: float
    finished_at: float | None = None
    status: int | None = None
    is_finished: bool = False
    is_closed_early: bool = False
    served_tokens: int = 0
    usage: dict[str, Any] | None = None


class Report(msgspec.Struct):
    """Everything since the last reset; `connections` counts accepted sockets."""

    calls: list[Call]
    connections: int
    open_calls: int
