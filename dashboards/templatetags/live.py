"""Live parts for other pages' templates."""

from typing import Any

from django.http import HttpRequest
from django.template import Library
from django.template.context import Context

from dashboards.kinds import Page
from dashboards.pages import part_live_context

register = Library()


@register.inclusion_tag("dashboards/tab.html", takes_context=True)
def pool_live(context: Context, organisation_id: str, pool_id: str) -> dict[str, Any]:
    """The live panels of a pool the page's reader may see, in the window of the page's address."""
    return _live(context, Page.POOL, organisation_id, pool_id)


@register.inclusion_tag("dashboards/tab.html", takes_context=True)
def route_live(context: Context, organisation_id: str, route_id: str) -> dict[str, Any]:
    """The live panels of a route the page's reader may see, in the window of the page's address."""
    return _live(context, Page.ROUTE, organisation_id, route_id)


def _live(context: Context, page: Page, organisation_id: str, subject_id: str) -> dict[str, Any]:
    request: HttpRequest = context["request"]
    return part_live_context(page, organisation_id, subject_id, request.GET)
