"""What comes of putting a budget to the test, step by step, and what gateways' verdicts mean."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from inference.contract.kinds import BudgetAction, ProofVerdict


class ProofState(StrEnum):
    """What came of one step."""

    OK = "ok"
    WARN = "warn"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProofStep:
    """One step of the test, and what was found, in a sentence."""

    name: str
    state: ProofState
    words: str


_EXPECTED: Mapping[BudgetAction, ProofVerdict] = {
    BudgetAction.BLOCK: ProofVerdict.REFUSED,
    BudgetAction.THROTTLE: ProofVerdict.SLOWED,
    BudgetAction.CHEAPER: ProofVerdict.CHEAPER,
    BudgetAction.NOTIFY: ProofVerdict.LET_IN,
}


def judge_gateways(
    action: BudgetAction,
    told: Mapping[str, tuple[ProofVerdict, str]],
    asked: int,
    *,
    is_enabled: bool,
) -> ProofStep:
    """What gateway processes did with a request there was no room for; `asked` were up."""
    if not asked:
        words = "No gateway is up, so none could be asked."
        return ProofStep("gateways", ProofState.WARN, words)
    if not told:
        words = f"Of {asked} gateway processes none answered in time."
        return ProofStep("gateways", ProofState.FAILED, words)
    expected = _EXPECTED[action] if is_enabled else ProofVerdict.OFF
    wrong = {name: one for name, one in told.items() if one[0] is not expected}
    if wrong:
        name, (_, words) = min(wrong.items())
        found = f"{len(wrong)} of {asked} gateway processes do otherwise; {name}: {words}"
        return ProofStep("gateways", ProofState.FAILED, found)
    name, (_, words) = min(told.items())
    if len(told) < asked:
        found = f"{asked - len(told)} of {asked} gateway processes did not answer; {name}: {words}"
        return ProofStep("gateways", ProofState.WARN, found)
    state = ProofState.OK if is_enabled else ProofState.WARN
    return ProofStep("gateways", state, f"All {asked} gateway processes; {name}: {words}")
