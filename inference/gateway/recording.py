"""A stream's frames as its caller gets them, put together to the answer they tell."""

import asyncio
from typing import Any

import msgspec

from inference.contract.events import Usage
from inference.decisions.replaying.base import Document, Form, Shown

MAX_RECORDED_BYTES = 8 * 1024 * 1024
"""Frames take some forty times the bytes of what they say."""
_FRAMES_A_TURN = 64

UNREADABLE = (
    *(msgspec.MsgspecError, ValueError, RecursionError),
    *(LookupError, TypeError, AttributeError),
)
"""What decoders and forms raise of an answer like none that its dialect has."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_MARK = b"[DONE]"
_END = b"data: [DONE]\n\n"


class Recording:
    """What was passed on of one stream; beyond a bound it is none."""

    __slots__ = ("_closing", "_parts", "_size")

    def __init__(self) -> None:
        self._closing = b""
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, frames: bytes) -> None:
        """Take note of frames."""
        self._size += len(frames)
        if self._size <= MAX_RECORDED_BYTES:
            self._parts.append(frames)
        else:
            self._parts.clear()

    def close(self, closing: bytes) -> None:
        """Take note of the frames that end the stream."""
        self._closing = closing

    async def whole(self, form: Form, usage: Usage | None) -> Document | None:
        """The answer, or None if it isn't whole; others are served meanwhile.

        Raises one of UNREADABLE if it is like none that its dialect has.
        """
        if self._size > MAX_RECORDED_BYTES:
            return None
        events: list[Any] = []
        frames = b"".join((*self._parts, self._closing))
        for number, frame in enumerate(frames.split(b"\n\n"), start=1):
            if number % _FRAMES_A_TURN == 0:
                await asyncio.sleep(0)
            data = [line[5:] for line in frame.split(b"\n") if line.startswith(b"data:")]
            payload = b" ".join(data).strip()
            if payload and payload != _MARK:
                events.append(_decode(payload))
        return form.whole_of(events, usage)


def frames_of(form: Form, whole: Document, shown: Shown) -> bytes:
    """A stream that tells a whole answer."""
    events = form.events_of(whole, shown)
    if form.names_events:
        frames = [
            b"event: %b\ndata: %b\n\n" % (str(one["type"]).encode(), _encode(one)) for one in events
        ]
    else:
        frames = [b"data: %b\n\n" % _encode(one) for one in events]
    return b"".join((*frames, _END)) if form.ends_with_mark else b"".join(frames)
