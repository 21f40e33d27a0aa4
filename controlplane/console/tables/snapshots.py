"""The table of versions."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.formats import UNKNOWN
from controlplane.console.lists import NounTable, WhenColumn
from controlplane.models import ConfigRevision


class SnapshotTable(NounTable):
    """Versions, newest first; what each changed comes by `tell`."""

    version = Column("Version", order_by="id", attrs={"td": {"class": "nw"}})
    created_at = WhenColumn("Made")
    actor_label = Column("Who", attrs={"td": {"data-l": "By"}})
    sections = Column(
        "Changed", empty_values=(), orderable=False, attrs={"td": {"data-l": "Changed"}}
    )
    reason = Column("Reason", orderable=False)

    caption = "Versions of the configuration, newest first"

    def __init__(self, data: Any, **options: Any) -> None:
        self._changed: Mapping[int, Sequence[str]] = {}
        super().__init__(data, **options)

    def tell(self, changed: Mapping[int, Sequence[str]]) -> None:
        """Take the nouns each version changed; call it before the table is drawn."""
        self._changed = changed

    def render_version(self, record: ConfigRevision) -> SafeString:
        url = reverse("snapshot", args=[record.version])
        return format_html('<a href="{}">v{}</a>', url, record.version)

    def render_sections(self, record: ConfigRevision) -> str:
        changed = self._changed.get(record.pk)
        # of the oldest that is kept nobody knows any more
        return UNKNOWN if changed is None else ", ".join(changed) or "nothing"
