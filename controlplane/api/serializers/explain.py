"""The shapes of a question about one request and of its answer."""

from enum import StrEnum
from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.strict import StrictSerializer
from controlplane.models.kinds import choices_of
from inference.contract.kinds import (
    BreakerState,
    BudgetAction,
    BudgetPeriod,
    DegradationStep,
    Endpoint,
    Enforcement,
    ExperimentUnit,
    LimitSubject,
    LimitUnit,
    LimitWindow,
    PriorityClass,
    TaskClass,
    WorkerState,
)
from inference.decisions.experiments import Unexposed
from inference.decisions.explain import Standby
from inference.decisions.mismatches import RuleState
from inference.decisions.plan import LeftOutReason, RefusalCode

MAX_PROMPT = 200_000
_MOST_TOKENS = 2**31 - 1
_MONEY = "Whole nano-USD as text; null has no price."


class DraftAskedSerializer(StrictSerializer):
    route = serializers.CharField(max_length=255, help_text="Name or id.")
    changes = serializers.DictField(
        child=serializers.JSONField(allow_null=True), help_text="As the body of PATCH takes them."
    )


class QuestionSerializer(StrictSerializer):
    """One request. Nothing of it is stored; of the prompt only its length is used."""

    organisation = serializers.CharField(
        required=False, max_length=255, help_text="Name or id; needed only if you have several."
    )
    model = serializers.CharField(max_length=128, help_text="What the caller writes in `model`.")
    key = serializers.CharField(
        required=False, max_length=255, help_text="Name or id of the key it comes with."
    )
    project = serializers.CharField(
        required=False,
        max_length=255,
        help_text="Name or id, in place of a key: one that may use every route.",
    )
    endpoint = serializers.ChoiceField(
        choices=[one.value for one in Endpoint], default=Endpoint.CHAT.value
    )
    prompt = serializers.CharField(
        required=False, max_length=MAX_PROMPT, trim_whitespace=False, allow_blank=True
    )
    prompt_tokens = serializers.IntegerField(
        required=False, min_value=0, max_value=_MOST_TOKENS, help_text="In place of a prompt."
    )
    max_tokens = serializers.IntegerField(
        required=False, allow_null=True, min_value=0, max_value=_MOST_TOKENS
    )
    answers = serializers.IntegerField(default=1, min_value=1, max_value=128, help_text="`n`.")
    end_user = serializers.CharField(required=False, max_length=255)
    session = serializers.CharField(required=False, max_length=255)
    tags = serializers.ListField(
        child=serializers.CharField(max_length=64), required=False, max_length=64
    )
    priority = serializers.ChoiceField(choices=choices_of(PriorityClass), required=False)
    task = serializers.ChoiceField(choices=choices_of(TaskClass), required=False)
    headers = serializers.DictField(
        child=serializers.CharField(max_length=255, allow_blank=True), required=False
    )
    at = serializers.DateTimeField(required=False, help_text="When it comes; now without it.")
    process = serializers.CharField(
        required=False, max_length=255, help_text="The gateway process to decide as."
    )
    plan_u = serializers.FloatField(
        default=0.5, min_value=0, max_value=0.9999999999, help_text="The chance of the plan."
    )
    worker_u = serializers.FloatField(
        default=0.5, min_value=0, max_value=0.9999999999, help_text="The chance of the choice."
    )
    draft = DraftAskedSerializer(required=False, help_text="Explain with this edit made.")

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "key" in attrs and "project" in attrs:
            raise serializers.ValidationError({"project": ["Say a key or a project, not both."]})
        if "key" not in attrs and "project" not in attrs:
            raise serializers.ValidationError({"key": ["Say whose request it is."]})
        if "prompt" in attrs and "prompt_tokens" in attrs:
            raise serializers.ValidationError({"prompt_tokens": ["Say one of the two."]})
        return attrs


def _word(
    kind: type[StrEnum], help_text: str = "", *, allow_null: bool = False
) -> serializers.CharField:
    """One word of a vocabulary; enumerated in its description."""
    told = f"{help_text} " if help_text else ""
    words = ", ".join(f"`{one.value}`" for one in kind)
    return serializers.CharField(allow_null=allow_null, help_text=f"{told}One of {words}.")


class MismatchSerializer(serializers.Serializer[Any]):
    field = serializers.CharField()
    wanted = serializers.ListField(child=serializers.CharField(), help_text="Any one of these.")
    found = serializers.ListField(child=serializers.CharField())


class RuleVerdictSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    state = _word(RuleState)
    mismatches = MismatchSerializer(many=True)


class WorkerVerdictSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    state = _word(WorkerState)
    standby = _word(Standby, "Why it can't be chosen, or null.", allow_null=True)
    breaker = _word(BreakerState)
    inflight = serializers.IntegerField(
        allow_null=True, help_text="Of this process; null is not known."
    )
    peers_inflight = serializers.IntegerField(allow_null=True, help_text="Of all others.")
    slots = serializers.IntegerField(
        allow_null=True, help_text="How many this process may have there."
    )
    concurrency = serializers.IntegerField()
    kv_used = serializers.FloatField(allow_null=True)
    wait = serializers.FloatField(help_text="1 is a second of prefill or one full batch.")
    wait_prefill = serializers.FloatField()
    wait_requests = serializers.FloatField()
    wait_kv = serializers.FloatField()
    share = serializers.FloatField(help_text="Of all chances.")
    is_chosen = serializers.BooleanField()


class TargetVerdictSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    pool_id = serializers.CharField()
    pool = serializers.CharField(allow_null=True)
    model_id = serializers.CharField(allow_null=True)
    model = serializers.CharField(allow_null=True)
    weight = serializers.IntegerField()
    tier = serializers.IntegerField()
    place = serializers.IntegerField(
        allow_null=True, help_text="In the plan of this chance, from 0; null: it is left out."
    )
    left_out = _word(LeftOutReason, allow_null=True)
    switch_id = serializers.CharField(allow_null=True)
    bridge = _word(
        Endpoint,
        "In the words of which endpoint it is asked, if its pool lacks the request's; else null.",
        allow_null=True,
    )
    share = serializers.FloatField(help_text="Of all chances.")
    variant_id = serializers.CharField(
        allow_null=True, help_text="The experiment's variant whose target it is, or null."
    )
    stands_in = serializers.BooleanField(
        help_text="It is the control's, in case those of the variant fail."
    )
    cost_max_nanousd = serializers.CharField(allow_null=True, help_text=_MONEY)
    max_context_tokens = serializers.IntegerField(allow_null=True)
    workers = WorkerVerdictSerializer(many=True)


class VariantToldSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    share_bp = serializers.IntegerField(help_text="Of 10,000.")


class AssignmentSerializer(serializers.Serializer[Any]):
    """What an experiment on the route makes of the request."""

    id = serializers.CharField()
    name = serializers.CharField()
    phase = serializers.IntegerField()
    unit = _word(ExperimentUnit)
    unit_id = serializers.CharField(
        allow_null=True, help_text="A digest of the unit; null: the request names none."
    )
    place = serializers.FloatField(allow_null=True, help_text="In the layer, from 0 to 1.")
    draw = serializers.FloatField(allow_null=True, help_text="From 0 to 1; null: it takes no part.")
    variant_id = serializers.CharField(allow_null=True)
    variant = serializers.CharField(allow_null=True)
    share_bp = serializers.IntegerField(allow_null=True, help_text="The variant's, of 10,000.")
    parameters = serializers.DictField(
        child=serializers.CharField(), help_text="Members of the body it sets, as JSON."
    )
    why_not = _word(Unexposed, "Why it takes no part, or null.", allow_null=True)
    variants = VariantToldSerializer(many=True)


class BudgetVerdictSerializer(serializers.Serializer[Any]):
    """A budget that bears on the request."""

    id = serializers.CharField()
    name = serializers.CharField()
    action = _word(BudgetAction)
    counts_for = serializers.ListField(
        child=serializers.CharField(), help_text="Those it counts it for, one for each scope."
    )
    period = _word(BudgetPeriod)
    is_rolling = serializers.BooleanField()
    ends_at = serializers.DateTimeField(
        allow_null=True, help_text="When the period of this request ends; null: it rolls."
    )
    amount_nanousd = serializers.CharField(help_text=f"{_MONEY} What may be spent in its period.")
    left_nanousd = serializers.CharField(
        help_text=f"{_MONEY} All of it where `is_spending_known` is false."
    )
    reserves_nanousd = serializers.CharField(
        allow_null=True, help_text=f"{_MONEY} Null: its cost is unknown, which is refused."
    )
    is_short = serializers.BooleanField()


class LimitVerdictSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    subject = _word(LimitSubject)
    counted_for = serializers.CharField(allow_blank=True)
    unit = _word(LimitUnit)
    window = _word(LimitWindow, allow_null=True)
    amount = serializers.IntegerField()
    enforcement = _word(Enforcement)
    must_be_left = serializers.IntegerField()
    is_taken = serializers.IntegerField()
    is_short = serializers.BooleanField(help_text="Even unused it is too small for the request.")


class RefusalToldSerializer(serializers.Serializer[Any]):
    code = _word(RefusalCode)
    message = serializers.CharField(allow_blank=True)
    switch_id = serializers.CharField(allow_null=True)
    rule_id = serializers.CharField(allow_null=True)


class StandingSerializer(serializers.Serializer[Any]):
    tags = serializers.ListField(child=serializers.CharField())
    priority = _word(PriorityClass)
    task = _word(TaskClass)


class ConfigurationToldSerializer(serializers.Serializer[Any]):
    lineage = serializers.CharField()
    version = serializers.IntegerField()
    is_draft = serializers.BooleanField()


class FleetToldSerializer(serializers.Serializer[Any]):
    process = serializers.CharField(
        allow_null=True, help_text="Which gateway process sees it so; null: none reports."
    )
    processes = serializers.ListField(child=serializers.CharField())
    age_s = serializers.FloatField(allow_null=True, help_text="Of its word; null without one.")
    is_load_known = serializers.BooleanField(
        help_text="False: as if idle; nobody reports, or it is not for the caller to know."
    )


class RouteToldSerializer(serializers.Serializer[Any]):
    id = serializers.CharField()
    name = serializers.CharField()
    strategy = serializers.CharField()


class ChoiceToldSerializer(serializers.Serializer[Any]):
    target = serializers.CharField()
    pool = serializers.CharField()
    worker = serializers.CharField()
    candidates = serializers.IntegerField()
    is_panic = serializers.BooleanField()


class ExplanationSerializer(serializers.Serializer[Any]):
    as_of = serializers.DateTimeField()
    at = serializers.DateTimeField(help_text="When the request comes.")
    configuration = ConfigurationToldSerializer()
    fleet = FleetToldSerializer()
    facts = serializers.DictField(help_text="What is known of the request; as in its record.")
    standing = StandingSerializer()
    refusal = RefusalToldSerializer(allow_null=True)
    route = RouteToldSerializer(allow_null=True)
    rules = RuleVerdictSerializer(many=True)
    rule_id = serializers.CharField(allow_null=True)
    experiments = AssignmentSerializer(many=True)
    targets = TargetVerdictSerializer(many=True)
    choice = ChoiceToldSerializer(allow_null=True)
    waits = serializers.BooleanField(help_text="All it could be sent to are full: it waits.")
    is_shed = serializers.BooleanField(
        help_text="Its route is too busy for its class; it would be refused."
    )
    degraded = serializers.ListField(
        child=_word(DegradationStep),
        help_text="Steps of degradation that change how it is served.",
    )
    unserved = serializers.FloatField(help_text="The share of chances without a worker.")
    prompt_tokens_max = serializers.IntegerField(allow_null=True)
    output_tokens_max = serializers.IntegerField(allow_null=True)
    cost_max_nanousd = serializers.CharField(allow_null=True, help_text=_MONEY)
    limits = LimitVerdictSerializer(many=True)
    refused_by_limit = serializers.CharField(
        allow_null=True, help_text="The limit that refuses it however little is used of it."
    )
    passed_over_limits = serializers.ListField(
        child=serializers.CharField(), help_text="For these limits of models, others were taken."
    )
    budgets = BudgetVerdictSerializer(many=True)
    refused_by_budget = serializers.CharField(
        allow_null=True, help_text="The budget that refuses it however little is spent of it."
    )
    passed_over_budgets = serializers.ListField(
        child=serializers.CharField(), help_text="For these budgets of models, others were taken."
    )
    record = serializers.DictField(
        allow_null=True, help_text="The decision record, as the gateway would write it."
    )
    is_spending_known = serializers.BooleanField(
        help_text="Whether what is left of budgets was asked of the state store; it is told to "
        "roles of the whole organisation."
    )
    notes = serializers.ListField(child=serializers.CharField(), help_text="What isn't known.")
