"""Live parts for other pages' templates."""

from typing import Any

from django.http import HttpRequest
from django.template import Library
from django.template.context import Context

from dashboards.pages import pool_live_context

register = Library()


@register.inclusion_tag("dashboards/pool_live.html", takes_context=True)
def pool_live(context: Context, organisation_id: str, pool_id: str) -> dict[str, Any]:
    """The live panels of a pool the page's reader may see, in the window of the page's address."""
    request: HttpRequest = context["request"]
    return pool_live_context(organisation_id, pool_id, request.GET)
