"""The forms of organisations, teams and projects."""

from typing import Any
from zoneinfo import available_timezones

from django.forms import BooleanField, CharField, ChoiceField, ModelChoiceField

from controlplane.console.forms.base import NounForm
from controlplane.models import Project, Team
from controlplane.selectors.teams import list_teams


def _zones() -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(available_timezones())]


class OrganisationForm(NounForm):
    risky = frozenset({"is_enabled", "time_zone"})

    name = CharField(label="Name", max_length=100)
    time_zone = ChoiceField(
        label="Time zone",
        choices=_zones,
        initial="UTC",
        help_text="Its days, months and reports are counted in it.",
    )
    is_enabled = BooleanField(
        label="On", required=False, initial=True, help_text="Off: its keys are refused."
    )


class TeamForm(NounForm):
    name = CharField(label="Name", max_length=100)


class ProjectForm(NounForm):
    risky = frozenset({"team"})

    name = CharField(label="Name", max_length=100)
    team = ModelChoiceField(
        Team.objects.none(),
        label="Team",
        empty_label="Choose a team",
        help_text="Its keys go with it.",
    )

    def prepare(self) -> None:
        organisation_id = self.scope.organisation.pk
        access = self.scope.access
        mine = list_teams(access).filter(organisation_id=organisation_id).order_by("name")
        ids = [
            pk
            for pk in mine.values_list("pk", flat=True)
            if access.may_write("projects", organisation_id, team_id=pk)
        ]
        if self.row is not None:
            ids.append(self.row.team_id)
        field = self.fields["team"]
        assert isinstance(field, ModelChoiceField)
        field.queryset = mine.filter(pk__in=ids)

    @classmethod
    def initial_of(cls, row: Project) -> dict[str, Any]:
        return {"name": row.name, "team": row.team_id}
