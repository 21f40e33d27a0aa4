"""Projects as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import Project
from controlplane.selectors.access import Access


def list_projects(access: Access) -> QuerySet[Project]:
    """Projects with their team."""
    projects = Project.objects.select_related("team")
    return access.visible_in_scope(projects, team_field="team_id", project_field="id")
