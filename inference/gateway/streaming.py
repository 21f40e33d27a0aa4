"""Server-sent events from a worker to a client: relayed by the frame, read as their endpoint does.

Frames are passed as they came unless something has to go: what their reader keeps back, comments
before the first content, events without data, and everything after the end or an error.
"""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from inference.contract.events import Usage

# One frame carries one step's tokens; a larger one is a worker gone mad or a whole file in one go.
MAX_FRAME_BYTES = 8 * 1024 * 1024


class BadFrame(Exception):
    """A frame that is no JSON object, or one without end."""


class FrameReader(Protocol):
    """What the frames of one stream say; one for each way of streaming, see `chunks` and `named`.

    `has_content` turns true with the first frame that a client can show, `is_done` with the one
    that ends the stream. `error` is what a frame carried in place of an answer, as JSON. `closing`
    is the end of a stream whose worker forgot it.
    """

    has_content: bool
    is_done: bool
    error: bytes | None
    closing: bytes

    def pass_usual(self, block: bytes) -> bytes | None:
        """The same of one whole frame that is like one before it; None if it isn't for sure."""

    def pass_on(self, block: bytes) -> bytes | None:
        """What the client gets of these whole frames, which come after content, at a glance.

        None if each has to be read.
        """

    def read(self, payload: bytes) -> bytes:
        """Take note of one frame's data and return what the client gets of it; b"" is nothing.

        Raises BadFrame.
        """

    def usage(self) -> Usage | None:
        """All that was said about usage, put together; None if nothing was."""

    def has_finished(self, recent: Iterable[bytes]) -> bool:
        """Whether the last frames say that the answer is whole, though nothing ended the stream."""


class StreamFilter:
    """Takes a worker's bytes, gives back the client's, and remembers what they said.

    `has_content` turns true with the first frame that a client can show, `is_done` at the end,
    which is not given back but kept in `closing`: it must be in the books first. `error` is what
    came in place of a frame, as JSON; nothing after it is given back.
    """

    __slots__ = (
        "_carry",
        "_held_cr",
        "_reader",
        "_recent",
        "closing",
        "error",
        "has_content",
        "is_done",
    )

    def __init__(self, reader: FrameReader) -> None:
        self.has_content = False
        self.is_done = False
        self.error: bytes | None = None
        self.closing = reader.closing
        self._reader = reader
        self._carry = b""
        self._held_cr = b""
        self._recent: deque[bytes] = deque(maxlen=4)

    def feed(self, data: bytes) -> bytes:
        """Return what of these bytes, and of those held back before, the client may have.

        Raises BadFrame.
        """
        is_whole = not (self._carry or self._held_cr)
        if is_whole and self.has_content:
            passed = self._reader.pass_usual(data)
            if passed is not None:
                self._recent.append(data)
                return passed
        if not is_whole or data.find(b"\r") >= 0 or not data.endswith(b"\n\n"):
            data = self._whole_frames(data)
            if not data:
                return b""
        self._recent.append(data)
        if self.has_content and (passed := self._reader.pass_on(data)) is not None:
            return passed
        return self._feed_frames(data)

    def end(self) -> bytes:
        """Take note that nothing more will come; the last event may lack its blank line."""
        self._held_cr = b""
        return self.feed(b"\n\n") if self._carry else b""

    def usage(self) -> Usage | None:
        """All that was said about usage, put together; None if nothing was."""
        return self._reader.usage()

    def has_finished(self) -> bool:
        """Whether the answer is whole, for workers that don't end their streams."""
        return self._reader.has_finished(self._recent)

    @property
    def was_ended(self) -> bool:
        """Whether the worker said itself that this is the end, as its dialect has it."""
        return self._reader.is_done

    @property
    def recent(self) -> bytes:
        """The last frames that came."""
        return b"".join(self._recent)

    def _whole_frames(self, data: bytes) -> bytes:
        """What is whole of these bytes and of those held back before; the rest is held back."""
        if self._held_cr or data.find(b"\r") >= 0:
            data = self._with_plain_line_ends(data)
        data = self._carry + data
        end = data.rfind(b"\n\n") + 2
        if end == 1:
            self._carry = data
            if len(data) > MAX_FRAME_BYTES:
                raise BadFrame
            return b""
        self._carry = data[end:]
        return data[:end]

    def _with_plain_line_ends(self, data: bytes) -> bytes:
        data = self._held_cr + data
        self._held_cr = b"\r" if data.endswith(b"\r") else b""
        if self._held_cr:
            data = data[:-1]  # its line feed may come with the next read
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _feed_frames(self, block: bytes) -> bytes:
        kept: list[bytes] = []
        for frame in block.split(b"\n\n"):
            if self.is_done or self.error is not None:
                break
            if frame := frame.strip(b"\n"):
                kept.append(self._frame(frame))
        return b"".join(kept)

    def _frame(self, frame: bytes) -> bytes:
        """One event, ready for the client, or b"" if it is not for it."""
        if not frame.startswith(b"data:") or b"\n" in frame:
            return self._event_of_lines(frame)
        return self._event(frame[5:].lstrip(b" "), fields=b"")

    def _event_of_lines(self, frame: bytes) -> bytes:
        """An event of several lines. Comments stay comments; events without data are dropped.

        A comment ends in one line feed: after two, some clients see an empty event.
        """
        lines = [line for line in frame.split(b"\n") if line]
        comments = [line + b"\n" for line in lines if line.startswith(b":")]
        fields = [line + b"\n" for line in lines if not line.startswith((b":", b"data:"))]
        data = [line[5:].lstrip(b" ") for line in lines if line.startswith(b"data:")]
        passed = b"".join(comments) if self.has_content else b""
        return passed + self._event(b" ".join(data), fields=b"".join(fields)) if data else passed

    def _event(self, payload: bytes, *, fields: bytes) -> bytes:
        reader = self._reader
        payload = reader.read(payload)
        event = b"%bdata: %b\n\n" % (fields, payload) if payload else b""
        self.has_content, self.error = reader.has_content, reader.error
        if not reader.is_done:
            return event
        self.is_done = True
        self.closing = event or self.closing
        return b""
