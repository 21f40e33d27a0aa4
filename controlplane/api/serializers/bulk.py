"""The shapes of a bulk call and of its answer."""

from typing import Any

from rest_framework import serializers

from controlplane.api.operations import MAX_OPERATIONS, Operation
from controlplane.api.serializers.strict import StrictSerializer

ACTIONS = ("create", "update", "delete", "revoke")


class OperationSerializer(StrictSerializer):
    action = serializers.ChoiceField(
        choices=ACTIONS, help_text="Keys are revoked, everything else is deleted."
    )
    id = serializers.CharField(
        required=False, max_length=64, help_text="Of the row; not with create."
    )
    if_match = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=2**31 - 1,
        help_text="The version last seen; 412 if the row has changed since.",
    )
    data = serializers.DictField(  # type: ignore[assignment]
        child=serializers.JSONField(allow_null=True),
        required=False,
        help_text="As the body of POST or PATCH; not with delete and revoke.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        is_new, has_data = attrs["action"] == "create", attrs["action"] in ("create", "update")
        if is_new and ("id" in attrs or "if_match" in attrs):
            raise serializers.ValidationError({"id": ["A new row has no id and no version yet."]})
        if not is_new and "id" not in attrs:
            raise serializers.ValidationError({"id": ["Say which row."]})
        if has_data != ("data" in attrs):
            message = "This field is required." if has_data else "There is nothing to say here."
            raise serializers.ValidationError({"data": [message]})
        return attrs


class BulkSerializer(StrictSerializer):
    operations = OperationSerializer(many=True, min_length=1, max_length=MAX_OPERATIONS)

    def asked(self) -> list[Operation]:
        """The validated operations, in order."""
        return [Operation(**values) for values in self.validated_data["operations"]]


class BulkResultSerializer(serializers.Serializer[Any]):
    action = serializers.ChoiceField(choices=ACTIONS)
    id = serializers.CharField()
    object = serializers.DictField(
        allow_null=True, help_text="The row afterwards, as GET shows it; null: it is gone."
    )


class BulkAnswerSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField(
        allow_null=True, help_text="The newest version of the configuration."
    )
    results = BulkResultSerializer(many=True, help_text="In the order of the operations.")
