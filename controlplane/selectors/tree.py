"""Organisations, teams and projects with how much is in each, as far as the caller sees it."""

from django.db.models import Count, IntegerField, Model, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce

from controlplane.models import Key, Organisation, Project, Team
from controlplane.selectors.access import Access
from controlplane.selectors.keys import list_keys
from controlplane.selectors.organisations import list_organisations
from controlplane.selectors.projects import list_projects
from controlplane.selectors.teams import list_teams


def list_organisations_sized(access: Access) -> QuerySet[Organisation]:
    """Organisations with `team_count` and `project_count`."""
    return list_organisations(access).annotate(
        team_count=_count(list_teams(access), "organisation"),
        project_count=_count(list_projects(access), "organisation"),
    )


def list_teams_sized(access: Access) -> QuerySet[Team]:
    """Teams with `project_count`."""
    return list_teams(access).annotate(project_count=_count(list_projects(access), "team"))


def list_projects_sized(access: Access) -> QuerySet[Project]:
    """Projects with their team, and `key_count` of keys that aren't revoked."""
    live: QuerySet[Key] = list_keys(access).filter(revoked_at__isnull=True)
    return list_projects(access).annotate(key_count=_count(live, "project"))


def _count(rows: QuerySet[Model], parent: str) -> Coalesce:
    """How many of these rows stand in each parent: a subquery, so counts don't multiply."""
    inner = rows.filter(**{parent: OuterRef("pk")}).order_by().values(parent)
    counted = inner.annotate(found=Count("pk")).values("found")
    return Coalesce(Subquery(counted, output_field=IntegerField()), 0)
