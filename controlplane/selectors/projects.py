"""Projects as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import Project
from controlplane.selectors.access import Access, found


def list_projects(access: Access) -> QuerySet[Project]:
    """Projects with their team."""
    return access.visible(Project.objects.select_related("team"))


def get_project(access: Access, project_id: str) -> Project:
    """One project, or NotFound."""
    return found(list_projects(access), project_id)
