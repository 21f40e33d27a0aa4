"""The shape of a model of the catalogue."""

from rest_framework import serializers

from controlplane.api.serializers.strict import OwnedSerializer
from controlplane.models.kinds import tasks


class ModelSerializer(OwnedSerializer):
    name = serializers.CharField(max_length=128)
    task = serializers.ChoiceField(choices=tasks(), required=False)
    max_context_tokens = serializers.IntegerField(
        min_value=1, required=False, allow_null=True, help_text="Prompt plus output; null: unknown."
    )
