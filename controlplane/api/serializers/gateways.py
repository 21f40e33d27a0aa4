"""The shape of who runs what, and of what is wanted of each."""

from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.strict import StrictSerializer
from controlplane.decisions.propagation import DrainState
from controlplane.models.kinds import choices_of

_LARGEST = 2**31 - 1


class GatewaySerializer(StrictSerializer):
    """One gateway: a parent and its serving processes, its children."""

    name = serializers.CharField(read_only=True)
    is_drained = serializers.BooleanField(
        required=False, help_text="What is wanted: true has it say on /ready that it wants no more."
    )
    restart_generation = serializers.IntegerField(
        min_value=0,
        max_value=_LARGEST,
        required=False,
        help_text="What is wanted: make it greater to have its processes replaced one by one.",
    )
    state = serializers.ChoiceField(
        choices=choices_of(DrainState),
        read_only=True,
        help_text="`drained`: every child says so and has nothing under way.",
    )
    is_draining = serializers.BooleanField(
        read_only=True, allow_null=True, help_text="Told by every live child; null without one."
    )
    inflight = serializers.IntegerField(
        read_only=True,
        allow_null=True,
        help_text="Requests under way; to the platform's administrators alone.",
    )
    restart_generation_reached = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="The oldest a live child was started for."
    )
    is_live = serializers.BooleanField(
        read_only=True, help_text="Whether every child that was seen reports."
    )
    is_applied = serializers.BooleanField(
        read_only=True, help_text="Whether all run on the current version, or a newer one."
    )
    children_live = serializers.IntegerField(read_only=True)
    children_seen = serializers.IntegerField(
        read_only=True, help_text="0: not seen lately, but something is wanted of it."
    )
    lineage = serializers.CharField(read_only=True, allow_null=True)
    version = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="The oldest that a living child runs on."
    )
    refused_version = serializers.IntegerField(read_only=True, allow_null=True)
    refused_at = serializers.CharField(
        read_only=True, allow_null=True, help_text="Section, record and field at fault in it."
    )
    refused_why = serializers.CharField(
        read_only=True,
        allow_null=True,
        help_text="To the platform's administrators alone: it may name others' rows.",
    )
    as_of = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="When any of its children last wrote."
    )

    def _problem_with(self, name: str, value: Any, fixed: frozenset[str]) -> str | None:
        # a caller that sends back what it read can't know what has changed since
        if name in fixed and name != "name" and self.instance is not None:
            return None
        return super()._problem_with(name, value, fixed)


class GatewaysSerializer(serializers.Serializer[object]):
    as_of = serializers.DateTimeField()
    lineage = serializers.CharField(allow_null=True)
    version = serializers.IntegerField(
        allow_null=True, help_text="The current version; null if there is none or nobody can tell."
    )
    seen = serializers.IntegerField(
        allow_null=True, help_text="Gateways seen lately that did not sign off."
    )
    live = serializers.IntegerField(allow_null=True)
    applied = serializers.IntegerField(
        allow_null=True, help_text="Those that live and run on the current version."
    )
    gateways = GatewaySerializer(
        many=True,
        allow_null=True,
        help_text="Null if the state store does not answer, and to roles of teams and projects.",
    )
