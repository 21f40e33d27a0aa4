"""The shape of a draft: what a write would do."""

from rest_framework import serializers

from controlplane.errors import ControlPlaneError
from controlplane.services.drafts import Draft, RowChange


class RowChangeSerializer(serializers.Serializer[RowChange]):
    noun = serializers.CharField()
    object_id = serializers.CharField(help_text="Of a row to be made: not the one it will get.")
    action = serializers.CharField()
    before = serializers.DictField(allow_null=True, help_text="The changed fields; null: no row.")
    after = serializers.DictField(allow_null=True, help_text="The changed fields; null: no row.")


class RefusalSerializer(serializers.Serializer[ControlPlaneError]):
    """The error the write itself would be answered with."""

    code = serializers.CharField()
    detail = serializers.CharField()
    fields = serializers.DictField(  # type: ignore[assignment]
        child=serializers.ListField(child=serializers.CharField())
    )


class DraftSerializer(serializers.Serializer[Draft]):
    """What a write with `dry_run=true` would do. Nothing was stored."""

    version = serializers.IntegerField(
        allow_null=True, help_text="Of the configuration it was drafted on."
    )
    sections = serializers.ListField(
        child=serializers.CharField(), help_text="Nouns gateways would see change."
    )
    changes = RowChangeSerializer(many=True)
    refused = RefusalSerializer(allow_null=True, help_text="Why it would be refused, or null.")
