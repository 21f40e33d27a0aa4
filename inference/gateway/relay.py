"""From a worker's answer to the client's: a whole one, or a stream of events."""

import asyncio
from collections.abc import Callable, Mapping
from operator import attrgetter

import msgspec

from inference.contract.kinds import Endpoint, Outcome
from inference.decisions.usage import usage_of
from inference.errors import GatewayError, UpstreamBadAnswer, UpstreamClosed
from inference.gateway.attempts import Attempt
from inference.gateway.bridged import tell_whole, telling_filter
from inference.gateway.chunks import ChunkReader
from inference.gateway.disclosures import disclosed
from inference.gateway.error_responses import error_frame
from inference.gateway.exchange import Exchange
from inference.gateway.failures import failure_of_error_member
from inference.gateway.headers import EVENT_STREAM
from inference.gateway.keepalive import KeepAlive
from inference.gateway.keeping import begin_recording, compare_stream, keep_stream, keep_whole
from inference.gateway.named import NamedEventReader, next_sequence_number
from inference.gateway.recording import Recording
from inference.gateway.schemas import InferenceRequest
from inference.gateway.streaming import BadFrame, StreamFilter
from inference.workers.answers import Answer
from inference.workers.base import BackendTraits

# Frames without content are held back this long, so that a worker that fails in time fails unseen.
HOLD_S = 1.0
MAX_HELD_BYTES = 256 * 1024

# Whole answers are held in memory until their end is in the books.
MAX_ANSWER_BYTES = 64 * 1024 * 1024

_OK = 200

# One that ran into its limit is as whole as it gets; others are still to come, or never will.
_ENDED = (None, "completed", "incomplete")


_NO_ERROR = msgspec.Raw(b"")


class _Whole(msgspec.Struct):
    """What is looked at of an answer: of each endpoint the member that makes it one."""

    usage: object = None
    choices: list[msgspec.Raw] | None = None
    data: list[msgspec.Raw] | None = None
    results: msgspec.Raw = msgspec.Raw(b"")
    output: msgspec.Raw = msgspec.Raw(b"")
    content: msgspec.Raw = msgspec.Raw(b"")
    tokens: msgspec.Raw = msgspec.Raw(b"")
    prompt: msgspec.Raw = msgspec.Raw(b"")
    input_tokens: object = None
    status: object = None
    error: msgspec.Raw = _NO_ERROR


_decode_whole = msgspec.json.Decoder(_Whole).decode

_IS_ANSWER: Mapping[Endpoint, Callable[[_Whole], object]] = {
    Endpoint.CHAT: attrgetter("choices"),
    Endpoint.COMPLETIONS: attrgetter("choices"),
    Endpoint.RESPONSES: lambda whole: (
        bytes(whole.output).startswith(b"[") and whole.status in _ENDED
    ),
    Endpoint.MESSAGES: lambda whole: bytes(whole.content).startswith(b"["),
    Endpoint.EMBEDDINGS: lambda whole: bool(whole.data),
    Endpoint.RERANK: lambda whole: _has_items(bytes(whole.results)),
    Endpoint.SCORE: lambda whole: bool(whole.data),
    Endpoint.TOKENIZE: lambda whole: bytes(whole.tokens).startswith(b"["),
    Endpoint.DETOKENIZE: lambda whole: bytes(whole.prompt).startswith(b'"'),
    Endpoint.COUNT_TOKENS: lambda whole: isinstance(whole.input_tokens, int),
}


async def read_whole(exchange: Exchange, attempt: Attempt, answer: Answer) -> bytes:
    """Read an answer that is one JSON object, or raise UpstreamError."""
    return understood(exchange, attempt, await answer.read_all(MAX_ANSWER_BYTES))


def understood(exchange: Exchange, attempt: Attempt, body: bytes) -> bytes:
    """An answer that came whole, once its usage is read; raises UpstreamError if it is none."""
    whole, bridge = _parsed(body, attempt), attempt.planned.bridge
    endpoint = bridge or exchange.endpoint
    is_answer = _IS_ANSWER[endpoint](whole)
    if is_answer or whole.usage is not None:
        attempt.usage = usage_of(endpoint, whole.usage)
    if not is_answer:
        raise UpstreamBadAnswer
    return body if bridge is None else tell_whole(exchange, body)


async def send_whole(exchange: Exchange, attempt: Attempt, body: bytes) -> None:
    """Pass on an answer that was read, once its end is in the books."""
    attempt.end(exchange.services.stopwatch())
    if exchange.caching is not None:
        body = await keep_whole(exchange, exchange.caching, attempt, body)
    await exchange.close(Outcome.OK, http_status=_OK)
    await exchange.downstream.answer(exchange.event_id, exchange.dialect, disclosed(exchange), body)


async def open_stream(
    exchange: Exchange,
    attempt: Attempt,
    answer: Answer,
    *,
    request: InferenceRequest,
    traits: BackendTraits,
    alive: KeepAlive,
    is_racing: bool = False,
) -> bytes:
    """Read a stream of events up to its first content, or raise UpstreamError.

    What came is held until then, for as long as `HOLD_S` and the route's keep-alive. In a race the
    caller may have been sent comments meanwhile.
    """
    if not answer.content_type.startswith(EVENT_STREAM):
        _parsed(await answer.read_all(MAX_ANSWER_BYTES), attempt)
        raise UpstreamBadAnswer
    if attempt.planned.bridge is None:
        stream = _filter_for(exchange.endpoint, request, traits)
    else:
        stream = telling_filter(exchange)
    attempt.stream = stream
    is_held = is_racing or not exchange.downstream.has_started
    return await _held_frames(exchange, attempt, answer, stream, alive) if is_held else b""


async def pass_stream(exchange: Exchange, attempt: Attempt, data: bytes, alive: KeepAlive) -> None:
    """Pass on a stream that was opened, of which this came, or raise UpstreamError.

    The last bytes are sent after the end is in the books.
    """
    answer, stream = attempt.answer, attempt.stream
    assert answer is not None
    assert stream is not None
    passage = _Passage(exchange, attempt, stream, alive, data)
    recording = None if exchange.caching is None else begin_recording(exchange.caching, data)
    passage.recording = recording
    await alive.begin()
    while not stream.is_done:
        await alive.write(passage.rest)
        passage.rest = b""
        if not await answer.relay(passage.take, alive.left):
            await alive.comment()
        if stream.error is not None:
            await alive.write(passage.rest)
        _check(stream, attempt)
    attempt.end(exchange.services.stopwatch())
    if exchange.caching is not None and exchange.caching.compared is not None:
        await compare_stream(exchange, exchange.caching, attempt, stream)
    await exchange.close(Outcome.OK, http_status=_OK)
    await exchange.downstream.end(passage.rest + stream.closing)
    if exchange.caching is not None:
        await keep_stream(exchange, exchange.caching, attempt, stream)


class _Passage:
    """A stream on its way from a worker to the caller, from the call that receives it.

    `rest` is what the caller has yet to get when it stops: at the end, at an error, and while the
    caller reads too slowly.
    """

    __slots__ = (
        *("_alive", "_attempt", "_exchange", "_has_no_token", "_stream", "_time", "_write_now"),
        *("recording", "rest"),
    )

    def __init__(
        self,
        exchange: Exchange,
        attempt: Attempt,
        stream: StreamFilter,
        alive: KeepAlive,
        rest: bytes,
    ) -> None:
        self._exchange = exchange
        self._attempt = attempt
        self._stream = stream
        self._alive = alive
        self._time = asyncio.get_running_loop().time
        self._write_now = exchange.downstream.write_now
        self._has_no_token = attempt.first_token_ms is None
        self.recording: Recording | None = None
        self.rest = rest

    def take(self, data: bytes) -> bool:
        """Pass on what came; False if somebody has to look at the stream, or wait for the caller.

        Raises UpstreamError.
        """
        stream = self._stream
        try:
            frames = stream.feed(data) if data else _last_frames(stream)
        except BadFrame as error:
            raise UpstreamBadAnswer from error
        if self.recording is not None and frames:
            self.recording.add(frames)
        if self._has_no_token and stream.has_content:
            self._has_no_token = False
            self._exchange.note_first_token(self._attempt)
        if stream.is_done or stream.error is not None:
            self.rest = frames
            return False
        if frames:
            if not self._write_now(frames):
                self.rest = frames
                return False
            self._alive.since_s = self._time()
        return True


def broken_off(exchange: Exchange, error: GatewayError) -> bytes:
    """The last event of a stream that ends with an error."""
    stream = exchange.attempts[-1].stream if exchange.attempts else None
    number = 0 if stream is None else next_sequence_number(stream.recent)
    return error_frame(error, exchange.dialect, sequence_number=number)


async def _held_frames(
    exchange: Exchange, attempt: Attempt, answer: Answer, stream: StreamFilter, alive: KeepAlive
) -> bytes:
    """Everything up to the first content, or what came within `HOLD_S` of the first frame.

    It is less if the caller was told nothing for too long by then.
    """
    held: list[bytes] = []
    size = 0
    due_s: float | None = None
    while not stream.has_content and size <= MAX_HELD_BYTES:
        hold_s = None if due_s is None else max(due_s - exchange.services.stopwatch(), 0.0)
        frames = await _next_frames(answer, stream, sooner(hold_s, alive.left_s))
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


def sooner(one: float | None, other: float | None) -> float | None:
    """The shorter of two waits; None is for ever."""
    return min((wait_s for wait_s in (one, other) if wait_s is not None), default=None)


async def _next_frames(answer: Answer, stream: StreamFilter, wait_s: float | None) -> bytes | None:
    """What the client gets of the worker's next bytes; None if `wait_s` passed without any."""
    data = await answer.read(wait_s)
    if data is None:
        return None
    try:
        return stream.feed(data) if data else _last_frames(stream)
    except BadFrame as error:
        raise UpstreamBadAnswer from error


def _last_frames(stream: StreamFilter) -> bytes:
    """What the client gets at the end of a worker's bytes; raises BadFrame or UpstreamClosed."""
    frames = stream.end()
    if not stream.is_done and stream.error is None:
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


def _filter_for(
    endpoint: Endpoint, request: InferenceRequest, traits: BackendTraits
) -> StreamFilter:
    """How the streams of an endpoint are read.

    Frame usage that we asked for is not for the client; what the backend sends anyway may be. What
    we asked for is counted for each choice alone.
    """
    if not request.takes_stream_options:
        return StreamFilter(NamedEventReader(endpoint))
    is_ours = "continuous_usage_stats" in traits.usage_options
    return StreamFilter(
        ChunkReader(
            shows_usage=request.shows_usage,
            shows_frame_usage=request.shows_continuous_usage
            or (request.shows_usage and not is_ours),
            choices_each=request.answers_each if is_ours and request.facts.answers > 1 else None,
        )
    )


def _has_items(raw: bytes) -> bool:
    return raw.startswith(b"[") and raw.strip(b"[] \t\r\n") != b""


def _parsed(body: bytes, attempt: Attempt) -> _Whole:
    try:
        whole = _decode_whole(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UpstreamBadAnswer from error
    if whole.error is not _NO_ERROR and (member := bytes(whole.error)) not in (b"", b"null"):
        raise failure_of_error_member(member, secret=attempt.secret)
    return whole
