"""The shape of a service level: what a route promises, and how it keeps it."""

from typing import Any

from rest_framework import serializers

from controlplane.decisions.service_levels import Objective


class MissedSerializer(serializers.Serializer[Any]):
    """One objective, as it was kept for 30 days."""

    objective = serializers.ChoiceField(choices=[(one.value, one.value) for one in Objective])
    missed_share = serializers.FloatField(source="share", help_text="Of what it is about; 0 to 1.")
    allowed_share = serializers.FloatField(source="may")
    left_percent = serializers.FloatField(
        help_text="Of its error budget; below 0 more was missed than may."
    )


class BurnSerializer(serializers.Serializer[Any]):
    """The objective that is missed the fastest now."""

    objective = serializers.CharField()
    rate = serializers.FloatField(help_text="The lower of both windows; 1 lasts for 30 days.")
    rate_1h = serializers.FloatField(source="long.burn")
    rate_5min = serializers.FloatField(source="short.burn")


class ServiceLevelSerializer(serializers.Serializer[Any]):
    """How one route keeps its objectives; they are set at the route itself."""

    id = serializers.CharField(source="route.pk", help_text="The route's.")
    route = serializers.CharField(source="route.name")
    organisation_id = serializers.CharField(source="route.organisation_id")
    objective_availability_percent = serializers.FloatField(
        source="route.objective_availability_percent", allow_null=True
    )
    objective_first_token_p50_ms = serializers.IntegerField(
        source="route.objective_first_token_p50_ms", allow_null=True
    )
    objective_first_token_p99_ms = serializers.IntegerField(
        source="route.objective_first_token_p99_ms", allow_null=True
    )
    requests = serializers.IntegerField(help_text="In the last 30 days.")
    failures = serializers.IntegerField(help_text="Of these, by us or a worker.")
    availability_percent = serializers.FloatField(allow_null=True, help_text="Null: no request.")
    first_token_p50_ms = serializers.FloatField(source="p50_ms", allow_null=True)
    first_token_p99_ms = serializers.FloatField(source="p99_ms", allow_null=True)
    missed = MissedSerializer(many=True, help_text="What too little is known of is left out.")
    left_percent = serializers.FloatField(
        allow_null=True, help_text="The least that is left of any error budget; null: not known."
    )
    burn = BurnSerializer(allow_null=True, help_text="Null: not known.")
