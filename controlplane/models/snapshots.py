"""Versions of the whole configuration, as compiled; contents are kept once, by their digest."""

from django.db.models import (
    BigAutoField,
    BigIntegerField,
    BinaryField,
    CharField,
    CheckConstraint,
    DateTimeField,
    JSONField,
    Model,
    PositiveSmallIntegerField,
    Q,
    TextField,
    UniqueConstraint,
)
from django.utils import timezone

from controlplane.models.rows import ID_LENGTH


class Installation(Model):
    """The one row that says which history the versions of this database belong to."""

    id = PositiveSmallIntegerField(primary_key=True, default=1, editable=False)
    lineage = CharField(max_length=64)
    created_at = DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [CheckConstraint(condition=Q(id=1), name="installation_is_one")]

    def __str__(self) -> str:
        return self.lineage


class ConfigSection(Model):
    """One section's encoded bytes under their digest; written once, never changed."""

    digest = CharField(primary_key=True, max_length=64)
    content = BinaryField()
    created_at = DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return self.digest


class ConfigRevision(Model):
    """One version: which sections make it up, and whose edit made it.

    `manifest` maps section names to digests. `organisation_id` is that of the edit, null for the
    installation's own.
    """

    id = BigAutoField(primary_key=True)
    lineage = CharField(max_length=64)
    version = BigIntegerField()
    manifest = JSONField()
    created_at = DateTimeField(default=timezone.now, editable=False)
    organisation_id = CharField(max_length=ID_LENGTH, null=True, blank=True)
    actor_kind = CharField(max_length=32)
    actor_id = CharField(max_length=ID_LENGTH)
    actor_label = CharField(max_length=255)
    reason = TextField(default="", blank=True)
    request_id = CharField(max_length=64, default="", blank=True)

    class Meta:
        constraints = [
            UniqueConstraint(fields=["lineage", "version"], name="config_revision_version_unique"),
            CheckConstraint(condition=Q(version__gte=1), name="config_revision_version_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.lineage}:{self.version}"
