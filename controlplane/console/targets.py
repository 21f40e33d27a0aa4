"""A route's targets in forms and pictures: rows of pool and weight, and the shares they come to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.forms import Field, Widget
from django.http import QueryDict

from inference.contract.params import MAX_WEIGHT

_COUNT = "targets-count"
_MOST = 100


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One row of the form as it stands: what was chosen and typed, whether sound or not."""

    index: int
    pool: str
    weight: str
    error: str = ""


class TargetsWidget(Widget):
    """Reads the rows of the page's own template; rows without a pool and weight are left out."""

    def value_from_datadict(self, data: QueryDict, files: Any, name: str) -> Any:
        return [row for row in rows_of(data) if row.pool or row.weight]

    def value_omitted_from_data(self, data: QueryDict, files: Any, name: str) -> bool:
        return _COUNT not in data


class TargetsField(Field):
    """Its value is a list of `{"pool": id, "weight": n}`, in order."""

    widget = TargetsWidget

    def clean(self, value: Any) -> list[dict[str, Any]]:
        rows: Sequence[TargetRow] = value or ()
        if not rows:
            raise ValidationError("A route needs at least one target.")
        found = []
        for row in rows:
            problem = problem_with(row)
            if problem:
                raise ValidationError(f"Target {row.index + 1}: {problem}")
            found.append({"pool": row.pool, "weight": int(row.weight)})
        if len({one["pool"] for one in found}) < len(found):
            raise ValidationError("The route has a pool twice.")
        return found


def rows_of(data: QueryDict) -> Sequence[TargetRow]:
    """The rows a page sent."""
    given = str(data.get(_COUNT, ""))
    rows = min(int(given), _MOST) if given.isascii() and given.isdigit() and len(given) < 4 else 0
    return [
        TargetRow(
            index,
            str(data.get(f"targets-{index}-pool", "")).strip(),
            str(data.get(f"targets-{index}-weight", "")).strip(),
        )
        for index in range(rows)
    ]


def problem_with(row: TargetRow) -> str:
    """What is wrong with a row in words, "" if nothing."""
    if not row.pool:
        return "choose a pool, or empty the weight."
    is_number = row.weight.isascii() and row.weight.isdigit() and len(row.weight) < 8
    if not is_number or int(row.weight) > MAX_WEIGHT:
        return f"give a whole weight from 0 to {MAX_WEIGHT:,}."
    return ""


def shares_of(targets: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Each pool's share of the requests by weight, as fractions of 1, in order."""
    total = sum(int(one["weight"]) for one in targets)
    return {one["pool"]: int(one["weight"]) / total if total else 0.0 for one in targets}


def measured_of(attempts: Mapping[str, int]) -> dict[str, float]:
    """Each pool's share of the attempts that were made; empty if there were none."""
    total = sum(attempts.values())
    return {pool: made / total for pool, made in attempts.items()} if total else {}


def moved(before: Mapping[str, float], after: Mapping[str, float]) -> float:
    """The fraction of traffic that goes elsewhere between two splits."""
    pools = {*before, *after}
    return sum(abs(after.get(one, 0.0) - before.get(one, 0.0)) for one in pools) / 2


def told(share: float) -> str:
    """A share in words."""
    return f"{100 * share:.1f} %"
