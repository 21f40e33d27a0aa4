"""The form of a route with its targets."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.forms import BooleanField, CharField, ChoiceField, FloatField, IntegerField
from django.http import QueryDict

from controlplane.console.diffs import Line, shown
from controlplane.console.forms.base import NounForm, Values, bounds_of
from controlplane.console.targets import (
    ROUTES_OWN,
    TIMEOUT_LABELS,
    TargetRow,
    TargetsField,
    row_of,
    rows_of,
    shares_of,
    times_of,
    times_told,
    told,
)
from controlplane.models import Route
from controlplane.models.kinds import accountings, strategies
from controlplane.selectors.pools import list_pools
from inference.contract.kinds import Accounting, Strategy
from inference.contract.params import ROUTE_BOUNDS

ADD = "add"
"""Step that asks for one more row of targets."""

_TIMES = ("connect_timeout_ms", "first_byte_timeout_ms", "idle_timeout_ms", "total_timeout_ms")
_TRIES = ("max_attempts", "retry_budget_percent")


class RouteForm(NounForm):
    risky = frozenset({"name", "targets", "is_enabled", "strategy"})
    groups = (
        ("Strategy and accounting", ("strategy", "max_wait_penalty", "accounting")),
        ("Limits of one request", (*_TRIES, "default_max_output_tokens", *_TIMES)),
        ("Streams", ("keep_alive_ms",)),
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
        **bounds_of(ROUTE_BOUNDS["max_attempts"]),
        initial=2,
        help_text="Each target is tried once; a failed attempt goes to the next.",
    )
    retry_budget_percent = IntegerField(
        label="Retry budget, % of requests",
        **bounds_of(ROUTE_BOUNDS["retry_budget_percent"]),
        initial=20,
        help_text="Of the last 10 s, and a few more; beyond it the first error is answered.",
    )
    default_max_output_tokens = IntegerField(
        label="Output if the caller names no limit, tokens",
        **bounds_of(ROUTE_BOUNDS["default_max_output_tokens"]),
        initial=4_096,
    )
    connect_timeout_ms = IntegerField(
        label="Connecting, ms", **bounds_of(ROUTE_BOUNDS["connect_timeout_ms"]), initial=2_000
    )
    first_byte_timeout_ms = IntegerField(
        label="First token, ms", **bounds_of(ROUTE_BOUNDS["first_byte_timeout_ms"]), initial=120_000
    )
    idle_timeout_ms = IntegerField(
        label="Between tokens, ms", **bounds_of(ROUTE_BOUNDS["idle_timeout_ms"]), initial=60_000
    )
    total_timeout_ms = IntegerField(
        label="Whole request, ms",
        **bounds_of(ROUTE_BOUNDS["total_timeout_ms"]),
        required=False,
        help_text="Empty: no limit.",
    )
    keep_alive_ms = IntegerField(
        label="Silence before a comment, ms",
        **bounds_of(ROUTE_BOUNDS["keep_alive_ms"]),
        required=False,
        help_text="Keeps what is on the way from cutting a silent stream off. Before the first "
        "token too: the first comment begins the answer, and no other target is tried then. "
        "Empty: only once the answer has begun, every 15 s.",
    )
    strategy = ChoiceField(
        label="Strategy",
        choices=strategies,
        initial=Strategy.LEAST_WORK.value,
        help_text="Least work: the worker with the shortest wait, of all targets; weights decide "
        "among equals. Weighted: requests divide by weight.",
    )
    max_wait_penalty = FloatField(
        label="Longer wait for a cached prompt",
        **bounds_of(ROUTE_BOUNDS["max_wait_penalty"]),
        initial=0.5,
        help_text="Least work goes this much further for a worker that has most of the prompt; "
        "1 is one second of prefill or one full batch.",
    )
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
        targets = [
            {"pool": one.pool_id, "weight": one.weight, **times_of(one)}
            for one in row.targets.all()
        ]
        return {**super().initial_of(row), "targets": targets}

    @property
    def target_rows(self) -> Sequence[TargetRow]:
        """The rows to draw: what was sent or saved, and an empty one where one is asked for."""
        if isinstance(self.data, QueryDict) and self.is_bound:
            rows = list(rows_of(self.data))
            is_asked = self.data.get("step") == ADD
        else:
            given = self.initial.get("targets") or []
            rows = [row_of(index, one) for index, one in enumerate(given)]
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
                {"pool": self.name_of(one["pool"]), "weight": one["weight"], **self._sent(one)}
                for one in found["targets"]
            ]
        return found

    def _sent(self, target: Mapping[str, Any]) -> dict[str, Any]:
        """The time-outs to name in a call: those that are set, and those to be cleared."""
        saved = {} if self.row is None else {one.pool_id: one for one in self.row.targets.all()}
        before = saved.get(target["pool"])
        held = {} if before is None else times_of(before)
        return {
            name: target.get(name)
            for name in TIMEOUT_LABELS
            if target.get(name) is not None or held.get(name) is not None
        }

    def shown(self, name: str, value: Any) -> str:
        if name != "targets":
            return super().shown(name, value)
        parts, times = _weights(value), _times(value)
        return "; ".join(
            f"{self.name_of(pool)} {weight}"
            + ("" if times[pool] == ROUTES_OWN else f", {times[pool]}")
            for pool, weight in parts.items()
        )

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
        was, now = ({one["pool"]: one for one in side} for side in (old, new))
        for pool in dict.fromkeys((*was, *now)):
            lines += self._time_lines(pool, was.get(pool, {}), now.get(pool, {}))
        if not lines:
            sides = [", ".join(map(self.name_of, side)) for side in (before, after)]
            lines.append(Line("Order of targets", *sides))
        return lines

    def _time_lines(
        self, pool: str, old: Mapping[str, Any], new: Mapping[str, Any]
    ) -> Sequence[Line]:
        return [
            Line(f"{label}, {self.name_of(pool)}", _time(name, old), _time(name, new))
            for name, label in TIMEOUT_LABELS.items()
            if old.get(name) != new.get(name)
        ]

    def place_error(self, name: str, messages: Sequence[str]) -> bool:
        if name.startswith("targets"):
            place = name.split(".")
            prefix = f"Target {int(place[1]) + 1}: " if len(place) > 1 else ""
            for message in messages:
                self.add_error("targets", prefix + message)
            return True
        return super().place_error(name, messages)


def _time(name: str, target: Mapping[str, Any]) -> str:
    value = target.get(name)
    return ROUTES_OWN if value is None else shown(name, value)


def _times(targets: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {one["pool"]: times_told(one) for one in targets}


def _weights(targets: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    shares = shares_of(targets)
    return {one["pool"]: f"{one['weight']} ({told(shares[one['pool']])})" for one in targets}
