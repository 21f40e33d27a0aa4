"""The shape of who runs what."""

from rest_framework import serializers


class GatewaySerializer(serializers.Serializer[object]):
    """One gateway: a parent and its serving processes, its children."""

    name = serializers.CharField()
    is_live = serializers.BooleanField(help_text="Whether every child that was seen reports.")
    is_applied = serializers.BooleanField(
        help_text="Whether all run on the current version, or a newer one."
    )
    children_live = serializers.IntegerField()
    children_seen = serializers.IntegerField()
    lineage = serializers.CharField(allow_null=True)
    version = serializers.IntegerField(
        allow_null=True, help_text="The oldest that a living child runs on."
    )
    refused_version = serializers.IntegerField(allow_null=True)
    refused_at = serializers.CharField(
        allow_null=True, help_text="Section, record and field at fault in it."
    )
    refused_why = serializers.CharField(
        allow_null=True,
        help_text="To the platform's administrators alone: it may name others' rows.",
    )
    as_of = serializers.DateTimeField(help_text="When any of its children last wrote.")


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
