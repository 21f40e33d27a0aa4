"""Tags and filters of the console's templates."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.http import HttpRequest
from django.template import Library
from django.template.context import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.console import formats
from controlplane.console.icons import icon as icon_of
from controlplane.console.navigation import count_at, groups_for
from controlplane.models import Charge

THEMES = ("system", "light", "dark")
THEME_COOKIE = "headworks_theme"

register = Library()

register.filter("figures", formats.count)
register.filter("duration", formats.duration)
register.filter("dollars", formats.dollars)
register.filter("percentage", formats.percentage)
register.filter("size", formats.size)
register.filter("elapsed", formats.elapsed)


@register.filter
def cost(charge: Charge, decimals: int = 2) -> str:
    """What an attempt cost, with at least so many digits after the point."""
    return formats.cost(charge.cost_nanousd, charge.cost_max_nanousd, decimals)


@register.filter
def tokens(charge: Charge) -> str:
    """An attempt's tokens in and out."""
    return formats.tokens(charge.prompt_tokens, charge.completion_tokens)


@register.filter
def worker(charge: Charge) -> str:
    """An attempt's worker as people name it."""
    return formats.worker(charge.pool_id, charge.pool_name, charge.worker_id)


@register.filter
def percent(value: float) -> str:
    """A place in a picture, in per cent of its width."""
    return f"{value:.3f}%"


@register.simple_tag
def linked(links: Mapping[str, str], pk: str, words: str) -> str | SafeString:
    """Words that lead to the page of this id, if there is one."""
    url = links.get(pk)
    return format_html('<a href="{}">{}</a>', url, words or pk) if url else words


@register.simple_tag
def icon(name: str, tone: str = "") -> SafeString:
    """An icon of the sheet in components/icons.html; hidden from screen readers."""
    return icon_of(name, tone)


@register.simple_tag(takes_context=True)
def theme(context: Context) -> str:
    """The theme the reader chose: system, light or dark."""
    request: HttpRequest | None = context.get("request")
    chosen = request.COOKIES.get(THEME_COOKIE, "") if request else ""
    return chosen if chosen in THEMES else "system"


@register.simple_tag(takes_context=True)
def moment(context: Context, at: datetime, has_date: bool = True) -> SafeString:
    """A time in the page's reporting zone, with the exact UTC time for machines."""
    zone: ZoneInfo = context["zone"]
    return format_html(
        '<time class="nw" datetime="{}">{}</time>',
        at.isoformat(timespec="milliseconds"),
        formats.clock(at, zone, has_date=has_date),
    )


@register.inclusion_tag("components/navigation.html", takes_context=True)
def navigation(context: Context) -> dict[str, Any]:
    """The groups of pages the reader may see, with the current one marked."""
    request: HttpRequest | None = context.get("request")
    match = request.resolver_match if request else None
    current = (match.url_name or "") if match else ""
    scope = context.get("scope")
    groups = [
        (
            group.label,
            [(item, item.is_current(current), count_at(item, scope)) for item in group.items],
        )
        for group in groups_for(scope)
    ]
    return {"groups": groups}
