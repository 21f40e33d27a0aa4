"""The audit trail: who changed what, from what to what. The database lets nobody rewrite it."""

from django.db.models import (
    BigAutoField,
    CharField,
    DateTimeField,
    Index,
    JSONField,
    Model,
    TextField,
)
from django.utils import timezone

from controlplane.models.rows import ID_LENGTH


class AuditEntry(Model):
    """One change. Objects are named by id alone, so a row outlives its object; no secret is kept.

    `before` and `after` hold the changed fields only; null stands for no object.
    """

    id = BigAutoField(primary_key=True)
    at = DateTimeField(default=timezone.now, editable=False)
    organisation_id = CharField(max_length=ID_LENGTH, null=True, blank=True)
    actor_kind = CharField(max_length=32)
    actor_id = CharField(max_length=ID_LENGTH)
    actor_label = CharField(max_length=255)
    via = CharField(max_length=32)
    request_id = CharField(max_length=64, default="", blank=True)
    action = CharField(max_length=32)
    noun = CharField(max_length=32)
    object_id = CharField(max_length=ID_LENGTH)
    before = JSONField(null=True, blank=True)
    after = JSONField(null=True, blank=True)
    reason = TextField(default="", blank=True)

    class Meta:
        indexes = [
            Index(fields=["organisation_id", "-id"], name="audit_by_organisation"),
            Index(fields=["noun", "object_id", "-id"], name="audit_by_object"),
        ]

    def __str__(self) -> str:
        return f"{self.action} {self.noun} {self.object_id}"
