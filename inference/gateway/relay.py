"""From a worker's answer to the client's: a whole one, or a stream of events."""

import msgspec

from inference.contract.kinds import Outcome
from inference.decisions.cost import usage_from
from inference.errors import UpstreamBadAnswer, UpstreamClosed
from inference.gateway.attempts import Attempt
from inference.gateway.downstream import respond
from inference.gateway.exchange import Exchange
from inference.gateway.failures import failure_of_error_member
from inference.gateway.headers import EVENT_STREAM, answer_headers, stream_headers
from inference.gateway.schemas import ChatRequest
from inference.gateway.streaming import DONE, BadFrame, StreamFilter
from inference.workers.answers import Answer
from inference.workers.base import BackendTraits

# Frames without content are held back this long, so that a worker that fails in time fails unseen.
HOLD_S = 1.0
MAX_HELD_BYTES = 256 * 1024

# Whole answers are held in memory until their end is in the books.
MAX_ANSWER_BYTES = 64 * 1024 * 1024

_OK = 200


class _Whole(msgspec.Struct):
    usage: object = None
    choices: list[msgspec.Raw] | None = None
    error: msgspec.Raw = msgspec.Raw(b"")


_decode_whole = msgspec.json.Decoder(_Whole).decode


async def relay_whole(exchange: Exchange, attempt: Attempt, answer: Answer) -> None:
    """Pass on an answer that is one JSON object, or raise UpstreamError."""
    body = await answer.read_all(MAX_ANSWER_BYTES)
    whole = _parsed(body, attempt)
    if isinstance(whole.usage, dict):
        attempt.usage = usage_from(whole.usage)
    if not whole.choices:
        raise UpstreamBadAnswer
    attempt.end(exchange.services.stopwatch())
    await exchange.close(Outcome.OK, http_status=_OK)
    headers = answer_headers(exchange.event_id, content_length=len(body))
    await respond(exchange.downstream, _OK, headers + exchange.debug_headers(), body)


async def relay_stream(
    exchange: Exchange,
    attempt: Attempt,
    answer: Answer,
    *,
    request: ChatRequest,
    traits: BackendTraits,
) -> None:
    """Pass on a stream of events, or raise UpstreamError.

    Nothing is sent before there is content, for as long as `HOLD_S`; the last bytes are sent after
    the end is in the books.
    """
    if not answer.content_type.startswith(EVENT_STREAM):
        _parsed(await answer.read_all(MAX_ANSWER_BYTES), attempt)
        raise UpstreamBadAnswer
    attempt.stream = stream = _filter_for(request, traits)
    data = await _held_frames(exchange, attempt, answer, stream)
    await exchange.downstream.start(
        _OK, stream_headers(exchange.event_id) + exchange.debug_headers()
    )
    while not stream.is_done:
        await exchange.downstream.write(data)
        data = await _next_frames(answer, stream) or b""
        if stream.has_content:
            exchange.note_first_token(attempt)
        if stream.error is not None:
            await exchange.downstream.write(data)
        _check(stream, attempt)
    attempt.end(exchange.services.stopwatch())
    await exchange.close(Outcome.OK, http_status=_OK)
    await exchange.downstream.end(data + DONE)


async def _held_frames(
    exchange: Exchange, attempt: Attempt, answer: Answer, stream: StreamFilter
) -> bytes:
    """Everything up to the first content, or what came within `HOLD_S` of the first frame."""
    held: list[bytes] = []
    size = 0
    due_s: float | None = None
    while not stream.has_content and size <= MAX_HELD_BYTES:
        wait_s = None if due_s is None else max(due_s - exchange.services.stopwatch(), 0.0)
        frames = await _next_frames(answer, stream, wait_s)
        _check(stream, attempt)
        if frames is None:
            break
        if frames and due_s is None:
            due_s = exchange.services.stopwatch() + HOLD_S
        held.append(frames)
        size += len(frames)
    if stream.has_content:
        exchange.note_first_token(attempt)
    return b"".join(held)


async def _next_frames(
    answer: Answer, stream: StreamFilter, wait_s: float | None = None
) -> bytes | None:
    """What the client gets of the worker's next bytes; None if `wait_s` passed without any."""
    data = await answer.read(wait_s)
    if data is None:
        return None
    try:
        frames = stream.feed(data) if data else stream.end()
    except BadFrame as error:
        raise UpstreamBadAnswer from error
    if not data and not stream.is_done and stream.error is None:
        if not stream.has_finished():
            raise UpstreamClosed
        stream.is_done = True
    return frames


def _check(stream: StreamFilter, attempt: Attempt) -> None:
    """Raise what is wrong with a stream: an error in place of a frame, an end without a choice."""
    if stream.error is not None:
        raise failure_of_error_member(stream.error, secret=attempt.secret)
    if stream.is_done and not stream.has_content:
        raise UpstreamBadAnswer


def _filter_for(request: ChatRequest, traits: BackendTraits) -> StreamFilter:
    """Frame usage that we asked for is not for the client; what the backend sends anyway may be."""
    is_ours = "continuous_usage_stats" in traits.usage_options
    return StreamFilter(
        shows_usage=request.shows_usage,
        shows_frame_usage=request.shows_continuous_usage or (request.shows_usage and not is_ours),
    )


def _parsed(body: bytes, attempt: Attempt) -> _Whole:
    try:
        whole = _decode_whole(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamBadAnswer from error
    member = bytes(whole.error)
    if member not in (b"", b"null"):
        raise failure_of_error_member(member, secret=attempt.secret)
    return whole
