"""Teams as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import Team
from controlplane.selectors.access import Access


def list_teams(access: Access) -> QuerySet[Team]:
    """Teams the caller holds a role in, or all of his organisations."""
    return access.visible_in_scope(Team.objects.all(), team_field="id")
