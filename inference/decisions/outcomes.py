"""What counts as a failure, alike in live figures, roll-ups, filters and pages."""

from inference.contract.kinds import Outcome

FIRST_OF_CALLER, LAST_OF_CALLER = 400, 499
"""Statuses that say the caller has something to mend."""


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
