"""Projects as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import Project
from controlplane.selectors.access import Access


def list_projects(access: Access) -> QuerySet[Project]:
    """Projects with their team."""
    return access.visible(Project.objects.select_related("team"))
