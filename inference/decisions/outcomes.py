"""What counts as a failure, alike in live figures, roll-ups, filters and pages."""

from collections.abc import Mapping

from inference.contract.error_codes import ErrorCode
from inference.contract.kinds import Outcome, RefusalReason

FIRST_OF_CALLER, LAST_OF_CALLER = 400, 499
"""Statuses that say the caller has something to mend."""

REASONS: Mapping[RefusalReason, frozenset[ErrorCode]] = {
    RefusalReason.BUDGET: frozenset((ErrorCode.BUDGET_EXCEEDED, ErrorCode.BUDGETS_UNAVAILABLE)),
    RefusalReason.LIMIT: frozenset((ErrorCode.RATE_LIMIT_EXCEEDED, ErrorCode.LIMITS_UNAVAILABLE)),
    RefusalReason.SWITCH: frozenset((ErrorCode.SWITCHED_OFF,)),
    RefusalReason.CAPACITY: frozenset(
        (
            *(ErrorCode.NO_CAPACITY, ErrorCode.QUEUE_FULL),
            *(ErrorCode.QUEUE_TIMEOUT, ErrorCode.REQUEST_SHED),
        )
    ),
}
"""The codes of each reason."""

_REASON_OF: Mapping[str, RefusalReason] = {
    code.value: reason for reason, codes in REASONS.items() for code in codes
}


def reason_of(error_code: str | None) -> RefusalReason | None:
    """Why a request with this code was turned away; None for any other end."""
    return _REASON_OF.get(error_code or "")


def is_failure(outcome: Outcome, http_status: int) -> bool:
    """Tell whether a request failed by us or a worker: not by its caller, and not cancelled.

    A refusal for want of capacity is one, a refusal of an unknown model is not; so is an answer
    that broke off after its 200.
    """
    if outcome is Outcome.LOST_GATEWAY:
        return True
    if outcome in (Outcome.OK, Outcome.CANCELLED):
        return False
    return not FIRST_OF_CALLER <= http_status <= LAST_OF_CALLER
