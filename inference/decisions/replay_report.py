"""What a replay comes to: splits, waits, first tokens and costs, side by side."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

SHARES = (0.5, 0.95, 0.99)

GOOD_ENOUGH = 0.2
"""A prediction of a percentile that is further off than this says so."""


@dataclass(frozen=True, slots=True)
class Served:
    """One request as one side has it; times in milliseconds, None is not known.

    `refused` is why it got no answer. `is_timed`: its first token counts.
    """

    route_id: str | None
    target_id: str | None
    pool_id: str | None
    model_id: str | None
    refused: str | None
    queued_ms: float
    first_token_ms: float | None
    cost_nanousd: int | None


def side_of(served: Sequence[Served]) -> dict[str, object]:
    """One side as plain JSON."""
    answered = [one for one in served if one.refused is None]
    timed = sorted(one.first_token_ms for one in answered if one.first_token_ms is not None)
    waits = sorted(one.queued_ms for one in answered)
    costs = [one.cost_nanousd for one in answered if one.cost_nanousd is not None]
    return {
        "requests": len(served),
        "answered": len(answered),
        "refused": dict(sorted(Counter(one.refused for one in served if one.refused).items())),
        "split": _split(answered),
        "first_token_ms": _percentiles(timed),
        "timed": len(timed),
        "queued_ms": _percentiles(waits),
        "queued": sum(wait > 0 for wait in waits),
        "cost_nanousd": str(sum(costs)),
        "unknown_cost": len(answered) - len(costs),
    }


def percentile(ranked: Sequence[float], share: float) -> float:
    """The value that so large a share of them doesn't exceed; by nearest rank, of one at least."""
    return ranked[max(ceil(share * len(ranked)), 1) - 1]


def errors_of(
    predicted: Mapping[str, float | None], observed: Mapping[str, float | None]
) -> dict[str, float | None]:
    """How far each percentile was off, as a share of what was observed; None where one lacks."""
    found: dict[str, float | None] = {}
    for name, value in predicted.items():
        seen = observed.get(name)
        is_known = value is not None and seen is not None and seen > 0
        found[name] = round(value / seen - 1, 4) if is_known and value and seen else None
    return found


def is_good(errors: Mapping[str, float | None]) -> bool | None:
    """Whether the 95th percentile was met well enough; None if nobody can tell."""
    error = errors.get("p95")
    return None if error is None else abs(error) <= GOOD_ENOUGH


def _split(answered: Iterable[Served]) -> list[dict[str, object]]:
    counts = Counter((one.target_id, one.pool_id, one.model_id) for one in answered)
    total = counts.total()
    return [
        {
            "target": target,
            "pool": pool,
            "model": model,
            "requests": number,
            "share": round(number / total, 6),
        }
        for (target, pool, model), number in sorted(
            counts.items(), key=lambda one: (-one[1], str(one[0]))
        )
    ]


def _percentiles(ranked: Sequence[float]) -> dict[str, float | None]:
    return {
        f"p{round(share * 100)}": round(percentile(ranked, share), 3) if ranked else None
        for share in SHARES
    }
