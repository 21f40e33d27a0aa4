"""OpenAI's chunks: streams of choices, whose usage is told at the end, or in every frame if asked.

The closing usage frame and the usage of other frames are for the gateway alone, unless the client
asked for them.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from inference.contract.events import Usage
from inference.decisions.cost import merge_usage, usage_from
from inference.gateway.streaming import BadFrame

DONE = b"data: [DONE]\n\n"
_MARK = b"[DONE]"

_LAST_MEMBER = b',"usage":{'
_USAGE_KEY = re.compile(rb'"usage"\s*:\s*')
_FINISHED = re.compile(rb'"finish_reason"\s*:\s*"')
_UNSAID = re.compile(rb'"(?:prompt|completion)_tokens"\s*:\s*null')
# Where a text begins, which no text can hold: in one the quotes would be escaped.
_TEXT = re.compile(rb'"(?:content|text|reasoning_content|reasoning|arguments)":"')
_CLOSING = re.compile(
    rb'(?:,"usage":(\{"prompt_tokens":\d+,(?:"total_tokens":\d+,)?"completion_tokens":\d+[^{}\n]*\}))?'
    rb"\}\n\n"
)
_NO_USAGE = b"}\n\n"
_DIGITS = b"0123456789"
_MAX_SHAPES = 16
_NO_CONTENT = frozenset(("role", "index"))


class _Frame(msgspec.Struct):
    usage: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")
    choices: msgspec.Raw = msgspec.Raw(b"")


_decode_frame = msgspec.json.Decoder(_Frame).decode
_decode = msgspec.json.Decoder().decode


class ChunkReader:
    """A FrameReader of chat and completions.

    `shows_usage`: the client asked for the closing usage. `shows_frame_usage`: it may see the usage
    member of frames that carry choices. `choices_each`: such a usage is of its choice alone, and so
    many choices belong to each prompt; None if it is of all.
    """

    __slots__ = (
        "_after_length",
        "_after_text",
        "_before_text",
        "_by_choice",
        "_closing_shape",
        "_is_usage_hidden",
        "_merged_usage",
        "_shapes_left",
        "_text_at",
        "_whole_usage",
        "choices_each",
        "closing",
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
        self.closing = DONE
        self._is_usage_hidden = choices_each is None and not shows_frame_usage
        self._whole_usage = b""
        self._merged_usage: Usage | None = None
        self._by_choice: dict[int, Usage] = {}
        self._before_text = b"\n"  # no frame begins so
        self._after_text = self._closing_shape = b""
        self._text_at = self._after_length = 0
        self._shapes_left = _MAX_SHAPES if choices_each is None else 0

    def pass_usual(self, block: bytes) -> bytes | None:
        if not block.startswith(self._before_text):
            return None
        start = self._text_at
        at = block.find(b'"', start)
        if not block.startswith(self._after_text, at):
            return None
        at += self._after_length
        closing = block[at:]
        if closing.translate(None, _DIGITS) != self._closing_shape and closing != _NO_USAGE:
            return None
        if block.find(b"\n", start, at) >= 0 or block.find(b"\r", start, at) >= 0:
            return None
        if closing == _NO_USAGE:
            return block
        self._whole_usage, self._merged_usage = closing[len(_LAST_MEMBER) - 1 : -3], None
        return block if self.shows_frame_usage else block[:at] + _NO_USAGE

    def pass_on(self, block: bytes) -> bytes | None:
        if block.startswith(self._before_text) and (passed := self._pass_several(block)):
            return passed
        if self._shapes_left:
            self._shapes_left -= 1
            self._learn(block[: block.find(b"\n\n") + 2])
        return self._pass_other(block)

    def _pass_several(self, block: bytes) -> bytes:
        """The same of several frames; b"" if one is unlike the others."""
        before, after = self._before_text, self._after_text
        parts: list[bytes] = []
        usage: bytes | None = None
        start = 0
        while start < len(block):
            at = block.find(b'"', start + len(before))
            if not (block.startswith(before, start) and block.startswith(after, at)):
                return b""
            at += len(after)
            closing = _CLOSING.match(block, at)
            if closing is None or block.find(b"\n", start) != closing.end() - 2:
                return b""
            usage = closing[1] or usage
            parts.append(block[start:at])
            start = closing.end()
        if usage is None:
            return block
        self._whole_usage, self._merged_usage = usage, None
        return block if self.shows_frame_usage else b"}\n\n".join((*parts, b""))

    def _pass_other(self, block: bytes) -> bytes | None:
        """What may pass of frames that are unlike those before."""
        if _has(block, b'"error"'):
            return None
        if not _has(block, b'"usage"'):
            is_plain = not (_has(block, _MARK) or _has(block, b"\n:") or _has(block, b"\n\n\n"))
            return block if is_plain and block.startswith(b"data:") else None
        frames = block.split(b"\n\n")
        if not self._is_usage_hidden or block.count(b"\n") != 2 * len(frames) - 2:
            return None
        rests: list[bytes] = []
        for frame in frames[:-1]:
            rest = self._without_closing_usage(frame) if frame.startswith(b"data: {") else b""
            if not rest:
                return None
            rests.append(rest)
        return b"\n\n".join((*rests, b""))

    def _learn(self, block: bytes) -> None:
        """Take what surrounds the text of this frame as the shape of those to come.

        Whatever has it, and no quote in its text, is no error and has one usage at most, its last
        member.
        """
        text, at = _TEXT.search(block), block.rfind(_LAST_MEMBER)
        usages = block.count(b'"usage"')
        if at < 0:
            at = len(block) - 3
        if (
            text is not None
            and block.startswith(b"data: {")
            and block.find(b"\n") == len(block) - 2
            and _CLOSING.fullmatch(block, at)
            and usages == block.count(b'"usage"', at)
            and not _has(block, b'"error"')
            and _has(block, b'"choices":[{')
        ):
            self._before_text = block[: text.end()]
            self._after_text = block[block.find(b'"', text.end()) : at]
            self._closing_shape = block[at:].translate(None, _DIGITS)
            self._text_at, self._after_length = text.end(), len(self._after_text)

    def usage(self) -> Usage | None:
        if self._whole_usage:
            return usage_from_raw(self._whole_usage)
        if self.choices_each is not None and self._by_choice:
            return sum_choices(self._by_choice, choices_each=self.choices_each)
        return self._merged_usage

    def has_finished(self, recent: Iterable[bytes]) -> bool:
        return any(_FINISHED.search(block) for block in recent)

    def read(self, payload: bytes) -> bytes:
        if payload == _MARK:
            self.is_done = True
            return payload
        if self.has_content and b'"error"' not in payload:
            if self._is_usage_hidden and (rest := self._without_closing_usage(payload)):
                return rest
            if b'"usage"' not in payload:
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

    def _without_closing_usage(self, frame: bytes) -> bytes:
        """The usual frame, without the usage that it closes with, by its place; else b"".

        Nothing but the frame's own brace follows it, so it is the frame's own member. Inside a text
        its quotes would be escaped.
        """
        at, end = frame.rfind(_LAST_MEMBER), len(frame) - 2
        if at < 0 or frame.find(b"}", at) != end or not frame.endswith(b"}}"):
            return b""
        usage = frame[at + len(_LAST_MEMBER) - 1 : -1]
        is_only_one = frame.find(b'"usage"', 0, at) < 0
        if not (is_only_one and _is_whole(usage) and _has(frame, b'"choices":[{')):
            return b""
        self._whole_usage, self._merged_usage = usage, None
        return frame[:at] + b"}"

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
        if _is_whole(raw):
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


def _has(text: bytes, part: bytes) -> bool:
    """`part in text` in half of the time: that tries to make a number of the part first."""
    return text.find(part) >= 0


def _is_whole(usage: bytes) -> bool:
    """Whether a usage says both counts, as far as a look at it shows."""
    has_both = _has(usage, b'"prompt_tokens"') and _has(usage, b'"completion_tokens"')
    return has_both and not (_has(usage, b"null") and _UNSAID.search(usage))


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


def _cut(payload: bytes, start: int, end: int) -> bytes:
    before, after = payload[:start].rstrip(), payload[end:].lstrip()
    if before.endswith(b","):
        before = before[:-1]
    elif after.startswith(b","):
        after = after[1:]
    return before + after
