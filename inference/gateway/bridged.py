"""A request on workers that don't know its dialect: said in other words, its answer told back.

What is said how is decided in `decisions.bridging`; here it becomes bodies and frames. Usage,
errors and ends of streams are read from what the worker sent, as of any chat.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import msgspec

from inference.contract.kinds import Endpoint
from inference.decisions.bridging.base import Bridge, Document, Said, Telling
from inference.decisions.bridging.documents import Untranslatable
from inference.decisions.bridging.pieces import (
    Answer,
    Head,
    Pieces,
    Unreadable,
    head_of,
    read_answer,
    usage_in,
)
from inference.decisions.bridging.registry import REGISTRY
from inference.decisions.endpoints import BRIDGES
from inference.decisions.plan import Plan, Refusal, RefusalCode, plan_request
from inference.errors import UpstreamBadAnswer
from inference.gateway.chunks import ChunkReader
from inference.gateway.schemas import InferenceRequest
from inference.gateway.streaming import BadFrame, StreamFilter
from inference.gateway.variants import varied
from inference.workers.base import USUAL_REASONING, BackendTraits
from inference.workers.registry import OFFERS

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Bridged:
    """One request and the same as it is `asked`; `reasoning` is how its worker calls thoughts."""

    request: InferenceRequest
    reasoning: str
    bridge: Bridge
    said: Said
    asked: InferenceRequest


def within_reach(
    exchange: "Exchange", request: InferenceRequest, plan: Plan | Refusal
) -> Plan | Refusal:
    """The plan, without targets that would have to be asked in words there are none for.

    What is wrong is told if no other is left.
    """
    if isinstance(plan, Refusal) or all(one.bridge is None for one in plan.targets):
        return plan
    try:
        for is_stood_in in {one.stands_in for one in plan.targets if one.bridge is not None}:
            in_other_words(exchange, varied(plan, request, is_stood_in=is_stood_in))
    except Untranslatable as problem:
        assert exchange.snapshot is not None
        assert exchange.identity is not None
        exchange.facts = replace(plan.facts, is_bridgeable=False)
        left = plan_request(
            exchange.snapshot,
            exchange.identity,
            request=exchange.facts,
            now=plan.at,
            u=plan.u,
            offers=OFFERS,
        )
        if isinstance(left, Refusal) and left.code is RefusalCode.NOT_BRIDGEABLE:
            return replace(left, message=str(problem), param=problem.param)
        return left
    return plan


def in_other_words(
    exchange: "Exchange", request: InferenceRequest, traits: BackendTraits | None = None
) -> Bridged:
    """The request in the words that such a backend knows; raises Untranslatable.

    It is kept, for the answer is told by it and another attempt may need the same.
    """
    known = exchange.bridged
    reasoning = USUAL_REASONING if traits is None else traits.reasoning
    if known is not None and known.request is request and known.reasoning == reasoning:
        return known
    bridge = REGISTRY[exchange.endpoint]
    said = bridge.say({**request.members, **_raw(request.replaced)}, reasoning=reasoning)
    asked = _asked(request, said, BRIDGES[exchange.endpoint])
    # of what was said, the bytes are enough: it may have been large
    exchange.bridged = told = Bridged(request, reasoning, bridge, replace(said, members={}), asked)
    return told


def tell_whole(exchange: "Exchange", body: bytes) -> bytes:
    """A worker's whole answer, as the client's dialect has it; raises UpstreamBadAnswer."""
    told = exchange.bridged
    assert told is not None
    answer_id, at = _identity(exchange)
    try:
        document = told.bridge.tell(body, answer_id=answer_id, at=at, said=told.said)
    except Unreadable as error:
        raise UpstreamBadAnswer from error
    return _encode(document)


def telling_filter(exchange: "Exchange") -> StreamFilter:
    """Reads a worker's stream of chunks and gives back events of the client's dialect."""
    told = exchange.bridged
    assert told is not None
    assert told.bridge.telling is not None
    answer_id, at = _identity(exchange)
    return BridgedFilter(told.bridge.telling(told.said), answer_id=answer_id, at=at)


class BridgedFilter(StreamFilter):
    """A StreamFilter of chat whose client is given the events of another dialect."""

    __slots__ = ("_answer_id", "_at", "_has_begun", "_has_ended", "_pieces", "_telling", "_told")

    def __init__(self, telling: Telling, *, answer_id: str, at: int) -> None:
        super().__init__(ChunkReader(shows_usage=True, shows_frame_usage=True))
        self._telling = telling
        self._pieces = Pieces(answer_id)
        self._answer_id = answer_id
        self._at = at
        self._has_begun = False
        self._has_ended = False
        self._told = b""

    def feed(self, data: bytes) -> bytes:
        frames = super().feed(data)
        try:
            told = b"".join([self._frame_told(frame) for frame in frames.split(b"\n\n") if frame])
            if self.is_done:
                self._end()
        except Unreadable as error:
            raise BadFrame from error
        if told:
            self._told = told
        return told

    def end(self) -> bytes:
        frames = super().end()
        if not self.is_done and self.has_finished():
            try:
                self._end()
            except Unreadable as error:
                raise BadFrame from error
        return frames

    @property
    def recent(self) -> bytes:
        """The last events that the client was given."""
        return self._told

    def _frame_told(self, frame: bytes) -> bytes:
        lines = frame.split(b"\n")
        comments = [line + b"\n" for line in lines if line.startswith(b":")]
        data = [line[5:] for line in lines if line.startswith(b"data:")]
        told = b"".join(comments)
        return told + self._chunk_told(b" ".join(data)) if data else told

    def _chunk_told(self, payload: bytes) -> bytes:
        answer = read_answer(payload)
        events: list[Document] = []
        if not self._has_begun:
            self._has_begun = True
            events += self._telling.begin(self._head(answer), usage_in(answer))
        for piece in self._pieces.of(answer):
            events += self._telling.add(piece)
        return _as_frames(events)

    def _end(self) -> None:
        """Make the events that end the answer what it closes with, once."""
        if self._has_ended:
            return
        self._has_ended = True
        self._pieces.end()
        events: list[Document] = []
        if not self._has_begun:
            events += self._telling.begin(self._head(Answer()), None)
        events += self._telling.end(self._pieces.ending, self.usage())
        self.closing = _as_frames(events)

    def _head(self, answer: Answer) -> Head:
        return head_of(answer, answer_id=self._answer_id, at=self._at)


def _as_frames(events: list[Document]) -> bytes:
    """Server-sent events that say what they are on a line of their own, too."""
    return b"".join(
        [b"event: %b\ndata: %b\n\n" % (str(one["type"]).encode(), _encode(one)) for one in events]
    )


def _asked(request: InferenceRequest, said: Said, endpoint: Endpoint) -> InferenceRequest:
    """What is sent, but for what depends on the worker."""
    members = _raw({name: _encode(value) for name, value in said.members.items()})
    if request.is_stream:
        members["stream"] = msgspec.Raw(b"true")
    most = said.output_tokens_max
    return InferenceRequest(
        model=request.model,
        facts=replace(request.facts, endpoint=endpoint),
        members=members,
        prompt_members=("messages",),
        is_stream=request.is_stream,
        takes_stream_options=endpoint is Endpoint.CHAT,
        replaced={} if most is None else {"max_tokens": b"%d" % most},
    )


def _raw(members: Mapping[str, bytes]) -> dict[str, msgspec.Raw]:
    return {name: msgspec.Raw(one) for name, one in members.items()}


def _identity(exchange: "Exchange") -> tuple[str, int]:
    """What the answer is called, after its request, and when that came."""
    return exchange.event_id.rpartition("_")[2], exchange.arrived.at_ms // 1000
