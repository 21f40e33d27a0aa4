"""The shapes of cache policies and purges."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.route_rules import MatchSerializer
from controlplane.api.serializers.strict import (
    BoundedNumberField,
    OwnedSerializer,
    RowSerializer,
    StrictSerializer,
    whole,
)
from controlplane.compiler.caches import matches_of
from controlplane.decisions.caches import CALIBRATION_BOUNDS
from controlplane.decisions.route_rules import when_document
from controlplane.models.kinds import cache_scopes, cache_tiers, purge_kinds
from controlplane.models.rows import LABEL_LENGTH
from inference.contract.kinds import CacheTier, TaskClass
from inference.contract.params import CACHE_BOUNDS, CACHE_TTL_BOUND, MAX_BYPASS_RULES


class TtlSerializer(StrictSerializer):
    """For how many seconds answers are kept, by class of task; 0 is never."""

    def get_fields(self) -> dict[str, Any]:
        """One a class of task; what isn't named keeps its value."""
        return {one.value: whole(CACHE_TTL_BOUND, required=False) for one in TaskClass}

    def to_representation(self, instance: Mapping[str, int]) -> Any:
        return dict(instance)

    def to_internal_value(self, data: Any) -> Any:
        return dict(super().to_internal_value(data))


class BypassSerializer(MatchSerializer):
    """What a request must be for the caches to pass it over: all that is given."""

    def to_representation(self, instance: Any) -> Any:
        """Stored conditions as they are taken, references as ids."""
        (match,) = matches_of([instance])
        return when_document(match)


class PolicySerializer(OwnedSerializer):
    """Which answers are kept, where, for whom and for how long."""

    name = serializers.CharField(max_length=LABEL_LENGTH)
    tiers = serializers.ListField(
        child=serializers.ChoiceField(choices=cache_tiers()),
        max_length=len(CacheTier),
        required=False,
        help_text="Where answers are kept. None: nothing is kept or served, and what repeats is "
        "counted.",
    )
    scope = serializers.ChoiceField(
        choices=cache_scopes(),
        required=False,
        help_text="Who may be given whose answers. Each route of the policy has its own; with "
        "`shared` they are the whole organisation's on all its routes alike.",
    )
    ttl_s = TtlSerializer(required=False)
    stores_sampled = serializers.BooleanField(
        required=False,
        help_text="Keep answers that were drawn by chance: a temperature above 0, none given, or "
        "several at a time.",
    )
    stores_tool_calls = serializers.BooleanField(
        required=False, help_text="Keep answers that ask for tools to be called."
    )
    serves_out_of_budget = serializers.BooleanField(
        required=False, help_text="Serve what is kept also when a budget would refuse."
    )
    similarity_min = BoundedNumberField(
        CACHE_BOUNDS["similarity_min"],
        required=False,
        help_text="How alike two questions must be for the semantic tier, where a route hasn't a "
        "threshold of its own.",
    )
    check_percent = BoundedNumberField(
        CACHE_BOUNDS["check_percent"],
        required=False,
        help_text="Of semantic hits so many are answered anew and compared.",
    )
    false_hits_max_percent = BoundedNumberField(
        CALIBRATION_BOUNDS["false_hits_max_percent"],
        required=False,
        allow_null=True,
        help_text="Where more semantic hits turn out false, the route's threshold is raised; null: "
        "never by itself.",
    )
    stale_s = whole(
        CACHE_BOUNDS["stale_s"],
        required=False,
        help_text="For so long past its time an answer is served while it is renewed.",
    )
    bypass = BypassSerializer(
        many=True,
        required=False,
        max_length=MAX_BYPASS_RULES,
        help_text="Requests that fit one of these are neither served nor kept. Replaces the list.",
    )
    max_entry_bytes = whole(CACHE_BOUNDS["max_entry_bytes"], required=False)
    memory_percent = whole(
        CACHE_BOUNDS["memory_percent"],
        required=False,
        help_text="Of each gateway's memory for answers it takes so much at most.",
    )
    edge_s = whole(
        CACHE_BOUNDS["edge_s"],
        required=False,
        help_text="For so long a cache in front may keep what is published; 0 is not at all.",
    )
    is_enabled = serializers.BooleanField(required=False)
    routes = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        source="route_names",
        help_text="Names of those that have it.",
    )

    def _problem_with(self, name: str, value: Any, fixed: frozenset[str]) -> str | None:
        # a caller that sends back what it read can't know which routes were given it since
        if name == "routes" and self.instance is not None:
            return None
        return super()._problem_with(name, value, fixed)


class PurgeSerializer(RowSerializer):
    """What was taken out of the caches. It is never changed, and forgotten after 31 days."""

    kind = serializers.ChoiceField(choices=purge_kinds())
    value = serializers.CharField(
        max_length=255,
        help_text="Name or id of a policy, a namespace, the beginning of namespaces, a tag, or the "
        "id of an entry as an answer told it.",
    )
    reason = serializers.CharField(
        required=False, allow_blank=True, max_length=1_000, help_text="For the audit log."
    )
    organisation = serializers.CharField(
        write_only=True, required=False, help_text="Name or id; needed only if you have several."
    )
    takes_out = serializers.CharField(read_only=True, help_text="The same in words.")
    epoch = serializers.CharField(
        read_only=True, help_text="Counts up; an entry lives under the newest that is about it."
    )
    made_by = serializers.CharField(read_only=True)
