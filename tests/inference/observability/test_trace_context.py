"""Which trace a request belongs to, and what its workers are told of it."""

import random

import pytest

from inference.observability.trace_context import QUEUE_SPAN, Trace, trace_of

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
LOW = "0af7651916cd43dd8400000000000001"
"""An id whose last 56 bits are nearly nothing: any ratio above 0 chooses it."""


def made(
    *lines: str, ratio: float = 0.0, trusts_caller: bool = True, seed: int = 0
) -> Trace | None:
    text = "".join(f"{line}\r\n" for line in lines).encode()
    bits = random.Random(seed).getrandbits
    return trace_of(text, ratio=ratio, trusts_caller=trusts_caller, bits=bits)


def test_a_callers_trace_goes_on_with_our_attempts_as_the_workers_parents() -> None:
    trace = made(f"traceparent: 00-{TRACE}-{PARENT}-03", "tracestate: a=b , c@d=e/f")
    assert trace is not None
    assert (trace.trace_id, trace.parent_id, trace.is_sampled) == (TRACE, PARENT, True)
    ids = [trace.span_id(), trace.span_id(1), trace.span_id(2), trace.span_id(QUEUE_SPAN)]
    assert len({*ids, PARENT}) == 5
    assert trace.lines(2) == (
        f"traceparent: 00-{TRACE}-{ids[2]}-03\r\ntracestate: a=b,c@d=e/f\r\n".encode()
    )


def test_what_is_not_sampled_is_passed_on_as_such_under_the_callers_own_span() -> None:
    trace = made(f"traceparent: 00-{TRACE}-{PARENT}-01", trusts_caller=False)
    assert trace is not None
    assert trace.lines(1) == f"traceparent: 00-{TRACE}-{PARENT}-00\r\n".encode()


def test_an_untrusted_flag_decides_nothing_and_a_trusted_one_all() -> None:
    sampled, unsampled = f"traceparent: 00-{LOW}-{PARENT}-01", f"traceparent: 00-{LOW}-{PARENT}-00"
    for flagged in (sampled, unsampled):
        told = [made(flagged, ratio=ratio, trusts_caller=False) for ratio in (0.0, 0.001, 1.0)]
        assert [trace is not None and trace.is_sampled for trace in told] == [False, True, True]
    for flagged, is_sampled in ((sampled, True), (unsampled, False)):
        trace = made(flagged, ratio=0.5)
        assert trace is not None
        assert trace.is_sampled is is_sampled


@pytest.mark.parametrize(
    "line",
    [
        f"traceparent: ff-{TRACE}-{PARENT}-01",
        f"traceparent: 00-{TRACE}-{PARENT}-01-more",
        f"traceparent: 00-{TRACE.upper()}-{PARENT}-01",
        f"traceparent: 00-{'0' * 32}-{PARENT}-01",
        f"traceparent: 00-{TRACE}-{'0' * 16}-01",
        f"traceparent: 00-{TRACE}-{PARENT}",
        f"traceparent: 00-{TRACE[1:]}-{PARENT}-01",
        f"traceparent: 00-{TRACE}-{PARENT}-01\r\ntraceparent: 00-{TRACE}-{PARENT}-01",
        "tracestate: a=b",
        "traceparent: ",
    ],
)
def test_what_is_not_well_formed_is_as_good_as_not_sent(line: str) -> None:
    assert made(line, "tracestate: a=b") is None
    begun = made(line, "tracestate: a=b", ratio=1.0)
    assert begun is not None
    assert (begun.parent_id, begun.state) == ("", "")
    assert begun.trace_id != TRACE


def test_a_later_version_may_say_more() -> None:
    trace = made(f"traceparent: cc-{TRACE}-{PARENT}-01-what-the-future-brings")
    assert trace is not None
    assert trace.trace_id == TRACE
    assert trace.lines(1).startswith(b"traceparent: 00-")


@pytest.mark.parametrize(
    "state", ["A=b", "a", "a=b=c", "a=b,c", "a=\x01", "a=b,\xe9=c", ",".join(["a=b"] * 33)]
)
def test_a_state_that_is_not_sound_is_dropped_and_the_trace_goes_on(state: str) -> None:
    trace = made(f"traceparent: 00-{TRACE}-{PARENT}-01", f"tracestate: {state}")
    assert trace is not None
    assert (trace.trace_id, trace.state) == (TRACE, "")


def test_the_ratio_is_that_of_the_requests_that_begin_a_trace() -> None:
    begun = [trace for seed in range(2_000) if (trace := made(ratio=0.25, seed=seed))]
    assert 430 < len(begun) < 570
    assert len({trace.trace_id for trace in begun}) == len(begun)
    assert {trace.is_sampled for trace in begun} == {True}
    again = [
        made(f"traceparent: 00-{trace.trace_id}-{PARENT}-00", ratio=0.25, trusts_caller=False)
        for trace in begun
    ]
    assert all(one is not None and one.is_sampled for one in again)
