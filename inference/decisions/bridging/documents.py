"""A request's document, read so that no member of it is passed over unseen.

Whoever reads an object takes each member it knows; what is left in the end is what nobody knows how
to carry over, and is refused by name. A member that is null counts as not given.
"""

from collections.abc import Mapping

import msgspec

NO_WORD = "cannot be carried over: the model behind this route speaks chat completions only"


class Untranslatable(Exception):
    """A request that chat has no words for, or that breaks its dialect's rules.

    `param` is the path of the member at fault, as the dialect's callers write it.
    """

    def __init__(self, param: str, problem: str) -> None:
        super().__init__(f"`{param}` {problem}.")
        self.param = param


class Node:
    """A JSON value and where it stands; `index` is how the dialect writes a place in a list."""

    __slots__ = ("index", "path", "value")

    def __init__(self, value: object, path: str, *, index: str) -> None:
        self.value = value
        self.path = path
        self.index = index

    def text(self) -> str:
        """Return what must be a string."""
        if not isinstance(self.value, str):
            raise self.wrong("must be a string")
        return self.value

    def flag(self) -> bool:
        """Return what must be true or false."""
        if not isinstance(self.value, bool):
            raise self.wrong("must be true or false")
        return self.value

    def items(self) -> "list[Node]":
        """Return the items of what must be a list."""
        if not isinstance(self.value, list):
            raise self.wrong("must be a list")
        return [
            Node(one, self.path + self.index.format(place), index=self.index)
            for place, one in enumerate(self.value)
        ]

    def texts(self) -> list[str]:
        """Return what must be a list of strings."""
        return [one.text() for one in self.items()]

    def fields(self) -> "Fields":
        """Return the members of what must be an object."""
        if not isinstance(self.value, dict):
            raise self.wrong("must be an object")
        return Fields(self.value, self.path, index=self.index)

    def wrong(self, problem: str) -> Untranslatable:
        """The refusal of this value."""
        return Untranslatable(self.path, problem)

    def refused(self, why: str = "") -> Untranslatable:
        """The refusal of a value that is right in the dialect, but can't be said in chat."""
        return Untranslatable(self.path, f"{NO_WORD}{why and f', {why}'}")


class Fields:
    """The members of an object, each to be taken once."""

    __slots__ = ("_index", "_left", "path")

    def __init__(self, value: Mapping[str, object], path: str, *, index: str) -> None:
        self._left = {name: one for name, one in value.items() if one is not None}
        self._index = index
        self.path = path

    def take(self, name: str) -> Node | None:
        """A member; None if it isn't given."""
        if name not in self._left:
            return None
        return Node(self._left.pop(name), self._path_of(name), index=self._index)

    def need(self, name: str) -> Node:
        """A member that must be given."""
        node = self.take(name)
        if node is None:
            raise Untranslatable(self._path_of(name), "must be given")
        return node

    def text(self, name: str) -> str | None:
        """A string; None if it isn't given."""
        node = self.take(name)
        return None if node is None else node.text()

    def pass_over(self, *names: str) -> None:
        """Leave out members that change nothing of what is answered."""
        for name in names:
            self._left.pop(name, None)

    def only_as(self, name: str, *usual: object) -> None:
        """Leave out a member that has a usual value; anything else is refused."""
        node = self.take(name)
        if node is not None and node.value not in usual:
            raise node.refused()

    def end(self) -> None:
        """Refuse what nobody took."""
        for name, value in self._left.items():
            raise Node(value, self._path_of(name), index=self._index).refused()

    def _path_of(self, name: str) -> str:
        return f"{self.path}.{name}" if self.path else name


def decoded(members: Mapping[str, msgspec.Raw], *, index: str) -> Fields:
    """The top level of a request's body.

    Raises Untranslatable for a member that can't be read: only its first byte was looked at so far.
    """
    document: dict[str, object] = {}
    for name, raw in members.items():
        try:
            document[name] = msgspec.json.decode(raw)
        except (msgspec.DecodeError, RecursionError) as error:
            raise Untranslatable(name, "cannot be read") from error
    return Fields(document, "", index=index)
