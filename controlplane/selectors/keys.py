"""Keys as a caller may see them: whose they are and what they reach, never their digests."""

from django.db.models import Prefetch, QuerySet

from controlplane.models import Key, KeyDigest, Route
from controlplane.selectors.access import Access


def list_keys(access: Access) -> QuerySet[Key]:
    """Keys with project, team, routes and the last characters of their secrets."""
    digests = KeyDigest.objects.defer("digest").order_by("-id")
    routes = Route.objects.only("name").order_by("name")
    keys = Key.objects.select_related("project__team").prefetch_related(
        Prefetch("routes", routes), Prefetch("digests", digests)
    )
    return access.visible_in_scope(keys, team_field="project__team_id", project_field="project_id")
