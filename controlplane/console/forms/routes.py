"""The form of a route with its targets."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.forms import (
    BooleanField,
    CharField,
    CheckboxSelectMultiple,
    ChoiceField,
    FloatField,
    IntegerField,
    ModelChoiceField,
    MultipleChoiceField,
)
from django.http import QueryDict
from django.utils.functional import cached_property

from controlplane.compiler import rules_of as stored_rules_of
from controlplane.console.diffs import Line, shown
from controlplane.console.forms.base import NounForm, Values, bounds_of
from controlplane.console.forms.keys import TagsField
from controlplane.console.rule_lines import names_in, rule_lines, rule_words, writable_names
from controlplane.console.rule_split import splits_for, words_of
from controlplane.console.rules import RuleRow, RulesField, arranged, rules_in, saved_rule
from controlplane.console.target_lines import target_lines, weights_told
from controlplane.console.targets import (
    ROUTES_OWN,
    TIMEOUT_LABELS,
    TargetRow,
    TargetsField,
    as_listed,
    place_of,
    row_of,
    rows_of,
    tier_words,
    times_of,
    times_told,
)
from controlplane.decisions.route_rules import REFERENCES, document_of
from controlplane.decisions.service_levels import OBJECTIVE_BOUNDS
from controlplane.models import CachePolicy, Route
from controlplane.models.kinds import accountings, degradation_steps, strategies, task_classes
from controlplane.selectors.caches import list_policies
from controlplane.selectors.pools import list_pools
from controlplane.services.route_rules import References
from inference.contract.kinds import Accounting, DegradationStep, Strategy, TaskClass
from inference.contract.params import ROUTE_BOUNDS, SIMILARITY_BOUND

ADD = "add"
"""Step that asks for one more row of targets."""

_TIMES = ("connect_timeout_ms", "first_byte_timeout_ms", "idle_timeout_ms", "total_timeout_ms")
_BUSY = ("max_queue_wait_ms", "max_queued", "hedge_after_ms")
_TRIES = ("max_attempts", "retry_budget_percent")


class RouteForm(NounForm):
    risky = frozenset(
        {
            *("name", "targets", "is_enabled", "strategy", "rules", "aliases", "degradation"),
            *("cache_policy", "similarity_min"),
        }
    )
    groups = (
        ("Rules", ("rules",)),
        ("Strategy and accounting", ("strategy", "max_wait_penalty", "accounting", "default_task")),
        ("When workers are busy", (*_BUSY, "degradation")),
        ("Limits of one request", (*_TRIES, "default_max_output_tokens", *_TIMES)),
        ("Caches", ("cache_policy", "similarity_min")),
        ("Streams", ("keep_alive_ms",)),
        ("Objectives", tuple(OBJECTIVE_BOUNDS)),
    )

    name = CharField(
        label="Name",
        max_length=128,
        help_text="What callers ask for as the model. After renaming, the old name is refused.",
    )
    is_enabled = BooleanField(
        label="On", required=False, initial=True, help_text="Off: its requests are refused."
    )
    aliases = TagsField(
        label="Aliases",
        required=False,
        help_text="Further names callers may ask for, with commas between them.",
    )
    targets = TargetsField(label="Targets")
    rules = RulesField(label="Rules", required=False)
    default_task = ChoiceField(
        label="Task",
        choices=task_classes,
        initial=TaskClass.DEFAULT.value,
        help_text="What requests are for, unless they or their key say so.",
    )
    max_queue_wait_ms = IntegerField(
        label="Waiting for a worker, at most, ms",
        **bounds_of(ROUTE_BOUNDS["max_queue_wait_ms"]),
        initial=30_000,
        help_text="0: a request that finds no free worker is refused at once.",
    )
    max_queued = IntegerField(
        label="Requests waiting, at most",
        **bounds_of(ROUTE_BOUNDS["max_queued"]),
        initial=1_000,
        help_text="At each gateway process.",
    )
    hedge_after_ms = IntegerField(
        label="Second worker after, ms",
        **bounds_of(ROUTE_BOUNDS["hedge_after_ms"]),
        required=False,
        help_text="Without a first byte by then a second worker is asked too, and the first answer "
        "is taken; both are billed. Empty: never.",
    )
    degradation = MultipleChoiceField(
        label="Serve less well while saturated",
        choices=degradation_steps,
        widget=CheckboxSelectMultiple,
        required=False,
        help_text="In this order, and back as the load goes. None: requests wait, then are "
        "refused.",
    )
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

    cache_policy = ModelChoiceField(
        label="Cache policy",
        queryset=CachePolicy.objects.none(),
        required=False,
        empty_label="none: nothing is kept",
        help_text="By which its answers are kept and served again.",
    )
    similarity_min = FloatField(
        label="Least similarity here",
        **bounds_of(SIMILARITY_BOUND),
        required=False,
        help_text="For answers by meaning; raised by itself where too many hits turned out false. "
        "Empty: as the policy says.",
    )

    objective_availability_percent = FloatField(
        label="Answered, %",
        **bounds_of(OBJECTIVE_BOUNDS["objective_availability_percent"]),
        required=False,
        initial=99.99,
        help_text="What alerts and the page of service levels compare with; no request is "
        "treated otherwise. Empty: none.",
    )
    objective_first_token_p50_ms = IntegerField(
        label="First token of half of them within, ms",
        **bounds_of(OBJECTIVE_BOUNDS["objective_first_token_p50_ms"]),
        required=False,
        initial=200,
    )
    objective_first_token_p99_ms = IntegerField(
        label="First token of 99 in 100 within, ms",
        **bounds_of(OBJECTIVE_BOUNDS["objective_first_token_p99_ms"]),
        required=False,
        initial=2_000,
    )

    def prepare(self) -> None:
        mine = list_pools(self.scope.access).filter(organisation_id=self.scope.organisation.pk)
        policies = list_policies(self.scope.access)
        mine_too = policies.filter(organisation_id=self.scope.organisation.pk).order_by("name")
        self.fields["cache_policy"].queryset = mine_too  # type: ignore[attr-defined]
        self.pools = {pool.pk: pool for pool in mine.order_by("name")}

    @classmethod
    def initial_of(cls, row: Route) -> dict[str, Any]:
        return {
            **super().initial_of(row),
            "aliases": list(row.aliases),
            "degradation": _in_order(row.degradation),
            "targets": as_listed(row.targets.all()),
            "rules": [_without_ids(document_of(one)) for one in stored_rules_of(row.rules)],
        }

    def clean_degradation(self) -> list[str]:
        return _in_order(self.cleaned_data["degradation"])

    def clean_rules(self) -> list[dict[str, Any]]:
        """Rules with ids for names; who isn't known is refused by the service, at its place."""
        documents: list[dict[str, Any]] = self.cleaned_data["rules"]
        known = References(self.scope.organisation.pk, documents)
        for one in documents:
            one["when"] |= {kind: known.ids_of(kind, one["when"]) for kind in REFERENCES}
        return documents

    @cached_property
    def rule_rows(self) -> Sequence[RuleRow]:
        """The rules to draw, as the page's buttons have arranged them, with what they took."""
        rows = self._rules_drawn()
        if self.row is None or not any(one.id for one in rows):
            return rows
        splits = splits_for(self.scope, self.row)
        return [replace(one, took=words_of(one.id, splits) if one.id else "") for one in rows]

    def _rules_drawn(self) -> Sequence[RuleRow]:
        if isinstance(self.data, QueryDict) and self.is_bound:
            return arranged(rules_in(self.data), str(self.data.get("step", "")))
        documents = self.initial.get("rules") or []
        names = writable_names(self.scope, documents)
        return [saved_rule(index, one, names) for index, one in enumerate(documents)]

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
        if "rules" in found:
            found["rules"] = [self._sent_rule(one) for one in found["rules"]]
        return found

    def _sent_rule(self, rule: Mapping[str, Any]) -> dict[str, Any]:
        """A rule as a call names it: conditions that are given, pools by name."""
        when = {name: value for name, value in rule["when"].items() if value not in (None, [])}
        targets = [{**one, "pool": self.name_of(one["pool"])} for one in rule["targets"]]
        own = [{name: v for name, v in one.items() if v is not None} for one in targets]
        return {**rule, "when": when, "targets": own}

    def _sent(self, target: Mapping[str, Any]) -> dict[str, Any]:
        """The time-outs to name in a call: those that are set, and those to be cleared."""
        rows = [] if self.row is None else list(self.row.targets.all())
        saved = {(one.pool_id, one.tier): one for one in rows}
        before = saved.get(place_of(target))
        held = {} if before is None else times_of(before)
        is_tiered = target["tier"] or any(one.tier for one in rows if one.pool_id == target["pool"])
        return ({"tier": target["tier"]} if is_tiered else {}) | {
            name: target.get(name)
            for name in TIMEOUT_LABELS
            if target.get(name) is not None or held.get(name) is not None
        }

    def shown(self, name: str, value: Any) -> str:
        if name == "rules" and value:
            names = names_in(self.scope, value)
            return "; ".join(rule_words(one, names, self.name_of) for one in value)
        if name in ("aliases", "degradation"):
            return shown(name, [one.replace("_", " ") for one in value or ()])
        if name != "targets":
            return super().shown(name, value)
        times = {place_of(one): times_told(one) for one in value}
        return "; ".join(
            f"{self._label_of(place)} {weight}"
            + ("" if times[place] == ROUTES_OWN else f", {times[place]}")
            for place, weight in weights_told(value).items()
        )

    def _label_of(self, place: tuple[str, int]) -> str:
        pool, tier = place
        return f"{self.name_of(pool)} as {tier_words(tier)}" if tier else self.name_of(pool)

    def lines(self, base: Values | None, changes: Values) -> Sequence[Line]:
        """A line a field, and one for each target and each rule that differs."""
        parts = ("targets", "rules")
        rest = {name: value for name, value in changes.items() if name not in parts}
        found = list(super().lines(base, rest))
        before = base or {}
        if "targets" in changes:
            found += target_lines(before.get("targets") or [], changes["targets"], self._label_of)
        if "rules" in changes:
            old, new = before.get("rules") or [], changes["rules"]
            names = names_in(self.scope, [*old, *new])
            found += rule_lines(old, new, names, self.name_of) if old or new else []
        return found

    def place_error(self, name: str, messages: Sequence[str]) -> bool:
        field, *place = name.split(".")
        if field not in ("targets", "rules") or not place:
            return super().place_error(field if field in ("aliases",) else name, messages)
        what = "Rule" if field == "rules" else "Target"
        rest = [one.replace("_", " ") for one in place[1:] if one != "when" and not one.isdigit()]
        words = f", {', '.join(rest)}" if field == "rules" and rest else ""
        for message in messages:
            self.add_error(field, f"{what} {int(place[0]) + 1}{words}: {message}")
        return True


def _in_order(steps: Sequence[str]) -> list[str]:
    """Steps in the order in which they are taken."""
    return [step.value for step in DegradationStep if step.value in steps]


def _without_ids(rule: dict[str, Any]) -> dict[str, Any]:
    """A rule whose targets go by their pools, as the page has no ids of them."""
    bare = [{name: v for name, v in one.items() if name != "id"} for one in rule["targets"]]
    return {**rule, "targets": bare}
