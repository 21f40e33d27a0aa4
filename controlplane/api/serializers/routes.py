"""The shape of a route and of its targets."""

from rest_framework import serializers

from controlplane.api.serializers.route_rules import RuleSerializer
from controlplane.api.serializers.route_targets import TargetSerializer
from controlplane.api.serializers.strict import (
    BoundedNumberField,
    NameOrIdField,
    OwnedSerializer,
    whole,
)
from controlplane.decisions.service_levels import OBJECTIVE_BOUNDS
from controlplane.models.kinds import accountings, degradation_steps, strategies, task_classes
from controlplane.models.rows import public_name
from inference.contract.params import MAX_ALIASES, MAX_RULES, ROUTE_BOUNDS, SIMILARITY_BOUND


class RouteSerializer(OwnedSerializer):
    name = serializers.CharField(max_length=128, help_text="What callers write in `model`.")
    aliases = serializers.ListField(
        child=serializers.CharField(max_length=128, validators=[public_name]),
        max_length=MAX_ALIASES,
        required=False,
        help_text="Further names callers may write.",
    )
    targets = TargetSerializer(many=True, help_text="Where requests go that no rule matches.")
    rules = RuleSerializer(
        many=True,
        required=False,
        max_length=MAX_RULES,
        help_text="The first enabled one that matches decides. Left out, the route keeps its own.",
    )
    strategy = serializers.ChoiceField(
        choices=strategies(),
        required=False,
        help_text="`least_work` sends to the worker with the shortest wait, whichever target's; "
        "weights decide among equals. `weighted` divides requests by weight. `session_affinity` "
        "keeps a session, end user or key with one worker, `prefix_affinity` sends to whoever has "
        "most of the prompt cached, both within 1.25 times a worker's share. `lowest_latency` "
        "sends to whoever gave first tokens soonest, `cheapest` to the lowest known price.",
    )
    is_enabled = serializers.BooleanField(required=False)
    accounting = serializers.ChoiceField(choices=accountings(), required=False)
    default_max_output_tokens = whole(ROUTE_BOUNDS["default_max_output_tokens"], required=False)
    max_attempts = whole(ROUTE_BOUNDS["max_attempts"], required=False)
    connect_timeout_ms = whole(ROUTE_BOUNDS["connect_timeout_ms"], required=False)
    first_byte_timeout_ms = whole(ROUTE_BOUNDS["first_byte_timeout_ms"], required=False)
    idle_timeout_ms = whole(ROUTE_BOUNDS["idle_timeout_ms"], required=False)
    total_timeout_ms = whole(ROUTE_BOUNDS["total_timeout_ms"], required=False, allow_null=True)
    retry_budget_percent = whole(
        ROUTE_BOUNDS["retry_budget_percent"],
        required=False,
        help_text="At most this share of recent requests, and a few, may be attempted again.",
    )
    max_wait_penalty = BoundedNumberField(
        ROUTE_BOUNDS["max_wait_penalty"],
        required=False,
        help_text="How much longer a wait `least_work` accepts at a worker that has most of the "
        "prompt cached; 1 is one second of prefill or one full batch.",
    )
    max_queue_wait_ms = whole(
        ROUTE_BOUNDS["max_queue_wait_ms"],
        required=False,
        help_text="How long a request waits at most for a worker that is free; 0 is not at all.",
    )
    max_queued = whole(
        ROUTE_BOUNDS["max_queued"],
        required=False,
        help_text="How many requests may wait at one gateway process.",
    )
    hedge_after_ms = whole(
        ROUTE_BOUNDS["hedge_after_ms"],
        required=False,
        allow_null=True,
        help_text="A request without a first byte by then is sent to a second worker too, and the "
        "first to answer is taken; both are billed. Null is never.",
    )
    keep_alive_ms = whole(
        ROUTE_BOUNDS["keep_alive_ms"],
        required=False,
        allow_null=True,
        help_text="A stream that is silent for so long gets a comment, before its first content "
        "too, and no other target is tried after it. Null: only once the answer has begun.",
    )
    default_task = serializers.ChoiceField(
        choices=task_classes(),
        required=False,
        help_text="Of requests that neither say what kind of answer they want nor have a key that "
        "does.",
    )
    cache_policy = NameOrIdField(
        required=False,
        allow_null=True,
        help_text="Name or id of the policy by which answers are kept; null: none are.",
    )
    cache_policy_id = serializers.CharField(read_only=True, allow_null=True)
    similarity_min = BoundedNumberField(
        SIMILARITY_BOUND,
        required=False,
        allow_null=True,
        help_text="How alike two questions must be here for the semantic tier; raised where too "
        "many hits turned out false. Null: as the policy says.",
    )
    objective_availability_percent = BoundedNumberField(
        OBJECTIVE_BOUNDS["objective_availability_percent"],
        required=False,
        allow_null=True,
        help_text="Share of requests that are to be answered; null: no objective.",
    )
    objective_first_token_p50_ms = whole(
        OBJECTIVE_BOUNDS["objective_first_token_p50_ms"],
        required=False,
        allow_null=True,
        help_text="Within which half of the streams are to have their first token.",
    )
    objective_first_token_p99_ms = whole(
        OBJECTIVE_BOUNDS["objective_first_token_p99_ms"],
        required=False,
        allow_null=True,
        help_text="Within which 99 in 100 streams are to have their first token.",
    )
    degradation = serializers.ListField(
        child=serializers.ChoiceField(choices=degradation_steps()),
        required=False,
        help_text="What it does less well, step by step, while its pools are saturated: shorter "
        "answers of class `batch`, a smaller model, refusing `batch`, refusing `default`.",
    )
