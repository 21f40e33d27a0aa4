"""The forms of a cache policy and of a purge."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

from django.forms import (
    BooleanField,
    CharField,
    CheckboxSelectMultiple,
    ChoiceField,
    FloatField,
    Form,
    HiddenInput,
    IntegerField,
    ModelChoiceField,
    MultipleChoiceField,
)
from django.http import QueryDict

from controlplane.compiler.caches import matches_of
from controlplane.console.bypass import BypassField, as_rules, bypass_words, saved_bypass
from controlplane.console.diffs import Line
from controlplane.console.forms.base import NounForm, Values, bounds_of
from controlplane.console.rule_lines import names_in, writable_names
from controlplane.console.rules import RuleRow, arranged, rules_in
from controlplane.console.scope import Scope
from controlplane.decisions.caches import (
    CALIBRATION_BOUNDS,
    DEFAULT_TTL_S,
    PURGE_WORDS,
    SCOPE_WORDS,
    TIER_WORDS,
    seconds_words,
    tiers_words,
)
from controlplane.decisions.route_rules import REFERENCES, when_document
from controlplane.models import CachePolicy, Route
from controlplane.models.rows import LABEL_LENGTH
from controlplane.selectors.cache_usage import CacheRange
from controlplane.selectors.caches import list_policies
from controlplane.selectors.routes import list_routes
from controlplane.services.route_rules import References
from inference.contract.kinds import CacheScope, CacheTier, PurgeKind, TaskClass
from inference.contract.params import CACHE_BOUNDS, CACHE_TTL_BOUND

_TTL = {f"ttl_{one.value}_s": one.value for one in TaskClass}
"""Fields of the form, and the class of task each is of."""

_PERCENT = ("check_percent", "false_hits_max_percent")
_RANGES = {
    CacheRange.DAY: "Last 24 hours",
    CacheRange.WEEK: "Last 7 days",
    CacheRange.MONTH: "Last 30 days",
}


def _ttl(task: TaskClass, label: str) -> IntegerField:
    return IntegerField(
        label=f"{label}, s", **bounds_of(CACHE_TTL_BOUND), initial=DEFAULT_TTL_S[task.value]
    )


class PolicyForm(NounForm):
    """A cache policy. What may be kept, for whom, and what is passed over need a reason."""

    risky: ClassVar[frozenset[str]] = frozenset(
        (
            *("tiers", "scope", "is_enabled", "stores_sampled", "stores_tool_calls"),
            *("similarity_min", "bypass", "edge_s", "stale_s"),
        )
    )
    groups = (
        ("For how long, by class of task", tuple(_TTL)),
        ("What is kept", ("stores_sampled", "stores_tool_calls", "max_entry_bytes")),
        ("Answers by meaning", ("similarity_min", "check_percent", "false_hits_max_percent")),
        ("How it serves", ("serves_out_of_budget", "stale_s", "memory_percent", "edge_s")),
        ("Bypass", ("bypass",)),
    )

    name = CharField(label="Name", max_length=LABEL_LENGTH, help_text="What it is for.")
    is_enabled = BooleanField(
        label="On",
        required=False,
        initial=True,
        help_text="Off: nothing is served from it or kept.",
    )
    tiers = MultipleChoiceField(
        label="Keeps answers",
        choices=list(TIER_WORDS.items()),
        widget=CheckboxSelectMultiple,
        required=False,
        initial=[CacheTier.LOCAL.value, CacheTier.SHARED.value],
        help_text="None: it keeps and serves nothing, and counts what repeats, to see what it "
        "would be worth.",
    )
    scope = ChoiceField(
        label="Answers are shared by",
        choices=list(SCOPE_WORDS.items()),
        initial=CacheScope.PROJECT.value,
        help_text="Who may be given an answer that somebody else of them asked for.",
    )
    ttl_default_s = _ttl(TaskClass.DEFAULT, "Default")
    ttl_code_s = _ttl(TaskClass.CODE, "Code")
    ttl_factual_s = _ttl(TaskClass.FACTUAL, "Factual")
    ttl_extraction_s = _ttl(TaskClass.EXTRACTION, "Extraction")
    ttl_creative_s = _ttl(TaskClass.CREATIVE, "Creative")
    stores_sampled = BooleanField(
        label="Also answers drawn by chance",
        required=False,
        help_text="A temperature above 0, or none given, or several answers at a time: callers "
        "then get the same answer again where they may want another.",
    )
    stores_tool_calls = BooleanField(
        label="Also answers that call tools",
        required=False,
        help_text="A call that was served from a cache is carried out again.",
    )
    max_entry_bytes = IntegerField(
        label="Largest answer, bytes",
        **bounds_of(CACHE_BOUNDS["max_entry_bytes"]),
        initial=1_048_576,
    )
    similarity_min = FloatField(
        label="Least similarity",
        **bounds_of(CACHE_BOUNDS["similarity_min"]),
        initial=0.92,
        help_text="1 is the same. Routes that turn out to need more get a threshold of their own.",
    )
    check_percent = FloatField(
        label="Checked, % of hits by meaning",
        **bounds_of(CACHE_BOUNDS["check_percent"]),
        initial=2.0,
        help_text="These are answered anew and compared, which tells how many hits are false.",
    )
    false_hits_max_percent = FloatField(
        label="False hits, at most, %",
        **bounds_of(CALIBRATION_BOUNDS["false_hits_max_percent"]),
        required=False,
        initial=1.0,
        help_text="Where the checks show more, the route's least similarity is raised. Empty: "
        "never by itself.",
    )
    serves_out_of_budget = BooleanField(
        label="Serves when a budget is used up",
        required=False,
        initial=True,
        help_text="What is kept costs nothing.",
    )
    stale_s = IntegerField(
        label="Served while it is renewed, s",
        **bounds_of(CACHE_BOUNDS["stale_s"]),
        initial=0,
        help_text="For so long past its time. 0: never.",
    )
    memory_percent = IntegerField(
        label="Memory, % of each gateway's",
        **bounds_of(CACHE_BOUNDS["memory_percent"]),
        initial=100,
    )
    edge_s = IntegerField(
        label="Kept by caches in front, s",
        **bounds_of(CACHE_BOUNDS["edge_s"]),
        initial=0,
        help_text="Of published prompts alone. 0: not at all.",
    )
    bypass = BypassField(label="Bypass", required=False)

    @classmethod
    def initial_of(cls, row: CachePolicy) -> dict[str, Any]:
        return {
            **super().initial_of(row),
            "tiers": list(row.tiers),
            **{name: row.ttl_s.get(task, DEFAULT_TTL_S[task]) for name, task in _TTL.items()},
            "bypass": [when_document(one) for one in matches_of(row.bypass)],
        }

    @staticmethod
    def settings_of(values: Values) -> dict[str, Any]:
        """Values as the service takes them, times by class of task."""
        times = {task: values[name] for name, task in _TTL.items() if name in values}
        rest = {name: value for name, value in values.items() if name not in _TTL}
        return {**rest, "ttl_s": times} if times else rest

    def clean_bypass(self) -> list[dict[str, Any]]:
        """Conditions with ids for names; who isn't known is refused by the service."""
        documents: list[dict[str, Any]] = self.cleaned_data["bypass"]
        known = References(self.scope.organisation.pk, as_rules(documents))
        return [
            {**one, **{kind: known.ids_of(kind, one) for kind in REFERENCES}} for one in documents
        ]

    @cached_property
    def rule_rows(self) -> Sequence[RuleRow]:
        """The conditions to draw, as the page's buttons have arranged them."""
        if isinstance(self.data, QueryDict) and self.is_bound:
            return arranged(rules_in(self.data), str(self.data.get("step", "")))
        saved = self.initial.get("bypass") or []
        names = writable_names(self.scope, as_rules(saved))
        return [saved_bypass(index, one, names) for index, one in enumerate(saved)]

    def document(self, values: Values) -> dict[str, Any]:
        found = self.settings_of(super().document(values))
        if "bypass" in found:
            found["bypass"] = [_given(one) for one in found["bypass"]]
        return found

    def shown(self, name: str, value: Any) -> str:
        if name == "tiers":
            return tiers_words(value or ())
        if name in (*_TTL, "stale_s", "edge_s") and value is not None:
            return seconds_words(value)
        if name in _PERCENT and value is not None:
            return f"{value:g} %"
        if name == "max_entry_bytes" and value is not None:
            return f"{value:,} bytes"
        if name == "bypass" and value:
            names = names_in(self.scope, as_rules(value))
            return "; ".join(bypass_words(one, names) for one in value)
        return super().shown(name, value)

    def unset(self, name: str) -> str:
        words = {"bypass": "nothing", "false_hits_max_percent": "not held to any"}
        return words.get(name, super().unset(name))

    def label(self, name: str) -> str:
        if name in _TTL:
            return f"Kept, {_TTL[name]}"
        return super().label(name)

    def lines(self, base: Values | None, changes: Values) -> Sequence[Line]:
        """A line a field; a new policy says nothing of conditions it doesn't have."""
        told = {name: value for name, value in changes.items() if name != "bypass" or base or value}
        return super().lines(base, told)

    def place_error(self, name: str, messages: Sequence[str]) -> bool:
        field, *place = name.split(".")
        if field == "ttl_s" and place:
            return super().place_error(f"ttl_{place[0]}_s", messages)
        if field in ("tiers", "bypass") and place:
            what = f"Bypass {int(place[0]) + 1}: " if field == "bypass" else ""
            return super().place_error(field, [f"{what}{message}" for message in messages])
        return super().place_error(name, messages)


def _given(when: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in when.items() if value not in (None, [])}


class PurgeForm(NounForm):
    """What to take out of the caches. It can't be undone: answers have to be asked for anew."""

    risky: ClassVar[frozenset[str]] = frozenset(("kind", "value"))

    kind = ChoiceField(
        label="Takes out", choices=list(PURGE_WORDS.items()), initial=PurgeKind.NAMESPACE.value
    )
    value = CharField(
        label="Which",
        max_length=255,
        help_text="Name or id of a policy, a namespace or how namespaces begin, a tag, or the id "
        "of an entry as an answer told it.",
    )

    def prepare(self) -> None:
        self.fields["value"].widget.attrs["list"] = "policies"

    @property
    def suggestions(self) -> Sequence[str]:
        """Names of policies, for the browser to offer."""
        mine = list_policies(self.scope.access).filter(organisation=self.scope.organisation)
        return list(mine.order_by("name").values_list("name", flat=True)[:100])


class SavingsForm(Form):
    """The question of the page of savings: how far back, and of which route."""

    range = ChoiceField(label="Time", choices=[(one.value, _RANGES[one]) for one in CacheRange])
    route = ModelChoiceField(
        label="Route", queryset=Route.objects.none(), required=False, empty_label="every route"
    )
    organisation = CharField(required=False, widget=HiddenInput)

    def __init__(self, asked: QueryDict, *, scope: Scope) -> None:
        usual = {"range": CacheRange.DAY.value}
        super().__init__({**usual, **{name: one for name, one in asked.items() if one}})
        mine = list_routes(scope.access).filter(organisation_id=scope.organisation.pk)
        routes = self.fields["route"]
        assert isinstance(routes, ModelChoiceField)
        routes.queryset = mine.prefetch_related(None).order_by("name")

    @property
    def asked(self) -> CacheRange:
        """The valid range."""
        return CacheRange(self.cleaned_data["range"])

    def as_api(self) -> QueryDict:
        """The same question as the API takes it."""
        told = QueryDict(mutable=True)
        told["range"] = self.asked.value
        if self.cleaned_data["route"] is not None:
            told["route"] = self.cleaned_data["route"].pk
        return told
