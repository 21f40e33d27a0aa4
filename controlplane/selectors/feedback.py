"""Reads of what people say of answers."""

from django.db.models import QuerySet

from controlplane.models import Feedback, Request
from controlplane.selectors.access import Access


def list_feedback(access: Access, request: Request) -> QuerySet[Feedback]:
    """What was said of a request by its own organisation, the newest first."""
    said = access.visible(Feedback.objects.filter(organisation_id=request.organisation_id))
    return said.filter(request_id=request.event_id).order_by("-at", "event_id")
