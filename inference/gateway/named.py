"""Streams of named events: OpenAI's responses and Anthropic's messages.

Each event says in `type` what it is, and usually on an `event:` line too. Usage is told unasked: by
the last event, and by messages for the prompt in the first. What differs is words.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from inference.contract.events import Usage
from inference.contract.kinds import Endpoint
from inference.decisions.usage import at_least, usage_of
from inference.gateway.streaming import BadFrame

# Some servers end every stream with OpenAI's mark; these have an end of their own.
_MARK = b"[DONE]"

_SEQUENCE_NUMBER = re.compile(rb'"sequence_number"\s*:\s*(\d{1,15})')


@dataclass(frozen=True, slots=True)
class EventWords:
    """How an endpoint calls its events.

    `empty` are those without content, `last` those that end a stream, `failed` those in place of an
    answer. `holder` is the member that has usage and error inside, where they aren't the
    event's own. A block that holds one of `telling` must be looked into. `piece` is in each event
    with a part of the answer, and nowhere else, unless `no_piece` is there too. `finished` is in
    the frames before the end of an answer that is whole.
    """

    empty: frozenset[str]
    last: frozenset[str]
    failed: frozenset[str]
    holder: str
    telling: tuple[bytes, ...]
    piece: bytes
    no_piece: bytes | None = None
    finished: re.Pattern[bytes] | None = None
    closing: bytes = b""


_WORDS: Mapping[Endpoint, EventWords] = {
    Endpoint.RESPONSES: EventWords(
        empty=frozenset(
            (
                "response.created",
                "response.queued",
                "response.in_progress",
                "response.output_item.added",
                "response.content_part.added",
                "response.reasoning_summary_part.added",
            )
        ),
        last=frozenset(("response.completed", "response.incomplete")),
        failed=frozenset(("response.failed", "error")),
        holder="response",
        telling=(
            b'"response.completed"',
            b'"response.incomplete"',
            b'"response.failed"',
            b'"error"',
        ),
        piece=b".delta\ndata:",
    ),
    Endpoint.MESSAGES: EventWords(
        empty=frozenset(
            (
                "message_start",
                "ping",
                "content_block_start",
                "content_block_stop",
                "message_stop",
            )
        ),
        last=frozenset(("message_stop",)),
        failed=frozenset(("error",)),
        holder="message",
        telling=(b'"usage"', b'"message_stop"', b'"error"'),
        piece=b"event: content_block_delta\n",
        no_piece=b'"signature_delta"',
        finished=re.compile(rb'"stop_reason"\s*:\s*"'),
        closing=b'event: message_stop\ndata: {"type":"message_stop"}\n\n',
    ),
}
_FIRST_BYTES = (b"event:", b"data:")


class _Event(msgspec.Struct):
    type: str = ""
    usage: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")
    response: msgspec.Raw = msgspec.Raw(b"")
    message: msgspec.Raw = msgspec.Raw(b"")


class _Held(msgspec.Struct):
    usage: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


_decode_event = msgspec.json.Decoder(_Event).decode
_decode_held = msgspec.json.Decoder(_Held).decode
_decode = msgspec.json.Decoder().decode


class NamedEventReader:
    """A FrameReader of responses and messages: every event is the client's, as it came."""

    __slots__ = (
        "_endpoint",
        "_pieces",
        "_usage",
        "_words",
        "closing",
        "error",
        "has_content",
        "is_done",
    )

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._words = words = _WORDS[endpoint]
        self._usage: dict[str, object] = {}
        self._pieces = 0
        self.closing = words.closing
        self.has_content = False
        self.is_done = False
        self.error: bytes | None = None

    def pass_usual(self, block: bytes) -> bytes | None:
        return None

    def pass_on(self, block: bytes) -> bytes | None:
        for word in self._words.telling:
            if word in block:
                return None
        if b"\n:" in block or b"\n\n\n" in block or not block.startswith(_FIRST_BYTES):
            return None
        self._pieces += self._pieces_in(block)
        return block

    def read(self, payload: bytes) -> bytes:
        if payload == _MARK:
            return b""
        try:
            event = _decode_event(payload)
            held = _held_in(bytes(getattr(event, self._words.holder)))
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadFrame from error
        self._note_usage(held.usage)
        self._note_usage(event.usage)
        if event.type in self._words.failed or _is_said(event.error):
            found = (one for one in (event.error, held.error) if _is_said(one))
            self.error = bytes(next(found, payload))
            return b""
        self.has_content = self.has_content or event.type not in self._words.empty
        self.is_done = event.type in self._words.last
        self._pieces += self._pieces_in(b"event: %b\ndata: %b" % (event.type.encode(), payload))
        return payload

    def usage(self) -> Usage | None:
        """What was said; of an answer that broke off, its pieces at least."""
        usage = usage_of(self._endpoint, self._usage or None)
        return usage if self.is_done else at_least(usage, pieces=self._pieces)

    def has_finished(self, recent: Iterable[bytes]) -> bool:
        finished = self._words.finished
        return finished is not None and any(finished.search(block) for block in recent)

    def _pieces_in(self, block: bytes) -> int:
        pieces = block.count(self._words.piece)
        if pieces and self._words.no_piece is not None:
            pieces -= block.count(self._words.no_piece)
        return max(pieces, 0)

    def _note_usage(self, raw: msgspec.Raw) -> None:
        """Put together what several events say of one usage; what the later one says wins."""
        if _is_said(raw):
            member = _decode(raw)
            if isinstance(member, dict):
                self._usage |= {name: one for name, one in member.items() if one is not None}


def next_sequence_number(recent: bytes) -> int:
    """The number of an event of a response that follows these."""
    last = 0
    for last_found in _SEQUENCE_NUMBER.finditer(recent):
        last = int(last_found[1]) + 1
    return last


def _held_in(raw: bytes) -> _Held:
    """What an inner object says; an event may have a text under its name."""
    return _decode_held(raw) if raw.startswith(b"{") else _Held()


def _is_said(raw: msgspec.Raw) -> bool:
    return bytes(raw) not in (b"", b"null")
