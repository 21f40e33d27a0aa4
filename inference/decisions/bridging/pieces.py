"""What chat answers, in pieces: the same ones whether it came whole or chunk by chunk."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from inference.contract.events import Usage
from inference.contract.values import frozen
from inference.decisions.cost import usage_from

MOST_KEPT = 8 * 1024 * 1024
"""Characters of a streamed answer that are kept to be told again: as an event may have bytes."""

_CALL_CHARS = 300
"""What each call counts for beside its texts, which is about what it takes."""


class Unreadable(Exception):
    """An answer that isn't one of chat's."""


@dataclass(slots=True)
class Room:
    """For how many characters more of an answer there is room.

    Once something had none, nothing after it has: what is kept is a beginning.
    """

    left: float = MOST_KEPT

    @property
    def is_over(self) -> bool:
        return self.left < 0

    def takes(self, size: int) -> bool:
        """Whether so much more is kept."""
        if self.left >= 0:
            self.left -= size
        return self.left >= 0


@frozen
class Head:
    """What an answer says of itself. `id` is ours and bare; `at` is seconds since the epoch."""

    id: str
    model: str
    at: int
    service_tier: str | None = None


@frozen
class Thought:
    """Reasoning."""

    text: str


@frozen
class Text:
    """What the answer says."""

    text: str


@frozen
class Refusal:
    """What it says in place of an answer."""

    text: str


@frozen
class Call:
    """A tool is called; `place` tells it from the answer's other calls."""

    place: int
    id: str
    name: str


@frozen
class Arguments:
    """More of a call's arguments: JSON, in the end."""

    place: int
    text: str


Piece = Thought | Text | Refusal | Call | Arguments


@frozen
class Ending:
    """Why an answer ended, in chat's word; `stopped_by` is the stop sequence if it was told."""

    finish: str | None = None
    stopped_by: str | None = None


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | dict[str, object] | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Words(msgspec.Struct):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    message: _Words | None = None
    delta: _Words | None = None
    finish_reason: str | None = None
    stop_reason: object = None


class Answer(msgspec.Struct):
    """A completion or a chunk of one, as far as it is told."""

    model: object = None
    created: object = None
    service_tier: object = None
    choices: list[_Choice] | None = None
    usage: dict[str, object] | None = None


_decode = msgspec.json.Decoder(Answer).decode


def read_answer(payload: bytes) -> Answer:
    """Read a completion or a chunk; raises Unreadable."""
    try:
        return _decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Unreadable from error


def head_of(answer: Answer, *, answer_id: str, at: int) -> Head:
    """What an answer says of itself; `at` is when it was asked for, if it doesn't say."""
    created = int(answer.created) if isinstance(answer.created, int | float) else at
    tier = answer.service_tier if isinstance(answer.service_tier, str) else None
    return Head(answer_id, str(answer.model or ""), created, tier)


def usage_in(answer: Answer) -> Usage | None:
    """What an answer says of its usage so far."""
    return None if answer.usage is None else usage_from(answer.usage)


@dataclass(slots=True)
class _Begun:
    """A call of which something came; its arguments wait until it has a name."""

    id: str
    is_told: bool = False
    waiting: list[str] = field(default_factory=list)


class Pieces:
    """Takes an answer apart. Of several choices the first alone is the answer.

    `answer_id` makes ids of calls that have none.
    """

    def __init__(self, answer_id: str) -> None:
        self._answer_id = answer_id
        self._calls: dict[int, _Begun] = {}
        self._last = -1
        self._room = Room()
        self.ending = Ending()

    def of(self, answer: Answer) -> list[Piece]:
        """The pieces in a completion or in the next chunk of one."""
        found: list[Piece] = []
        for choice in answer.choices or ():
            if choice.index != 0:
                continue
            words = choice.delta or choice.message
            if words is not None:
                found += self._of_words(words)
            if choice.finish_reason is not None:
                said = choice.stop_reason
                self.ending = Ending(
                    choice.finish_reason, said if isinstance(said, str) else self.ending.stopped_by
                )
        return found

    def end(self) -> None:
        """Raise Unreadable if a call never got its name."""
        if not all(begun.is_told for begun in self._calls.values()):
            raise Unreadable

    def _of_words(self, words: _Words) -> list[Piece]:
        found: list[Piece] = []
        if thought := words.reasoning_content or words.reasoning:
            found.append(Thought(thought))
        if words.content:
            found.append(Text(words.content))
        if words.refusal:
            found.append(Refusal(words.refusal))
        for call in words.tool_calls or ():
            found += self._of_call(call)
        return found

    def _of_call(self, call: _Call) -> list[Piece]:
        place = self._place_of(call)
        begun = self._calls.get(place)
        if begun is None:
            made = call.id or f"call_{self._answer_id}_{place}"
            begun = self._calls[place] = _Begun(made)
            self._keep(_CALL_CHARS + len(made))
        self._last = place
        function = call.function or _Function()
        text = _text_of(function.arguments)
        found: list[Piece] = []
        if not begun.is_told:
            begun.waiting.append(text)
            if not function.name:
                self._keep(_CALL_CHARS + len(text))
                return []
            begun.is_told = True
            found.append(Call(place, begun.id, function.name))
            text = "".join(begun.waiting)
            begun.waiting.clear()
        if text:
            found.append(Arguments(place, text))
        return found

    def _keep(self, size: int) -> None:
        """Raise Unreadable if calls take more than there is room for, which is no answer's."""
        if not self._room.takes(size):
            raise Unreadable

    def _place_of(self, call: _Call) -> int:
        """Its index; servers that have none give an id with the first part of a call alone."""
        if call.index is not None:
            return call.index
        is_further = call.id is None and not (call.function and call.function.name)
        if is_further and self._last >= 0:
            return self._last
        known = [place for place, begun in self._calls.items() if begun.id == call.id]
        return known[0] if known else len(self._calls)


@frozen
class Whole:
    """A whole completion, taken apart."""

    head: Head
    pieces: Sequence[Piece]
    ending: Ending
    usage: Usage | None = None


def read_whole(body: bytes, *, answer_id: str, at: int) -> Whole:
    """Take a whole completion apart; raises Unreadable."""
    answer = read_answer(body)
    taken = Pieces(answer_id)
    pieces = taken.of(answer)
    taken.end()
    head = head_of(answer, answer_id=answer_id, at=at)
    return Whole(head, pieces, taken.ending, usage_in(answer))


def is_whole(arguments: str) -> bool:
    """Whether a call's arguments are all there."""
    if not arguments.lstrip().startswith("{"):
        return False
    try:
        msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _text_of(arguments: str | dict[str, object] | None) -> str:
    """Arguments as a text; some servers give an object."""
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return msgspec.json.encode(arguments).decode()
