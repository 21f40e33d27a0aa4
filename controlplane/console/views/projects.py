"""The pages of projects."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse

from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact, State
from controlplane.console.editing import EditPage
from controlplane.console.formats import count
from controlplane.console.forms.organisations import ProjectForm
from controlplane.console.lists import Empty, ListPage
from controlplane.console.nouns import PROJECTS, TEAMS
from controlplane.console.tables.organisations import ProjectTable
from controlplane.models import Project
from controlplane.selectors.filters import ProjectFilters
from controlplane.selectors.projects import list_projects
from controlplane.selectors.tree import list_projects_sized
from controlplane.services.actors import Actor
from controlplane.services.projects import create_project, delete_project, update_project


class ProjectList(ListPage):
    noun = PROJECTS
    selector = staticmethod(list_projects_sized)
    filters = ProjectFilters
    table = ProjectTable
    intro = "What keys, usage and money are booked on"
    empty = Empty("There is no project", "Keys belong to a project, and usage is booked on it.")


class ProjectDetail(DetailPage):
    noun = PROJECTS
    tells_budgets = True
    selector = staticmethod(list_projects_sized)
    is_name_mono = False

    def place_of(self, row: Project) -> Mapping[str, str]:
        return {"team_id": row.team_id, "project_id": row.pk}

    def state_of(self, row: Project) -> State | None:
        return State("Default", "info", "info") if row.is_default else None

    def facts_of(self, row: Any) -> Sequence[Fact]:
        return (
            Fact("Team", row.team.name, TEAMS.detail_url(row.team_id)),
            Fact("Live keys", count(row.key_count), f"{reverse('keys')}?project={row.pk}"),
            Fact("Requests", "in the ledger", f"{reverse('requests')}?project={row.pk}"),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )


class ProjectCreate(CreatePage):
    noun = PROJECTS
    form_class = ProjectForm

    def place(self) -> Mapping[str, str]:
        given = self.request.POST if self.request.method == "POST" else self.request.GET
        asked, home = given.get("team", ""), self.scope.organisation.pk
        # a role in one team is enough; the form offers the teams in which its reader may make one
        teams = (asked,) if asked else sorted(self.scope.access.team_ids(home))
        may = (one for one in teams if self.may_write(PROJECTS.key, team_id=one))
        found = next(may, asked)
        return {"team_id": found} if found else {}

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Project:
        return create_project(actor, organisation=self.scope.organisation, **values)


class ProjectEdit(EditPage):
    noun = PROJECTS
    selector = staticmethod(list_projects)
    form_class = ProjectForm

    def place_of(self, row: Project) -> Mapping[str, str]:
        return {"team_id": row.team_id, "project_id": row.pk}

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        if "team" in changes:
            # moving it takes a role in both teams
            self.require_write(PROJECTS.key, team_id=row.team_id)
            self.require_write(PROJECTS.key, team_id=changes["team"].pk)
        return update_project(
            actor, project_id=row.pk, changes=changes, expected_version=expected_version
        )


class ProjectDelete(DeletePage):
    noun = PROJECTS
    selector = staticmethod(list_projects)

    def place_of(self, row: Project) -> Mapping[str, str]:
        return {"team_id": row.team_id}

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_project(actor, project_id=row.pk, expected_version=expected_version)
