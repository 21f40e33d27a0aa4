"""Role bindings by REST. One is made and removed, never changed."""

from typing import Any

from django.db.models import QuerySet

from controlplane.api.serializers.bindings import BindingSerializer
from controlplane.api.views.tenants import Creating, Place, Removing, named
from controlplane.errors import Invalid, VersionMismatch
from controlplane.models import Organisation, Role, ServiceAccount, User
from controlplane.selectors.filters import BindingFilters
from controlplane.selectors.users import list_bindings, list_members
from controlplane.services.bindings import grant_role, revoke_role

_LONGEST_NUMBER = 9


def place_named(organisation: Organisation, values: dict[str, Any]) -> dict[str, Any]:
    """Take `team` and `project` out of the values, as rows; raises Invalid."""
    asked = {"team": values.pop("team", None), "project": values.pop("project", None)}
    rows = {"team": organisation.teams.all(), "project": organisation.projects.all()}
    return {
        field: None if asked[field] is None else named(rows[field], field, asked[field])
        for field in asked
    }


def place_ids(place: dict[str, Any]) -> Place:
    """The same as `Access.may_write` takes it; for {} it is the whole organisation."""
    return {f"{field}_id": row.pk for field, row in place.items() if row is not None}


def user_named(users: QuerySet[User], asked: str) -> User:
    """The person of this user name or id, or Invalid."""
    is_id = asked.isascii() and asked.isdecimal() and len(asked) <= _LONGEST_NUMBER
    user = users.filter(username=asked).first() or (
        users.filter(pk=int(asked)).first() if is_id else None
    )
    if user is None:
        raise Invalid.field("user", "There is none of this name or id.")
    return user


class BindingView(Creating, Removing):
    noun = "bindings"
    selector = staticmethod(list_bindings)
    serializer_class = BindingSerializer
    filterset_class = BindingFilters

    def place_of_new(self, organisation: Organisation) -> Place:
        team = self.of_body(organisation.teams.all(), "team")
        project = self.of_body(organisation.projects.all(), "project")
        return place_ids({"team": team, "project": project})

    def place_above(self, row: Any) -> Place:
        return place_ids({"team": row.team, "project": row.project})

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        place = place_named(organisation, values)
        # what was looked up before may have been another place than the one that is bound
        self.require_write(self.noun, organisation.pk, **place_ids(place))
        return grant_role(
            self.actor,
            subject=self._subject(organisation, values),
            organisation=organisation,
            role=Role(values["role"]),
            **place,
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        # a role held is made and removed, never changed, so there is nothing to race with
        if expected_version not in (None, row.version):
            raise VersionMismatch(row.version)
        revoke_role(self.actor, binding_id=row.pk, keep_admin=not self.access.is_platform_admin)

    def _subject(self, organisation: Organisation, values: dict[str, Any]) -> User | ServiceAccount:
        user, account = values.get("user"), values.get("service_account")
        if (user is None) == (account is None):
            raise Invalid.field("user", "Give a user or a service account, and not both.")
        if user is not None:
            return user_named(list_members(self.access, organisation), user)
        return named(organisation.service_accounts.all(), "service_account", account)
