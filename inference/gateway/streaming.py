"""Server-sent events from a worker to a client: relayed by the frame, usage found on the way.

Frames are passed as they came unless something has to go: the closing usage frame and the usage
member of other frames if the client didn't ask for them, comments before the first content, events
without data, and everything after `[DONE]` or an error.
"""

import re
from collections import deque
from collections.abc import Mapping

import msgspec

from inference.contract.events import Usage
from inference.decisions.cost import merge_usage, usage_from

DONE = b"data: [DONE]\n\n"

# One frame carries one step's tokens; a larger one is a worker gone mad or a whole file in one go.
MAX_FRAME_BYTES = 8 * 1024 * 1024

_USAGE_KEY = re.compile(rb'"usage"\s*:\s*')
_FINISHED = re.compile(rb'"finish_reason"\s*:\s*"')
_UNSAID = re.compile(rb'"(?:prompt|completion)_tokens"\s*:\s*null')
_NO_CONTENT = frozenset(("role", "index"))


class BadFrame(Exception):
    """A frame that is no JSON object, or one without end."""


class _Frame(msgspec.Struct):
    usage: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")
    choices: msgspec.Raw = msgspec.Raw(b"")


_decode_frame = msgspec.json.Decoder(_Frame).decode
_decode = msgspec.json.Decoder().decode


class StreamFilter:
    """Takes a worker's bytes, gives back the client's, and remembers what they said.

    `shows_usage`: the client asked for the closing usage. `shows_frame_usage`: it may see the usage
    member of frames that carry choices. `choices_each`: such a usage is of its choice alone, and so
    many choices belong to each prompt; None if it is of all.

    `has_content` turns true with the first frame that a client can show, `is_done` at `[DONE]`
    (which is not given back: the end must be in the books first). `error` is the `error` member of
    a frame, as JSON; nothing after it is given back.
    """

    __slots__ = (
        "_by_choice",
        "_carry",
        "_held_cr",
        "_merged_usage",
        "_recent",
        "_whole_usage",
        "choices_each",
        "error",
        "has_content",
        "is_done",
        "shows_frame_usage",
        "shows_usage",
    )

    def __init__(
        self, *, shows_usage: bool, shows_frame_usage: bool, choices_each: int | None = None
    ) -> None:
        self.shows_usage = shows_usage
        self.shows_frame_usage = shows_frame_usage
        self.choices_each = choices_each
        self.has_content = False
        self.is_done = False
        self.error: bytes | None = None
        self._carry = b""
        self._held_cr = b""
        self._recent: deque[bytes] = deque(maxlen=4)
        self._whole_usage = b""
        self._merged_usage: Usage | None = None
        self._by_choice: dict[int, Usage] = {}

    def feed(self, data: bytes) -> bytes:
        """Return what of these bytes, and of those held back before, the client may have.

        Raises BadFrame.
        """
        if self._held_cr or b"\r" in data:
            data = self._with_plain_line_ends(data)
        if self._carry:
            data = self._carry + data
        end = data.rfind(b"\n\n") + 2
        if end == 1:
            self._carry = data
            if len(data) > MAX_FRAME_BYTES:
                raise BadFrame
            return b""
        self._carry = data[end:]
        block = data if end == len(data) else data[:end]
        self._recent.append(block)
        if self.has_content and not _is_notable(block):
            return block
        return self._feed_frames(block)

    def end(self) -> bytes:
        """Take note that nothing more will come; the last event may lack its blank line."""
        self._held_cr = b""
        return self.feed(b"\n\n") if self._carry else b""

    def usage(self) -> Usage | None:
        """All that was said about usage, put together; None if nothing was."""
        if self._whole_usage:
            return usage_from_raw(self._whole_usage)
        if self.choices_each is not None and self._by_choice:
            return sum_choices(self._by_choice, choices_each=self.choices_each)
        return self._merged_usage

    def has_finished(self) -> bool:
        """Whether the last frames gave a reason to finish, for workers that send no `[DONE]`."""
        return any(_FINISHED.search(block) for block in self._recent)

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
            kept.append(self._frame(frame.strip(b"\n")))
        return b"".join(kept)

    def _frame(self, frame: bytes) -> bytes:
        """One event, ready for the client, or b"" if it is not for it."""
        if not frame.startswith(b"data:") or b"\n" in frame:
            return self._unusual_frame(frame)
        payload = frame[5:].lstrip(b" ")
        if payload == b"[DONE]":
            self.is_done = True
            return b""
        payload = self._payload(payload)
        return b"data: %b\n\n" % payload if payload else b""

    def _unusual_frame(self, frame: bytes) -> bytes:
        """An event of several lines. Comments stay comments; events without data are dropped.

        A comment ends in one line feed: after two, some clients see an empty event.
        """
        lines = [line for line in frame.split(b"\n") if line]
        comments = [line + b"\n" for line in lines if line.startswith(b":")]
        fields = [line for line in lines if not line.startswith((b":", b"data:"))]
        data = [line[5:].lstrip(b" ") for line in lines if line.startswith(b"data:")]
        passed = b"".join(comments) if self.has_content else b""
        event = self._frame(b"data: " + b" ".join(data)) if data else b""
        if event and fields:
            event = b"\n".join((*fields, event))
        return passed + event

    def _payload(self, payload: bytes) -> bytes:
        """What the client gets of one frame's JSON; b"" is nothing."""
        if self.has_content and b'"usage"' not in payload and b'"error"' not in payload:
            return payload
        try:
            frame = _decode_frame(payload)
        except (msgspec.DecodeError, RecursionError) as error:
            raise BadFrame from error
        error_member = bytes(frame.error)
        if error_member not in (b"", b"null"):
            self.error = error_member
            return b""
        choices = bytes(frame.choices)
        if not self.has_content:
            self.has_content = has_content(choices)
        usage = bytes(frame.usage)
        return self._with_usage_as_asked(payload, usage, choices) if usage else payload

    def _with_usage_as_asked(self, payload: bytes, usage: bytes, choices: bytes) -> bytes:
        if usage == b"null":
            return payload if self.shows_usage else without_usage(payload, usage)
        if not choices.strip(b"[] \t\r\n"):
            self._note_usage(usage)
            return payload if self.shows_usage else b""
        if self.choices_each is None:
            self._note_usage(usage)
        else:
            self._note_usage_of_choice(usage, choices)
        return payload if self.shows_frame_usage else without_usage(payload, usage)

    def _note_usage(self, raw: bytes) -> None:
        """Keep the last usage that says all; parts of one are put together as they come."""
        if b'"prompt_tokens"' in raw and b'"completion_tokens"' in raw and not _UNSAID.search(raw):
            self._whole_usage, self._merged_usage = raw, None
            return
        part, so_far = usage_from_raw(raw), self.usage()
        if part is not None:
            self._merged_usage = part if so_far is None else merge_usage(so_far, part)
            self._whole_usage = b""

    def _note_usage_of_choice(self, raw: bytes, choices: bytes) -> None:
        usage = usage_from_raw(raw)
        for choice in _list_of(choices):
            index = choice.get("index") if isinstance(choice, dict) else None
            if usage is not None and isinstance(index, int):
                self._by_choice[index] = usage


def sum_choices(usages: Mapping[int, Usage], *, choices_each: int) -> Usage:
    """What several choices used, so many of each prompt in turn; a prompt is counted once."""
    prompts = {index // choices_each: usage.prompt_tokens or 0 for index, usage in usages.items()}
    return Usage(
        prompt_tokens=sum(prompts.values()),
        completion_tokens=sum(usage.completion_tokens or 0 for usage in usages.values()),
    )


def usage_from_raw(raw: bytes) -> Usage | None:
    """Read a usage object; None if it is none."""
    try:
        member = _decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return None
    return usage_from(member) if isinstance(member, dict) else None


def without_usage(payload: bytes, usage: bytes) -> bytes:
    """Cut the top-level member `usage`, whose value is `usage`, out of a JSON object."""
    spots = [spot for spot in _USAGE_KEY.finditer(payload) if payload.startswith(usage, spot.end())]
    for spot in reversed(spots):
        rest = _cut(payload, spot.start(), spot.end() + len(usage))
        if len(spots) == 1 or not bytes(_decode_frame(rest).usage):
            return rest
    return payload


def has_content(choices: bytes) -> bool:
    """Whether a frame's choices hold anything to show: any part of a delta but its role.

    A completion's choice has no delta; there it is any part but its index.
    """
    return any(_is_shown(choice) for choice in _list_of(choices))


def _is_shown(choice: object) -> bool:
    if not isinstance(choice, dict):
        return True
    delta = choice.get("delta", choice)
    if choice.get("finish_reason") is not None or not isinstance(delta, dict):
        return True
    return any(value for name, value in delta.items() if name not in _NO_CONTENT)


def _list_of(choices: bytes) -> list[object]:
    parsed = _decode(choices) if choices else []
    return parsed if isinstance(parsed, list) else []


def _is_notable(block: bytes) -> bool:
    """Whether a block holds more than data frames that may pass as they are."""
    return (
        b'"usage"' in block
        or b'"error"' in block
        or b"[DONE]" in block
        or b"\n:" in block
        or b"\n\n\n" in block
        or not block.startswith(b"data:")
    )


def _cut(payload: bytes, start: int, end: int) -> bytes:
    before, after = payload[:start].rstrip(), payload[end:].lstrip()
    if before.endswith(b","):
        before = before[:-1]
    elif after.startswith(b","):
        after = after[1:]
    return before + after
