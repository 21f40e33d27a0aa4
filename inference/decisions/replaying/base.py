"""What is known of the neutral form of a dialect's answers."""

from collections.abc import Iterable
from typing import Any, Protocol

from inference.contract.events import Usage
from inference.contract.values import frozen

Document = dict[str, Any]

BAD_FINISHES = frozenset(("error", "content_filter"))
"""How answers end that nobody should get again."""


@frozen
class Shown:
    """What a stream's caller asked to see of its usage: at the end, and in each frame."""

    usage: bool = False
    frame_usage: bool = False


ALL_SHOWN = Shown(usage=True, frame_usage=True)


class Form(Protocol):
    """How answers of one dialect are put together and taken apart."""

    names_events: bool
    """Whether an event says on a line of its own what it is."""

    ends_with_mark: bool
    """Whether `[DONE]` ends a stream."""

    def whole_of(self, events: Iterable[Document], usage: Usage | None) -> Document | None:
        """The answer that these events of one stream tell; None if it isn't whole.

        `usage` is what was said of it, also where the caller was not shown it.
        """

    def events_of(self, whole: Document, shown: Shown) -> list[Document]:
        """A stream's events that tell this answer, in as few as a client understands."""

    def is_fit(self, whole: Document) -> bool:
        """Whether it ended as an answer should: with something in it, and not for a fault."""

    def is_cut(self, whole: Document) -> bool:
        """Whether it ended because it was as long as it was allowed to be."""

    def has_tool_calls(self, whole: Document) -> bool:
        """Whether the caller is to do something by it."""

    def text_of(self, whole: Document) -> str:
        """What it says, "" if that is no text."""
