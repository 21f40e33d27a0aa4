"""The form of a route with its targets."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.forms import BooleanField, CharField, ChoiceField, IntegerField
from django.http import QueryDict

from controlplane.console.diffs import Line
from controlplane.console.forms.base import NounForm, Values
from controlplane.console.targets import TargetRow, TargetsField, rows_of, shares_of, told
from controlplane.models import Route
from controlplane.models.kinds import accountings, strategies
from controlplane.selectors.pools import list_pools
from inference.contract.kinds import Accounting, Strategy

ADD = "add"
"""Step that asks for one more row of targets."""

_TIMES = ("connect_timeout_ms", "first_byte_timeout_ms", "idle_timeout_ms", "total_timeout_ms")


class RouteForm(NounForm):
    risky = frozenset({"name", "targets", "is_enabled"})
    groups = (
        ("Limits of one request", ("max_attempts", "default_max_output_tokens", *_TIMES)),
        ("Strategy and accounting", ("strategy", "accounting")),
    )

    name = CharField(
        label="Name",
        max_length=128,
        help_text="What callers ask for as the model. After renaming, the old name is refused.",
    )
    is_enabled = BooleanField(
        label="On", required=False, initial=True, help_text="Off: its requests are refused."
    )
    targets = TargetsField(label="Targets")
    max_attempts = IntegerField(
        label="Attempts, at most",
        min_value=1,
        initial=2,
        help_text="Each target is tried once; a failed attempt goes to the next.",
    )
    default_max_output_tokens = IntegerField(
        label="Output if the caller names no limit, tokens", min_value=1, initial=4_096
    )
    connect_timeout_ms = IntegerField(label="Connecting, ms", min_value=1, initial=2_000)
    first_byte_timeout_ms = IntegerField(label="First token, ms", min_value=1, initial=120_000)
    idle_timeout_ms = IntegerField(label="Between tokens, ms", min_value=1, initial=60_000)
    total_timeout_ms = IntegerField(
        label="Whole request, ms", min_value=1, required=False, help_text="Empty: no limit."
    )
    strategy = ChoiceField(label="Strategy", choices=strategies, initial=Strategy.WEIGHTED.value)
    accounting = ChoiceField(
        label="Accounting",
        choices=accountings,
        initial=Accounting.LENIENT.value,
        help_text="If an event can't be written: strict refuses, lenient serves and counts it.",
    )

    def prepare(self) -> None:
        mine = list_pools(self.scope.access).filter(organisation_id=self.scope.organisation.pk)
        self.pools = {pool.pk: pool for pool in mine.order_by("name")}

    @classmethod
    def initial_of(cls, row: Route) -> dict[str, Any]:
        targets = [{"pool": one.pool_id, "weight": one.weight} for one in row.targets.all()]
        return {**super().initial_of(row), "targets": targets}

    @property
    def target_rows(self) -> Sequence[TargetRow]:
        """The rows to draw: what was sent or saved, and an empty one where one is asked for."""
        if isinstance(self.data, QueryDict) and self.is_bound:
            rows = list(rows_of(self.data))
            is_asked = self.data.get("step") == ADD
        else:
            given = self.initial.get("targets") or []
            rows = [
                TargetRow(index, one["pool"], str(one["weight"])) for index, one in enumerate(given)
            ]
            is_asked = False
        if is_asked or not rows:
            rows.append(TargetRow(len(rows), "", "" if rows else "1"))
        return rows

    def name_of(self, pool_id: str) -> str:
        return self.pools[pool_id].name if pool_id in self.pools else pool_id

    def document(self, values: Values) -> dict[str, Any]:
        found = super().document(values)
        if "targets" in found:
            found["targets"] = [
                {"pool": self.name_of(one["pool"]), "weight": one["weight"]}
                for one in found["targets"]
            ]
        return found

    def shown(self, name: str, value: Any) -> str:
        if name != "targets":
            return super().shown(name, value)
        parts = _weights(value)
        return ", ".join(f"{self.name_of(pool)} {weight}" for pool, weight in parts.items())

    def lines(self, base: Values | None, changes: Values) -> Sequence[Line]:
        """A line a field, and one for each target whose weight differs."""
        rest = {name: value for name, value in changes.items() if name != "targets"}
        found = list(super().lines(base, rest))
        if "targets" in changes:
            found += self._target_lines((base or {}).get("targets") or [], changes["targets"])
        return found

    def _target_lines(
        self, old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]
    ) -> Sequence[Line]:
        before, after = _weights(old), _weights(new)
        lines = [
            Line(f"Weight, {self.name_of(pool)}", before.get(pool), after.get(pool))
            for pool in dict.fromkeys((*before, *after))
            if before.get(pool) != after.get(pool)
        ]
        if not lines:
            sides = [", ".join(map(self.name_of, side)) for side in (before, after)]
            lines.append(Line("Order of targets", *sides))
        return lines

    def place_error(self, name: str, messages: Sequence[str]) -> bool:
        if name.startswith("targets"):
            place = name.split(".")
            prefix = f"Target {int(place[1]) + 1}: " if len(place) > 1 else ""
            for message in messages:
                self.add_error("targets", prefix + message)
            return True
        return super().place_error(name, messages)


def _weights(targets: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    shares = shares_of(targets)
    return {one["pool"]: f"{one['weight']} ({told(shares[one['pool']])})" for one in targets}
