"""The shape of the installation's state."""

from rest_framework import serializers

from controlplane.bridge.parts import Part

STATES = ("ok", "degraded", "stale", "down", "unknown")


class PartSerializer(serializers.Serializer[Part]):
    """One part: how it is, in a word and in words, and what it measured."""

    name = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(choices=STATES, read_only=True)
    detail = serializers.CharField(read_only=True, help_text="What is wrong; empty when it is ok.")
    took_ms = serializers.FloatField(
        read_only=True, allow_null=True, help_text="How long asking it took."
    )
    age_s = serializers.FloatField(
        read_only=True, allow_null=True, help_text="How old its last sign of life is."
    )
    facts = serializers.DictField(
        child=serializers.JSONField(), read_only=True, help_text="Its figures, by name."
    )


class SystemSerializer(serializers.Serializer[object]):
    as_of = serializers.DateTimeField(read_only=True)
    parts = PartSerializer(many=True, read_only=True)
