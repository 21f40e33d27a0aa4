"""What counts as a failure."""

import pytest

from inference.contract.kinds import Outcome
from inference.decisions.outcomes import is_failure


@pytest.mark.parametrize(
    ("outcome", "http_status", "expected"),
    [
        (Outcome.OK, 200, False),
        (Outcome.CANCELLED, 200, False),
        (Outcome.LOST_GATEWAY, 0, True),
        (Outcome.REFUSED, 404, False),
        (Outcome.REFUSED, 503, True),
        (Outcome.ERROR, 400, False),
        (Outcome.ERROR, 499, False),
        (Outcome.ERROR, 502, True),
        (Outcome.ERROR, 200, True),
    ],
)
def test_a_failure_is_ours_or_a_workers(outcome: Outcome, http_status: int, expected: bool) -> None:
    assert is_failure(outcome, http_status) is expected
