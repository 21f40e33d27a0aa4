"""The tables of organisations, teams and projects."""

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.icons import icon
from controlplane.console.lists import NameColumn, NounTable, WhenColumn
from controlplane.console.nouns import ORGANISATIONS, PROJECTS, TEAMS
from controlplane.models import Organisation, Project

_PLAIN = {"td": {"class": "nw"}}


def _count(label: str) -> Column:
    return Column(label, attrs={"th": {"class": "num"}, "td": {"class": "num", "data-l": label}})


class OrganisationTable(NounTable):
    """Organisations with the size of what is in them."""

    name = NameColumn(ORGANISATIONS, attrs=_PLAIN)
    is_enabled = Column("State")
    time_zone = Column("Time zone", attrs={"td": {"data-l": "Zone"}})
    team_count = _count("Teams")
    project_count = _count("Projects")
    updated_at = WhenColumn("Changed")

    caption = "Organisations"

    def render_is_enabled(self, record: Organisation) -> SafeString:
        name, tone, words = ("ok", "ok", "On") if record.is_enabled else ("stop", "idle", "Off")
        return format_html('<span class="st {}">{}{}</span>', tone, icon(name), words)


class TeamTable(NounTable):
    """Teams with their projects."""

    name = NameColumn(TEAMS, attrs=_PLAIN)
    project_count = _count("Projects")
    updated_at = WhenColumn("Changed")

    caption = "Teams"


class ProjectTable(NounTable):
    """Projects with their team and live keys."""

    name = NameColumn(PROJECTS, attrs=_PLAIN)
    team = Column("Team", order_by="team__name", attrs={"td": {"data-l": "Team"}})
    is_default = Column("Default", attrs={"td": {"data-l": "Default"}})
    key_count = _count("Keys")
    updated_at = WhenColumn("Changed")

    caption = "Projects"

    def render_team(self, record: Project) -> SafeString:
        return format_html('<a href="{}">{}</a>', TEAMS.detail_url(record.team_id), record.team)

    def render_is_default(self, value: bool) -> str:
        return "yes" if value else "no"
