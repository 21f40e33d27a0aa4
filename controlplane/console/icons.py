"""Icons by name, for templates and for cells made in Python."""

from django.utils.html import format_html
from django.utils.safestring import SafeString


def icon(name: str, tone: str = "") -> SafeString:
    """An icon of the sheet in components/icons.html; hidden from screen readers."""
    return format_html(
        '<svg class="ic {}" aria-hidden="true"><use href="#i-{}"/></svg>', tone, name
    )
