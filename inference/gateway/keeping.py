"""The fresh answer of a request with caching: kept if it may be, compared if that was drawn."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from inference.caches.base import Entry
from inference.decisions.replaying.base import Document
from inference.decisions.replaying.registry import FORMS
from inference.gateway.attempts import Attempt
from inference.gateway.cached import Caching
from inference.gateway.recording import UNREADABLE, Recording
from inference.gateway.streaming import StreamFilter
from inference.gateway.vectors import complete_vectors

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange

COMPARE_S = 0.25
"""What a comparison may hold up the end of an answer; later it isn't known whether they agree."""

_decode: Any = msgspec.json.Decoder().decode


async def keep_whole(
    exchange: "Exchange", caching: Caching, attempt: Attempt, body: bytes
) -> bytes:
    """Keep an answer that came whole; what the caller gets of it is returned."""
    if caching.vectors is not None:
        return complete_vectors(exchange, caching, attempt, body)
    if not caching.may_keep and caching.compared is None:
        return body
    entry: Entry | None = None
    with _read(exchange):
        whole: Document = _decode(body)
        if caching.compared is not None:
            await _compare(caching, whole)
        entry = caching.make_entry(exchange, attempt, whole, body)
    caching.keep(exchange, attempt, entry)
    return body


def begin_recording(caching: Caching, data: bytes) -> Recording | None:
    """What takes note of a stream's frames, of which these came first; None if nobody will ask."""
    if not caching.may_keep and caching.compared is None:
        return None
    caching.recording = recording = Recording()
    recording.add(data)
    return recording


async def compare_stream(
    exchange: "Exchange", caching: Caching, attempt: Attempt, stream: StreamFilter
) -> None:
    """Compare what a stream has told with the answer that would have been served."""
    with _read(exchange):
        whole = await _whole_of(caching, attempt, stream)
        if whole is not None:
            await _compare(caching, whole)


async def keep_stream(
    exchange: "Exchange", caching: Caching, attempt: Attempt, stream: StreamFilter
) -> None:
    """Keep the answer that a stream has told, once its caller has all of it."""
    entry: Entry | None = None
    with _read(exchange):
        whole = await _whole_of(caching, attempt, stream)
        entry = None if whole is None else caching.make_entry(exchange, attempt, whole)
    caching.keep(exchange, attempt, entry)


@contextmanager
def _read(exchange: "Exchange") -> Iterator[None]:
    """Where an answer is read that may be like none that its dialect has: its caller gets it as it
    came, and it is only counted.
    """
    try:
        yield
    except UNREADABLE:
        exchange.services.metrics.caches.unreadable()


async def _whole_of(caching: Caching, attempt: Attempt, stream: StreamFilter) -> Document | None:
    """The answer, if the stream came to an end that its worker meant."""
    recording = caching.recording
    if recording is None or not stream.was_ended:
        return None
    recording.close(stream.closing)
    usage = None if attempt.charge is None else attempt.charge.usage
    return await recording.whole(FORMS[caching.place.endpoint], usage)


async def _compare(caching: Caching, whole: Document) -> None:
    """Find out whether the fresh answer says what the kept one does."""
    compared = caching.compared
    assert compared is not None
    form = FORMS[caching.place.endpoint]
    kept = form.text_of(_decode(compared.body))
    if not form.is_fit(whole):
        return
    try:
        async with asyncio.timeout(COMPARE_S):
            agreed = await caching.caches.semantic.agree(kept, form.text_of(whole))
    except TimeoutError:
        agreed = None
    caching.note_agreement(agreed)
