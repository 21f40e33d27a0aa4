"""What the end of an attempt says of its worker."""

import pytest

from inference.decisions.breaker import Verdict
from inference.errors import (
    AccountingUnavailable,
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
from inference.gateway.attempts import verdict_of

VERDICTS: dict[type[GatewayError], Verdict] = {
    UpstreamFailed: Verdict.BAD,
    UpstreamTimedOut: Verdict.BAD,
    UpstreamClosed: Verdict.BAD,
    UpstreamBadAnswer: Verdict.BAD,
    UpstreamForbidden: Verdict.BAD,
    UpstreamUnreachable: Verdict.UNREACHABLE,
    UpstreamSaturated: Verdict.GOOD,
    UpstreamModelMissing: Verdict.GOOD,
    UpstreamCredentialRefused: Verdict.GOOD,
    UpstreamRefused: Verdict.GOOD,
    UpstreamPromptTooLong: Verdict.GOOD,
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
    assert kinds_of(UpstreamError) - {UpstreamError} <= set(VERDICTS)


def test_an_answer_is_a_good_end() -> None:
    assert verdict_of(None, has_begun=True) is Verdict.GOOD


def test_time_that_ran_out_counts_only_if_the_worker_had_not_begun() -> None:
    assert verdict_of(DeadlineExceeded(), has_begun=False) is Verdict.BAD
    assert verdict_of(DeadlineExceeded(), has_begun=True) is Verdict.UNKNOWN
