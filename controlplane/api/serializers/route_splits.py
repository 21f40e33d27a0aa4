"""What each rule of a route took."""

from typing import Any

from rest_framework import serializers

from controlplane.selectors.impact import RULE_SPANS


class RuleTakenSerializer(serializers.Serializer[Any]):
    """One rule; the one without an id stands for what no rule took."""

    rule_id = serializers.CharField(allow_null=True)
    name = serializers.CharField(allow_null=True, help_text="Null: no rule, or one that is gone.")
    requests = serializers.IntegerField()
    share = serializers.FloatField(allow_null=True, help_text="Of 1; null if nothing came.")


class SplitSpanSerializer(serializers.Serializer[Any]):
    window = serializers.ChoiceField(choices=list(RULE_SPANS))
    since = serializers.DateTimeField(help_text="Counted by whole minutes from then on.")
    requests = serializers.IntegerField(help_text="Of the route, whatever became of them.")
    rules = RuleTakenSerializer(many=True)


class SplitSerializer(serializers.Serializer[Any]):
    """What the rules of a route took, from the roll-up by rule."""

    route_id = serializers.CharField()
    as_of = serializers.DateTimeField()
    spans = SplitSpanSerializer(many=True)
