"""Traces of requests: which has one, what its workers are told, and what is kept of it at its end.

On a request's way no span is made: the event of its end is put into a bounded queue, and all else
happens in the background (`trace_sending`).
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from inference.contract.events import End
from inference.contract.kinds import Backend
from inference.gateway.attempts import Attempt
from inference.gateway.headers import CallerHeaders
from inference.observability.trace_context import Server, Trace, Traced, trace_of
from inference.observability.trace_metrics import Dropped, TraceMetrics

QUEUE_LENGTH = 2_048
"""Requests that wait to be sent: some 4 MB, and with it the memory a dead receiver costs."""

_PROVIDERS = {Backend.VLLM: "vllm", Backend.OPENAI: "openai"}


class Traces(Protocol):
    """What a request has to do with its trace."""

    def begin(self, headers: CallerHeaders) -> Trace | None:
        """The trace of a request, None if it needs none."""
        ...

    def lines(self, headers: CallerHeaders, trace: Trace | None, attempt: int) -> bytes:
        """The header lines of a trace that the worker of an attempt is sent."""
        ...

    def ended(self, trace: Trace | None, end: End, attempts: Sequence[Attempt]) -> None:
        """Keep what a sampled request's spans are made of."""
        ...


class NoTraces:
    """Nobody receives spans of ours: what callers say of their traces is passed on as it came."""

    def begin(self, _headers: CallerHeaders) -> Trace | None:
        return None

    def lines(self, headers: CallerHeaders, _trace: Trace | None, _attempt: int) -> bytes:
        return headers.forwarded

    def ended(self, _trace: Trace | None, _end: End, _attempts: Sequence[Attempt]) -> None:
        return None


class Tracer:
    """Traces that end in `queue`; what finds it full is dropped and counted."""

    def __init__(
        self,
        metrics: TraceMetrics,
        *,
        ratio: float,
        trusts_caller: bool,
        random_bits: Callable[[int], int],
        queue_length: int = QUEUE_LENGTH,
    ) -> None:
        self.queue: deque[Traced] = deque()
        self._metrics = metrics
        self._ratio = ratio
        self._trusts_caller = trusts_caller
        self._bits = random_bits
        self._length = queue_length

    def begin(self, headers: CallerHeaders) -> Trace | None:
        return trace_of(
            headers.forwarded,
            ratio=self._ratio,
            trusts_caller=self._trusts_caller,
            bits=self._bits,
        )

    def lines(self, _headers: CallerHeaders, trace: Trace | None, attempt: int) -> bytes:
        return b"" if trace is None else trace.lines(attempt)

    def ended(self, trace: Trace | None, end: End, attempts: Sequence[Attempt]) -> None:
        if trace is None or not trace.is_sampled:
            return
        traced = Traced(trace, end, {one.number: _server_of(one) for one in attempts})
        if len(self.queue) < self._length:
            self.queue.append(traced)
        else:
            self._metrics.dropped(traced.spans, Dropped.FULL)


def _server_of(attempt: Attempt) -> Server:
    pool = attempt.planned.pool
    address = attempt.address.origin.host_header.decode("latin-1")
    return Server(address, pool.served_model_name, _PROVIDERS[pool.backend])
