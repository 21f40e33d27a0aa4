"""What every kind of channel promises."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.template.loader import get_template

from controlplane.decisions.deliveries import Failure


class Undelivered(Exception):
    """A message that didn't go out, and whether it may the next time."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.words)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Target:
    """Where a channel leads; secrets in clear, for the call alone."""

    recipients: Sequence[str] = ()
    url: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `id` is the same however often it is sent; `content` was fixed with it.

    `content` has `title`, `text`, `severity`, `url` (a path of the console), `facts` (pairs of a
    label and a value) and `alerts` (what it is about, as REST tells it).
    """

    id: str
    kind: str
    at: str
    content: Mapping[str, Any]
    console: str

    @property
    def url(self) -> str:
        return f"{self.console}{self.content.get('url', '/alerts/')}"


@dataclass(frozen=True, slots=True)
class ChannelType:
    """A kind of channel. `needs` are the fields it can't do without, `takes` all it has.

    `send` hands one message over and returns the receiver's status, if it has one, or raises
    Undelivered. `lacking` says what the installation must be given first, "" if nothing.
    """

    label: str
    needs: frozenset[str]
    takes: frozenset[str]
    send: Callable[[Target, Message], int | None]
    lacking: Callable[[], str] = lambda: ""


def rendered(name: str, message: Message) -> str:
    """A message by its template below `templates/alerts/`; autoescaped, unless it is text."""
    return get_template(f"alerts/{name}").render({"message": message, **message.content}).strip()
