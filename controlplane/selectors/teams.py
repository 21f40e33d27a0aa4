"""Teams as a caller may see them."""

from django.db.models import QuerySet

from controlplane.models import Team
from controlplane.selectors.access import Access, found


def list_teams(access: Access) -> QuerySet[Team]:
    """Teams the caller may see."""
    return access.visible(Team.objects.all())


def get_team(access: Access, team_id: str) -> Team:
    """One team, or NotFound."""
    return found(list_teams(access), team_id)
