"""Forms of people, programs, roles and tokens."""

from datetime import datetime, timedelta
from typing import Any

from django.forms import CharField, ChoiceField, DateTimeField, EmailField, ValidationError
from django.utils import timezone

from controlplane.console.forms.base import NounForm
from controlplane.models import Project, Role, Team
from controlplane.models.rows import LABEL_LENGTH
from controlplane.selectors.projects import list_projects
from controlplane.selectors.teams import list_teams
from controlplane.selectors.users import list_members, list_service_accounts

_ROLES = {
    Role.VIEWER: "viewer: reads",
    Role.OPERATOR: "operator: changes what serves",
    Role.FINANCE: "finance: changes prices, budgets and reports",
    Role.ADMIN: "admin: changes everything, people and roles too",
}
ORGANISATION = "organisation"


class PlacedForm(NounForm):
    """A form with a role and the place it is held in: the organisation, a team or a project."""

    role = ChoiceField(label="Role", choices=[(one.value, words) for one, words in _ROLES.items()])
    place = ChoiceField(label="Held in", help_text="It reaches down from there, never up.")

    def prepare(self) -> None:
        """Offer the places the reader may give roles in."""
        access, home = self.scope.access, self.scope.organisation
        whole = [(ORGANISATION, f"all of {home.name}")]
        teams = list_teams(access).filter(organisation_id=home.pk).order_by("name")
        projects = list_projects(access).filter(organisation_id=home.pk).order_by("name")
        self._places: dict[str, Team | Project] = {
            **{f"team:{one.pk}": one for one in teams if _may(self, team_id=one.pk)},
            **{
                f"project:{one.pk}": one
                for one in projects
                if _may(self, team_id=one.team_id, project_id=one.pk)
            },
        }
        named = [(key, f"{key.partition(':')[0]} {one.name}") for key, one in self._places.items()]
        self.fields["place"].choices = [*(whole if _may(self) else ()), *named]  # type: ignore[attr-defined]

    def values(self) -> dict[str, Any]:
        """The values with team or project in place of the choice."""
        values = super().values()
        place = self._places.get(values.pop("place", ORGANISATION))
        values["role"] = Role(values["role"])
        values["team"] = place if isinstance(place, Team) else None
        values["project"] = place if isinstance(place, Project) else None
        return values

    def label(self, name: str) -> str:
        return super().label(name).capitalize()

    def shown(self, name: str, value: Any) -> str:
        if name in ("team", "project") and value:
            place = self._places.get(f"{name}:{value}")
            return str(value) if place is None else place.name
        return super().shown(name, value)


def _may(form: NounForm, **place: str) -> bool:
    return form.scope.access.may_write("bindings", form.scope.organisation.pk, **place)


class MemberForm(PlacedForm):
    """A new person with a first role."""

    username = CharField(label="User name", max_length=150, help_text="To sign in with.")
    email = EmailField(label="E-mail", required=False, help_text="To sign in with as well.")
    first_name = CharField(label="First name", max_length=150, required=False)
    last_name = CharField(label="Last name", max_length=150, required=False)
    field_order = ("username", "email", "first_name", "last_name", "role", "place")


class UserForm(NounForm):
    """A person's names and mail."""

    username = CharField(label="User name", max_length=150, help_text="To sign in with.")
    email = EmailField(label="E-mail", required=False)
    first_name = CharField(label="First name", max_length=150, required=False)
    last_name = CharField(label="Last name", max_length=150, required=False)
    slack_id = CharField(
        label="Member in Slack",
        max_length=32,
        required=False,
        help_text="Its id, such as U0123456789: what is done there by it counts as done by them.",
    )
    risky = frozenset({"username", "email", "slack_id"})


class BindingForm(PlacedForm):
    """A role for a person or a program."""

    subject = ChoiceField(label="For")
    field_order = ("subject", "role", "place")

    def prepare(self) -> None:
        """Offer people and programs; whoever reads a part of the organisation names a person."""
        super().prepare()
        access, home = self.scope.access, self.scope.organisation
        self._subjects: dict[str, Any] = {}
        self._people = list_members(access, home).filter(is_active=True).order_by("username")
        if not access.reads_organisation(home.pk):
            self.fields["subject"] = CharField(
                label="User name", max_length=150, help_text="Exactly, as they sign in with it."
            )
            return
        programs = list_service_accounts(access).filter(organisation_id=home.pk).order_by("name")
        self._subjects |= {f"user:{one.pk}": one for one in self._people}
        self._subjects |= {f"program:{one.pk}": one for one in programs}
        self.fields["subject"].choices = [  # type: ignore[attr-defined]
            (key, str(one) if key.startswith("user") else f"{one} (program)")
            for key, one in self._subjects.items()
        ]

    def clean_subject(self) -> Any:
        """The person or program; a name that isn't one here is refused."""
        given = self.cleaned_data["subject"]
        found = self._subjects.get(given) or self._people.filter(username=given).first()
        if found is None:
            raise ValidationError("There is none of this name here.")
        return found

    def shown(self, name: str, value: Any) -> str:
        return str(self.cleaned_data[name]) if name == "subject" else super().shown(name, value)

    def plain(self, name: str, value: Any) -> Any:
        if name == "subject" and hasattr(value, "pk"):
            kind = "program" if str(value.pk).startswith("svc_") else "user"
            return f"{kind}:{value.pk}"
        return super().plain(name, value)

    def document(self, values: Any) -> dict[str, Any]:
        """As the REST call takes it: `user` or `service_account`, and a place if it is narrower."""
        told = {name: one for name, one in super().document(values).items() if one is not None}
        kind, _, pk = str(told.pop("subject")).partition(":")
        return {"user" if kind == "user" else "service_account": pk, **told}


class ServiceAccountForm(NounForm):
    name = CharField(label="Name", max_length=LABEL_LENGTH, help_text="Which program it is.")


class TokenForm(NounForm):
    """When a new token ends."""

    expires_at = DateTimeField(
        label="Expires", required=False, help_text="Empty: it ends when it is revoked."
    )

    @staticmethod
    def usual_end() -> datetime:
        """Some time off, so that what is forgotten ends by itself."""
        return timezone.now() + timedelta(days=90)
