"""Answers that are never streamed: vectors, scores and orders."""

from collections.abc import Iterable

from inference.contract.events import Usage
from inference.decisions.replaying.base import Document, Shown


class ReadingForm:
    """Of embeddings, rerank and score."""

    names_events = False
    ends_with_mark = False

    def whole_of(self, events: Iterable[Document], usage: Usage | None) -> Document | None:
        return None

    def events_of(self, whole: Document, shown: Shown) -> list[Document]:
        return []

    def is_fit(self, whole: Document) -> bool:
        return bool(whole.get("data") or whole.get("results"))

    def is_cut(self, whole: Document) -> bool:
        return False

    def has_tool_calls(self, whole: Document) -> bool:
        return False

    def text_of(self, whole: Document) -> str:
        return ""
