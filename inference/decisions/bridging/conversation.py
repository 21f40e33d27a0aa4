"""A conversation in chat's messages, built turn by turn in the one order that chat allows.

Tool calls of an assistant's turn are followed by their results, each once and all of them, before
anything else is said. Whatever breaks that is refused where it stands.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inference.decisions.bridging.documents import Node, Untranslatable

Part = Mapping[str, object]


@dataclass(slots=True)
class _Turn:
    """What an assistant said and called in one go. Chat has no order between the two."""

    parts: list[Part] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[Part] = field(default_factory=list)


class Conversation:
    """Chat's messages. `reasoning` is the member in which the server knows earlier thoughts."""

    def __init__(self, *, reasoning: str) -> None:
        self._reasoning = reasoning
        self._messages: list[Mapping[str, object]] = []
        self._turn: _Turn | None = None
        self._due: dict[str, Node] = {}

    def say(self, role: str, parts: Sequence[Part], at: Node) -> None:
        """Add what the system or the user says."""
        self._leave_turn(at)
        self._messages.append({"role": role, "content": content_of(parts)})

    def begin_turn(self, at: Node) -> None:
        """Begin a turn of the assistant's of its own, whatever came before."""
        self._leave_turn(at)
        self._turn = _Turn()

    def answer(self, parts: Sequence[Part], at: Node) -> None:
        """Add what the assistant says; to the turn under way, unless it has said something."""
        turn = self._turn
        if turn is None or (turn.parts and not turn.calls):
            self._leave_turn(at)
            turn = self._turn = _Turn()
        turn.parts += parts

    def add_to_turn(self, part: Part) -> None:
        """Add a part of what the assistant says in the turn that was begun."""
        assert self._turn is not None
        self._turn.parts.append(part)

    def think(self, text: str, at: Node) -> None:
        """Add what the assistant thought before it went on."""
        turn = self._turn
        if turn is None or (turn.parts and not turn.calls):
            self._leave_turn(at)
            turn = self._turn = _Turn()
        turn.thoughts.append(text)

    def call(self, call_id: Node, name: str, arguments: str) -> None:
        """Add a call of a tool; chat has the arguments as a text."""
        if self._turn is None:
            self._leave_turn(call_id)
            self._turn = _Turn()
        known = call_id.text()
        if known in self._due:
            raise call_id.wrong("is the id of another tool call of the same turn")
        self._due[known] = call_id
        function = {"name": name, "arguments": arguments}
        self._turn.calls.append({"id": known, "type": "function", "function": function})

    def result(self, call_id: Node, parts: Sequence[Part]) -> None:
        """Add the result of a call of the turn before."""
        known = call_id.text()
        if known not in self._due:
            raise call_id.wrong("names no tool call of the turn before it that has no result yet")
        self._end_turn()
        del self._due[known]
        told = {"role": "tool", "tool_call_id": known, "content": content_of(parts)}
        self._messages.append(told)

    def end(self) -> list[Mapping[str, object]]:
        """All messages."""
        for call_id in self._due.values():
            raise call_id.wrong("has no result: each tool call must be followed by one")
        self._end_turn()
        return self._messages

    def _leave_turn(self, at: Node) -> None:
        if self._due:
            missing = ", ".join(self._due)
            raise Untranslatable(
                at.path, f"comes before the results of the tool calls {missing}, which must be next"
            )
        self._end_turn()

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        content = content_of(turn.parts) if turn.parts or not turn.calls else None
        message: dict[str, object] = {"role": "assistant", "content": content}
        if turn.thoughts:
            message[self._reasoning] = "\n\n".join(turn.thoughts)
        if turn.calls:
            message["tool_calls"] = turn.calls
        self._messages.append(message)


def text_part(text: str) -> Part:
    """A part that is text."""
    return {"type": "text", "text": text}


def content_of(parts: Sequence[Part]) -> str | Sequence[Part]:
    """The content of a message: one text alone as such, for servers that know no parts."""
    if not parts:
        return ""
    only = parts[0]
    if len(parts) == 1 and only["type"] == "text":
        return str(only["text"])
    return parts
