"""The trace a request belongs to: the caller's, or one that begins here (W3C Trace Context).

What isn't well formed is as good as not sent. Span ids of a request follow from the first one, so
that nobody has to carry them along: the request's own ends in four zeros, those of its attempts in
their numbers, that of its wait in four f.
"""

import re
from collections.abc import Callable, Mapping

from inference.contract.events import End
from inference.contract.values import frozen

QUEUE_SPAN = 0xFFFF
"""What a wait's span has in the place of an attempt's number."""

_PARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[^\r\n]*)?")
_MEMBER = re.compile(
    rb"[ \t]*([a-z0-9][a-z0-9_\-*/@]{0,255}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256})?[ \t]*"
)
_MAX_MEMBERS = 32
_SAMPLED, _RANDOM = 1, 2
_CHANCE_BITS = 56


@frozen
class Trace:
    """Ids are lower-case hexadecimal; `parent_id` is the caller's span, "" where there is none.

    `state` is what the caller sent as tracestate, "" if nothing. A trace that is not sampled is
    the caller's own and only passed on.
    """

    trace_id: str
    parent_id: str
    is_sampled: bool
    state: str = ""
    is_random: bool = False
    base: int = 0

    def span_id(self, number: int = 0) -> str:
        """The id of the request's span (0), of an attempt's, or of its wait's."""
        return f"{self.base + number:016x}"

    def lines(self, number: int) -> bytes:
        """The header lines that an attempt's worker is sent."""
        parent = self.span_id(number) if self.is_sampled else self.parent_id
        flags = _SAMPLED * self.is_sampled | _RANDOM * self.is_random
        line = f"traceparent: 00-{self.trace_id}-{parent}-{flags:02x}\r\n"
        return (line + (f"tracestate: {self.state}\r\n" if self.state else "")).encode()


@frozen
class Server:
    """Who an attempt was sent to: host and port, and what it calls model and itself."""

    address: str
    model: str
    provider: str


@frozen
class Traced:
    """A sampled request that has ended. `servers` are those of its attempts by number."""

    trace: Trace
    end: End
    servers: Mapping[int, Server]

    @property
    def spans(self) -> int:
        """How many spans it makes: its own, one an attempt, and one if it waited."""
        return 1 + len(self.end.charges) + (self.end.queued_ms is not None)


def trace_of(
    lines: bytes, *, ratio: float, trusts_caller: bool, bits: Callable[[int], int]
) -> Trace | None:
    """The trace of a request that came with these header lines; None if it needs none.

    Whether it is sampled is the caller's word where that is trusted, else a share of `ratio` by the
    id's last 56 bits, so that all who go by them agree. `bits(n)` gives n random bits.
    """
    given = _given(lines) if lines else None
    if given is None:
        number = bits(128)
        if not _is_chosen(number, ratio):
            return None
        return Trace(f"{number or 1:032x}", "", True, is_random=True, base=_base(bits))
    trace_id, parent_id, flags, state = given
    is_sampled = bool(flags & _SAMPLED) if trusts_caller else _is_chosen(int(trace_id, 16), ratio)
    return Trace(
        trace_id,
        parent_id,
        is_sampled,
        state,
        is_random=bool(flags & _RANDOM),
        base=_base(bits) if is_sampled else 0,
    )


def _is_chosen(number: int, ratio: float) -> bool:
    return (number & ((1 << _CHANCE_BITS) - 1)) < ratio * (1 << _CHANCE_BITS)


def _base(bits: Callable[[int], int]) -> int:
    """Where a request's span ids begin; never 0, which is no id."""
    return max(bits(48), 1) << 16


def _given(lines: bytes) -> tuple[str, str, int, str] | None:
    """Trace, parent, flags and state that the lines tell of; None if that is not one trace."""
    parents, states = [], []
    for line in lines.split(b"\r\n"):
        name, _, value = line.partition(b": ")
        if name == b"traceparent":
            parents.append(value.strip())
        elif name == b"tracestate":
            states.append(value.strip())
    match = _PARENT.fullmatch(parents[0]) if len(parents) == 1 else None
    if match is None:
        return None
    version, trace_id, parent_id, flags, rest = match.groups()
    if version == b"ff" or (version == b"00" and rest is not None):
        return None
    if not trace_id.strip(b"0") or not parent_id.strip(b"0"):
        return None
    return trace_id.decode(), parent_id.decode(), int(flags, 16), _state(states)


def _state(values: list[bytes]) -> str:
    """The list of members as one line; all of it is dropped if a part is not sound."""
    members = b",".join(values).split(b",")
    if len(members) > _MAX_MEMBERS or not all(map(_MEMBER.fullmatch, members)):
        return ""
    return b",".join(member.strip() for member in members if member.strip()).decode("ascii")
