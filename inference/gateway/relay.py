"""From a worker's answer to the client's: a whole one, or a stream of events."""

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from inference.contract.events import Usage
from inference.contract.kinds import Endpoint, Outcome
from inference.decisions.cost import usage_from
from inference.errors import UpstreamBadAnswer, UpstreamClosed
from inference.gateway.attempts import Attempt
from inference.gateway.downstream import respond
from inference.gateway.exchange import Exchange
from inference.gateway.failures import failure_of_error_member
from inference.gateway.headers import EVENT_STREAM, answer_headers
from inference.gateway.keepalive import KeepAlive
from inference.gateway.schemas import InferenceRequest
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
    """What is looked at of an answer: of each endpoint the member that makes it one."""

    usage: object = None
    choices: list[msgspec.Raw] | None = None
    data: list[msgspec.Raw] | None = None
    tokens: msgspec.Raw = msgspec.Raw(b"")
    prompt: msgspec.Raw = msgspec.Raw(b"")
    error: msgspec.Raw = msgspec.Raw(b"")


_decode_whole = msgspec.json.Decoder(_Whole).decode

_IS_ANSWER: Mapping[Endpoint, Callable[[_Whole], bool]] = {
    Endpoint.CHAT: lambda whole: bool(whole.choices),
    Endpoint.COMPLETIONS: lambda whole: bool(whole.choices),
    Endpoint.EMBEDDINGS: lambda whole: bool(whole.data),
    Endpoint.TOKENIZE: lambda whole: bytes(whole.tokens).startswith(b"["),
    Endpoint.DETOKENIZE: lambda whole: bytes(whole.prompt).startswith(b'"'),
}


async def relay_whole(exchange: Exchange, attempt: Attempt, answer: Answer) -> None:
    """Pass on an answer that is one JSON object, or raise UpstreamError."""
    body = await answer.read_all(MAX_ANSWER_BYTES)
    whole = _parsed(body, attempt)
    if not _IS_ANSWER[exchange.endpoint](whole):
        attempt.usage = _usage_of(whole)
        raise UpstreamBadAnswer
    attempt.usage = _usage_in(whole, exchange.endpoint)
    attempt.end(exchange.services.stopwatch())
    await exchange.close(Outcome.OK, http_status=_OK)
    headers = answer_headers(exchange.event_id, content_length=len(body))
    await respond(exchange.downstream, _OK, headers + exchange.debug_headers(), body)


async def relay_stream(
    exchange: Exchange,
    attempt: Attempt,
    answer: Answer,
    *,
    request: InferenceRequest,
    traits: BackendTraits,
    alive: KeepAlive,
) -> None:
    """Pass on a stream of events, or raise UpstreamError.

    Nothing is sent before there is content, for as long as `HOLD_S` and the route's keep-alive; the
    last bytes are sent after the end is in the books.
    """
    if not answer.content_type.startswith(EVENT_STREAM):
        _parsed(await answer.read_all(MAX_ANSWER_BYTES), attempt)
        raise UpstreamBadAnswer
    attempt.stream = stream = _filter_for(request, traits)
    alive.count_from(answer.began_s)
    data = await _held_frames(exchange, attempt, answer, stream, alive)
    await alive.begin()
    while not stream.is_done:
        await alive.write(data)
        frames = await _next_frames(answer, stream, alive.left_s)
        if frames is None:
            await alive.comment()
        data = frames or b""
        if stream.has_content:
            exchange.note_first_token(attempt)
        if stream.error is not None:
            await alive.write(data)
        _check(stream, attempt)
    attempt.end(exchange.services.stopwatch())
    await exchange.close(Outcome.OK, http_status=_OK)
    await exchange.downstream.end(data + DONE)


async def _held_frames(
    exchange: Exchange, attempt: Attempt, answer: Answer, stream: StreamFilter, alive: KeepAlive
) -> bytes:
    """Everything up to the first content, or what came within `HOLD_S` of the first frame.

    It is less if the caller was silent for too long by then; nothing if the answer has begun.
    """
    held: list[bytes] = []
    size = 0
    due_s: float | None = None
    is_held = not exchange.downstream.has_started
    while is_held and not stream.has_content and size <= MAX_HELD_BYTES:
        hold_s = None if due_s is None else max(due_s - exchange.services.stopwatch(), 0.0)
        frames = await _next_frames(answer, stream, _sooner(hold_s, alive.left_s))
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


def _sooner(one: float | None, other: float | None) -> float | None:
    return min((wait_s for wait_s in (one, other) if wait_s is not None), default=None)


async def _next_frames(answer: Answer, stream: StreamFilter, wait_s: float | None) -> bytes | None:
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


def _usage_of(whole: _Whole) -> Usage | None:
    return usage_from(whole.usage) if isinstance(whole.usage, dict) else None


def _usage_in(whole: _Whole, endpoint: Endpoint) -> Usage | None:
    """What an answer used; what an endpoint never uses is 0, said or not."""
    if endpoint in (Endpoint.TOKENIZE, Endpoint.DETOKENIZE):
        return Usage(prompt_tokens=0, completion_tokens=0)
    usage = _usage_of(whole)
    if usage is not None and endpoint is Endpoint.EMBEDDINGS:
        return replace(usage, completion_tokens=0)
    return usage


def _filter_for(request: InferenceRequest, traits: BackendTraits) -> StreamFilter:
    """Frame usage that we asked for is not for the client; what the backend sends anyway may be.

    What we asked for is counted for each choice alone.
    """
    is_ours = "continuous_usage_stats" in traits.usage_options
    return StreamFilter(
        shows_usage=request.shows_usage,
        shows_frame_usage=request.shows_continuous_usage or (request.shows_usage and not is_ours),
        choices_each=request.answers_each if is_ours and request.facts.answers > 1 else None,
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
