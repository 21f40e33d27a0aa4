"""API keys of the gateway. A key is shown once; what is kept is the digest of each secret."""

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    CASCADE,
    PROTECT,
    BooleanField,
    CharField,
    CheckConstraint,
    DateTimeField,
    ForeignKey,
    ManyToManyField,
    Model,
    PositiveIntegerField,
    Q,
    UniqueConstraint,
)
from django.db.models.functions import Lower
from django.utils import timezone

from controlplane.models.kinds import priorities, scopes, task_classes
from controlplane.models.organisations import Organisation
from controlplane.models.projects import Project
from controlplane.models.routes import Route
from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    id_field,
    key_id,
    name_is_label,
    printable_name,
    tag,
)
from inference.contract.kinds import PriorityClass


def public_key_id(pk: str) -> str:
    """A key's id as it stands in its text and in the snapshot: without the prefix."""
    return pk.partition("_")[2]


def key_pk(public_id: str) -> str:
    """The id a key has everywhere else, of the one in its text and in events; "" of none."""
    return f"key_{public_id}" if public_id else ""


class Key(VersionedRow):
    """A key of a project. With `is_restricted` it reaches its `routes` only, which may be none."""

    id = id_field(key_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="keys")
    project = ForeignKey(Project, PROTECT, related_name="keys")
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])
    scopes = ArrayField(CharField(max_length=32, choices=scopes))
    is_restricted = BooleanField(default=False)
    routes: "ManyToManyField[Route, KeyRoute]" = ManyToManyField(
        Route, through="KeyRoute", related_name="keys"
    )
    is_enabled = BooleanField(default=True)
    expires_at = DateTimeField(null=True, blank=True)
    revoked_at = DateTimeField(null=True, blank=True, editable=False)
    tags = ArrayField(CharField(max_length=64, validators=[tag]), default=list, blank=True)
    priority = CharField(max_length=16, choices=priorities, default=PriorityClass.DEFAULT.value)
    default_task = CharField(max_length=16, choices=task_classes, null=True, blank=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                "organisation",
                Lower("name"),
                condition=Q(revoked_at__isnull=True),
                name="key_name_unique",
                violation_error_message="The organisation has a live key of this name already.",
            ),
            name_is_label("key"),
            CheckConstraint(
                condition=Q(revoked_at__isnull=True) | Q(is_enabled=False),
                name="key_revoked_is_disabled",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def public_id(self) -> str:
        return public_key_id(self.id)


class KeyRoute(Model):
    """One route a restricted key may use."""

    organisation = ForeignKey(Organisation, CASCADE, related_name="+")
    key = ForeignKey(Key, CASCADE, related_name="key_routes")
    route = ForeignKey(Route, CASCADE, related_name="key_routes")

    class Meta:
        constraints = [UniqueConstraint(fields=["key", "route"], name="key_route_unique")]

    def __str__(self) -> str:
        return f"{self.key_id}:{self.route_id}"


class KeyDigest(Model):
    """One accepted secret of a key. `accepted_until` ends the overlap of a rotation."""

    key = ForeignKey(Key, CASCADE, related_name="digests")
    pepper_version = PositiveIntegerField()
    digest = CharField(max_length=64, unique=True)
    last4 = CharField(max_length=4)
    created_at = DateTimeField(default=timezone.now, editable=False)
    accepted_until = DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            UniqueConstraint(
                fields=["key"],
                condition=Q(accepted_until__isnull=True),
                name="key_digest_one_current",
            )
        ]

    def __str__(self) -> str:
        return f"{self.key_id}…{self.last4}"
