"""People who sign in, programs that call the API, and what each may do where."""

from enum import StrEnum

from django.contrib.auth.models import AbstractUser
from django.core.validators import RegexValidator
from django.db.models import (
    CASCADE,
    BooleanField,
    CharField,
    CheckConstraint,
    DateTimeField,
    ForeignKey,
    Model,
    PositiveIntegerField,
    Q,
    UniqueConstraint,
)
from django.db.models.functions import Lower
from django.utils import timezone

from controlplane.models.organisations import Organisation
from controlplane.models.projects import Project
from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    binding_id,
    id_field,
    name_is_label,
    printable_name,
    service_account_id,
    token_id,
)
from controlplane.models.teams import Team

slack_member = RegexValidator(
    r"^[UW][A-Z0-9]{6,30}$", "Give the member's id in Slack, such as U0123456789."
)


class Role(StrEnum):
    """What a subject may do where it holds the role: all read, operators write, finance prices.

    An administrator may do what all others may, and decides about people, programs and roles.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    FINANCE = "finance"
    ADMIN = "admin"


ROLES = [(role.value, role.value) for role in Role]


class User(VersionedRow, AbstractUser):
    """A person. `is_superuser` is the platform's administrator, of every organisation.

    A password that somebody else knows, for he made it, `must_change_password` at the next sign-in.
    `slack_id` is who he is in Slack (`U…`), "" if nobody said.
    """

    must_change_password = BooleanField(default=False, editable=False)
    slack_id = CharField(max_length=32, default="", blank=True, validators=[slack_member])

    class Meta(AbstractUser.Meta):
        constraints = [
            UniqueConstraint(Lower("username"), name="user_username_unique"),
            UniqueConstraint(Lower("email"), condition=~Q(email=""), name="user_email_unique"),
            UniqueConstraint(
                fields=["slack_id"], condition=~Q(slack_id=""), name="user_slack_id_unique"
            ),
        ]


class ServiceAccount(VersionedRow):
    """A program of one organisation that calls the API."""

    id = id_field(service_account_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="service_accounts")
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])
    is_enabled = BooleanField(default=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                "organisation",
                Lower("name"),
                name="service_account_name_unique",
                violation_error_message="There is a service account of this name already.",
            ),
            name_is_label("service_account"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def is_authenticated(self) -> bool:
        """As of a user: an account in hand has shown its token."""
        return True


class RoleBinding(Model):
    """One role of one subject, a user or a service account, in one place.

    The place is the organisation, or one team or one project of it. A binding is made and removed,
    never changed; it goes with its team or project, so that it can't come to mean more than it did.
    """

    version = 1

    id = id_field(binding_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="role_bindings")
    team = ForeignKey(Team, CASCADE, null=True, blank=True, related_name="role_bindings")
    project = ForeignKey(Project, CASCADE, null=True, blank=True, related_name="role_bindings")
    user = ForeignKey(User, CASCADE, null=True, blank=True, related_name="role_bindings")
    service_account = ForeignKey(
        ServiceAccount, CASCADE, null=True, blank=True, related_name="role_bindings"
    )
    role = CharField(max_length=16, choices=ROLES)
    created_at = DateTimeField(default=timezone.now, editable=False)

    class Meta:
        constraints = [
            CheckConstraint(
                condition=Q(user__isnull=False, service_account__isnull=True)
                | Q(user__isnull=True, service_account__isnull=False),
                name="role_binding_one_subject",
            ),
            CheckConstraint(
                condition=Q(role__in=[role.value for role in Role]), name="role_binding_role"
            ),
            CheckConstraint(
                condition=Q(team__isnull=True) | Q(project__isnull=True),
                name="role_binding_one_place",
                violation_error_message="A role is held in a team or in a project, not in both.",
            ),
            UniqueConstraint(
                fields=["organisation", "team", "project", "user", "service_account", "role"],
                nulls_distinct=False,
                name="role_binding_unique",
                violation_error_message="The subject has this role there already.",
            ),
        ]

    def __str__(self) -> str:
        place = self.project_id or self.team_id or self.organisation_id
        return f"{self.role} in {place}"


class ApiToken(Model):
    """A bearer token of a service account: `hwt_<id>.<secret>`, kept as its digest alone."""

    id = id_field(token_id)
    service_account = ForeignKey(ServiceAccount, CASCADE, related_name="tokens")
    pepper_version = PositiveIntegerField()
    digest = CharField(max_length=64, unique=True)
    created_at = DateTimeField(default=timezone.now, editable=False)
    expires_at = DateTimeField(null=True, blank=True)
    revoked_at = DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.id

    @property
    def version(self) -> int:
        """A token changes once: when it is revoked."""
        return 1 if self.revoked_at is None else 2
