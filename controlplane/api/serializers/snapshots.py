"""The shapes of a version of the configuration, of what it held, and of a roll-back."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.api.serializers.strict import StrictSerializer
from controlplane.decisions.versions import NounDifference, RowDifference
from controlplane.models import ConfigRevision
from controlplane.services.audit import REASON_LENGTH
from controlplane.services.restores import KINDS

_RECORD = {"type": "object", "additionalProperties": True}
_BY_NOUN = {"type": "object", "additionalProperties": {"type": "array", "items": _RECORD}}


class RevisionSerializer(serializers.Serializer[ConfigRevision]):
    lineage = serializers.CharField(read_only=True)
    version = serializers.IntegerField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    organisation_id = serializers.CharField(read_only=True, allow_null=True)
    actor_kind = serializers.CharField(read_only=True)
    actor_id = serializers.CharField(read_only=True)
    actor_label = serializers.CharField(read_only=True)
    reason = serializers.CharField(read_only=True)
    request_id = serializers.CharField(read_only=True)
    changed_nouns = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        allow_null=True,
        help_text="What differs from the version before; null if that is kept no longer.",
    )


@extend_schema_field(_BY_NOUN)
class ContentsField(serializers.JSONField):
    """Records by noun; secrets are masked."""


class RevisionDetailSerializer(RevisionSerializer):
    """A version with what it held of one organisation."""

    contents = ContentsField(read_only=True, help_text="By noun: the records gateways were given.")


class RecordField(serializers.DictField):
    child = serializers.JSONField(allow_null=True)


class RowDifferenceSerializer(serializers.Serializer[RowDifference]):
    id = serializers.CharField()
    before = RecordField(help_text="The changed fields.")
    after = RecordField(help_text="The changed fields.")


class NounDifferenceSerializer(serializers.Serializer[NounDifference]):
    added = serializers.ListField(child=RecordField())
    removed = serializers.ListField(child=RecordField())
    changed = RowDifferenceSerializer(many=True)


class DifferenceSerializer(serializers.Serializer[Any]):
    """From `version` to `to`; nouns without a difference are absent."""

    version = serializers.IntegerField()
    to = serializers.IntegerField()
    nouns = serializers.DictField(child=NounDifferenceSerializer())


class RestoreSerializer(StrictSerializer):
    organisation = serializers.CharField(
        required=False, max_length=255, help_text="Name or id; needed only if you have several."
    )
    nouns = serializers.ListField(
        child=serializers.ChoiceField(choices=list(KINDS)), allow_empty=False, max_length=len(KINDS)
    )
    reason = serializers.CharField(max_length=REASON_LENGTH, help_text="Why; for the audit trail.")


class RestoredSerializer(serializers.Serializer[Any]):
    version = serializers.IntegerField(help_text="The version the rows are published as.")
    is_changed = serializers.BooleanField(help_text="False: all was so already.")
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="What could not come back with the rows."
    )
