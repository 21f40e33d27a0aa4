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
    """Where a channel leads; secrets in clear, for the call alone.

    `takes_acts` tells whether people may act on an alert where the message is shown.
    """

    recipients: Sequence[str] = ()
    url: str = field(default="", repr=False)
    secret: str = field(default="", repr=False)
    conversation: str = ""
    takes_acts: bool = False


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that went out: the receiver's status, and what it calls the message, "" if it
    doesn't say.

    `is_thread_lost` tells that the thread it was meant for is there no more.
    """

    status: int | None = None
    receipt: str = ""
    is_thread_lost: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """One message. `id` is the same however often it is sent; `content` was fixed with it.

    `content` has `title`, `text`, `severity`, `url` (a path of the console), `facts` (pairs of a
    label and a value) and `alerts` (what it is about, as REST tells it). `thread` is what the
    receiver calls the first message about the same alert, "" if there is none.
    """

    id: str
    kind: str
    at: str
    content: Mapping[str, Any]
    console: str
    thread: str = ""

    @property
    def url(self) -> str:
        return f"{self.console}{self.content.get('url', '/alerts/')}"


@dataclass(frozen=True, slots=True)
class ChannelType:
    """A kind of channel. `needs` are the fields it can't do without, `takes` all it has.

    `send` hands one message over, or raises Undelivered. `lacking` says what the installation must
    be given first, "" if nothing. A receiver that knows a repeat by its id `takes_repeats`; for
    others `find` tells whether a message is there already (None: it isn't), and without it nobody
    can find out. One with `threads` is told of what people did about an alert.
    """

    label: str
    needs: frozenset[str]
    takes: frozenset[str]
    send: Callable[[Target, Message], Sent]
    lacking: Callable[[], str] = lambda: ""
    takes_repeats: bool = False
    find: Callable[[Target, Message], Sent | None] | None = None
    threads: bool = False


def rendered(name: str, message: Message) -> str:
    """A message by its template below `templates/alerts/`; autoescaped, unless it is text."""
    return get_template(f"alerts/{name}").render({"message": message, **message.content}).strip()
