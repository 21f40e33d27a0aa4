"""What limits and switches are about: who reads of it, and what it is called."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from django.db.models import Model, Q, QuerySet

from controlplane.models import Key, Project
from controlplane.selectors.access import Access
from controlplane.selectors.names import list_names
from inference.contract.kinds import LimitSubject, SwitchSubject

AnyRow = TypeVar("AnyRow", bound=Model)

_SHARED = (
    LimitSubject.ORGANISATION.value,
    LimitSubject.MODEL.value,
    LimitSubject.ROUTE.value,
    SwitchSubject.POOL.value,
)
"""Kinds that whoever has any role in the organisation reads."""


def visible_by_subject(access: Access, rows: QuerySet[AnyRow]) -> QuerySet[AnyRow]:
    """Leave in the queryset what the caller reads all of, or what binds what his roles reach.

    A limit of a team binds the projects in it, so it is theirs to read too. An end user's name is
    for roles of the whole organisation.
    """
    if access.is_platform_admin:
        return rows
    reached = Q(organisation_id__in=sorted(access.roles))
    reached |= Q(subject__in=_SHARED) | Q(subject_id__isnull=True)
    projects, teams = sorted(access.project_ids()), sorted(access.team_ids())
    if projects:
        above = Project.objects.filter(pk__in=projects).values("team_id")
        keys = Key.objects.filter(project_id__in=projects).values("pk")
        reached |= Q(subject=LimitSubject.PROJECT.value, subject_id__in=projects)
        reached |= Q(subject=LimitSubject.TEAM.value, subject_id__in=above)
        reached |= Q(subject=LimitSubject.KEY.value, subject_id__in=keys)
    if teams:
        reached |= Q(subject=LimitSubject.TEAM.value, subject_id__in=teams)
    return access.visible(rows).filter(reached)


def list_subject_names(access: Access, rows: Iterable[Any]) -> Mapping[str, str]:
    """The names of what these limits or switches are about, by id; an end user's is its own."""
    ids: set[str] = set()
    users: set[str] = set()
    for row in rows:
        if row.subject_id is not None:
            (users if row.subject == LimitSubject.END_USER else ids).add(row.subject_id)
    return {**list_names(access, ids), **{name: name for name in users}}
