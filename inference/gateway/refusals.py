"""What a caller is told when no plan could be made."""

from math import ceil

from inference.contract.snapshot import ConfigSnapshot, KeyRecord, SwitchRecord
from inference.decisions.plan import Refusal, RefusalCode
from inference.decisions.switches import switch_on_caller
from inference.errors import (
    GatewayError,
    InvalidRequest,
    ModelNotFound,
    NoCapacity,
    SwitchedOff,
    TargetsSwitchedOff,
)
from inference.gateway.headers import TARGET


def refusal_of(decided: Refusal, *, now: float) -> GatewayError:
    """The error that a refusal is to its caller; `now` is seconds since the epoch."""
    words = decided.words
    match decided.code:
        case RefusalCode.SWITCHED_OFF:
            return SwitchedOff(words)
        case RefusalCode.TARGETS_SWITCHED_OFF:
            return TargetsSwitchedOff(words, retry_after_s=_left_s(decided.switch, now=now))
        case RefusalCode.NO_CAPACITY:
            return NoCapacity(words)
        case RefusalCode.WRONG_ENDPOINT | RefusalCode.NOT_BRIDGEABLE:
            return InvalidRequest(words, param=decided.param)
        case RefusalCode.TARGET_NOT_FOUND:
            return InvalidRequest(words, param=TARGET.decode())
        case RefusalCode.MODEL_NOT_FOUND:
            return ModelNotFound(words, param="model")


def check_caller(snapshot: ConfigSnapshot, identity: KeyRecord, *, now: float) -> None:
    """Raise SwitchedOff if the caller's organisation, project or key is switched off."""
    switch = switch_on_caller(snapshot, identity, now=now)
    if switch is not None:
        raise refusal_of(Refusal(RefusalCode.SWITCHED_OFF, switch=switch), now=now)


def _left_s(switch: SwitchRecord | None, *, now: float) -> int | None:
    """When to come back, if the switch says for how long."""
    if switch is None or switch.expires_at is None:
        return None
    return max(ceil(switch.expires_at - now), 1)
