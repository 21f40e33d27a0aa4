"""Teams as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import Team
from controlplane.selectors.access import Access


def list_teams(access: Access) -> QuerySet[Team]:
    """Teams the caller may see."""
    return access.visible(Team.objects.all())
