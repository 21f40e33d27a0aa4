"""What budgets did to requests, counted by hour from the decision records in the ledger's ends."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from inference.contract.events import End

HOUR_MS = 3_600_000

REFUSING_S = 600
"""A budget that refused somebody within this time is told to refuse."""


class Effect(StrEnum):
    """What became of a request because of a budget."""

    REFUSED = "refused"
    THROTTLED = "throttled"
    CHEAPER = "cheaper"
    LOWERED = "lowered"


@dataclass(frozen=True, slots=True)
class EffectSum:
    """How many requests of one hour (its first millisecond), and when the last of them came."""

    budget_id: str
    effect: Effect
    hour_ms: int
    requests: int
    last_ms: int


def effects_of(ends: Iterable[End]) -> Sequence[EffectSum]:
    """What budgets did to these, in the order of budget, effect and hour."""
    counts: dict[tuple[str, Effect, int], list[int]] = {}
    for end in ends:
        record = (end.decision or {}).get("budgets")
        if not isinstance(record, Mapping):
            continue
        came_ms = end.received_at_ms
        for effect in Effect:
            for budget_id in _ids(record.get(effect.value)):
                known = counts.setdefault((budget_id, effect, came_ms // HOUR_MS), [0, 0])
                known[0] += 1
                known[1] = max(known[1], came_ms)
    return [
        EffectSum(budget_id, effect, hour * HOUR_MS, requests, last_ms)
        for (budget_id, effect, hour), (requests, last_ms) in sorted(counts.items())
    ]


def _ids(told: object) -> Sequence[str]:
    """The ids at one member of a record, which is one or a list; what else it is counts as none."""
    found = told if isinstance(told, list | tuple) else [told]
    return list(dict.fromkeys(one for one in found if isinstance(one, str) and len(one) <= 40))
