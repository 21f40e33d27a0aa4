"""What the end of an attempt says of its worker."""

import pytest

from inference.decisions.breaker import Verdict
from inference.errors import (
    AccountingUnavailable,
    AttemptOverdue,
    ClientLeft,
    ClientStalled,
    DeadlineExceeded,
    GatewayError,
    GatewayStopping,
    InternalError,
    UpstreamBadAnswer,
    UpstreamClosed,
    UpstreamCredentialRefused,
    UpstreamError,
    UpstreamFailed,
    UpstreamForbidden,
    UpstreamModelMissing,
    UpstreamPromptTooLong,
    UpstreamRefused,
    UpstreamSaturated,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from inference.gateway.attempts import aside_after, fair_s, verdict_of

VERDICTS: dict[type[GatewayError], Verdict] = {
    UpstreamFailed: Verdict.BAD,
    UpstreamTimedOut: Verdict.BAD,
    UpstreamClosed: Verdict.BAD,
    UpstreamBadAnswer: Verdict.BAD,
    UpstreamForbidden: Verdict.BAD,
    UpstreamUnreachable: Verdict.UNREACHABLE,
    UpstreamSaturated: Verdict.WORKING,
    UpstreamModelMissing: Verdict.WORKING,
    UpstreamCredentialRefused: Verdict.WORKING,
    UpstreamRefused: Verdict.WORKING,
    UpstreamPromptTooLong: Verdict.WORKING,
    ClientLeft: Verdict.UNKNOWN,
    ClientStalled: Verdict.UNKNOWN,
    GatewayStopping: Verdict.UNKNOWN,
    AccountingUnavailable: Verdict.UNKNOWN,
    InternalError: Verdict.UNKNOWN,
}


def kinds_of(kind: type[UpstreamError]) -> set[type[UpstreamError]]:
    return {kind}.union(*(kinds_of(one) for one in kind.__subclasses__()))


@pytest.mark.parametrize("has_begun", [False, True])
@pytest.mark.parametrize("kind", VERDICTS, ids=lambda kind: kind.__name__)
def test_faults_of_a_worker_count_against_it_and_nothing_else_does(
    kind: type[GatewayError], has_begun: bool
) -> None:
    error = kind(400, {}) if issubclass(kind, UpstreamRefused) else kind()
    assert verdict_of(error, has_begun=has_begun) is VERDICTS[kind]


def test_every_fault_of_a_worker_has_its_verdict() -> None:
    assert kinds_of(UpstreamError) - {UpstreamError, AttemptOverdue} <= set(VERDICTS)


def test_an_answer_is_a_good_end() -> None:
    assert verdict_of(None, has_begun=True) is Verdict.GOOD


@pytest.mark.parametrize("kind", [DeadlineExceeded, AttemptOverdue])
def test_time_that_ran_out_counts_only_if_the_worker_had_not_begun(
    kind: type[GatewayError],
) -> None:
    assert verdict_of(kind(), has_begun=False) is Verdict.BAD
    assert verdict_of(kind(), has_begun=True) is Verdict.UNKNOWN


def test_a_worker_that_had_hardly_any_of_the_routes_time_is_not_blamed_for_it() -> None:
    assert verdict_of(DeadlineExceeded(), has_begun=False, has_had_time=False) is Verdict.UNKNOWN


@pytest.mark.parametrize(
    ("total_timeout_ms", "expected"), [(None, 2.0), (60_000, 2.0), (3_000, 1.5)]
)
def test_the_first_byte_limit_or_half_of_the_routes_time_is_enough(
    total_timeout_ms: int | None, expected: float
) -> None:
    assert fair_s(total_timeout_ms, first_byte_s=2.0) == expected


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (UpstreamSaturated(), 1.0),
        (UpstreamSaturated(retry_after_s=7), 7.0),
        (UpstreamSaturated(retry_after_s=3_600), 30.0),
        (UpstreamModelMissing(), 1.0),
        (UpstreamCredentialRefused(), 1.0),
        (UpstreamFailed(), 0.0),
        (ClientLeft(), 0.0),
        (None, 0.0),
    ],
    ids=repr,
)
def test_a_worker_that_says_not_now_is_left_to_itself_for_as_long_as_it_asks(
    error: GatewayError | None, expected: float
) -> None:
    assert aside_after(error) == expected
