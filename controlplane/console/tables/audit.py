"""The table of the audit trail."""

from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.activity import object_of, verb_of
from controlplane.console.lists import NounTable, when
from controlplane.models import AuditEntry


class AuditTable(NounTable):
    """Changes, newest first."""

    at = Column("Time", order_by="id", attrs={"td": {"class": "nw"}})
    actor_label = Column("Who")
    action = Column("What", attrs={"td": {"data-l": "What"}})
    object_id = Column("Object", orderable=False, attrs={"td": {"class": "nw"}})
    fields = Column("Fields", empty_values=(), orderable=False, attrs={"td": {"class": "opt"}})
    reason = Column("Reason", orderable=False)
    via = Column("Via", attrs={"td": {"class": "opt"}})

    caption = "Changes, newest first"

    def __init__(self, data: object, *, names: dict[str, str] | None = None, **options: object):
        self.names = names or {}
        super().__init__(data, **options)

    def render_at(self, record: AuditEntry) -> SafeString:
        url = reverse("audit-entry", args=[record.pk])
        return format_html('<a href="{}">{}</a>', url, when(record.at, self.scope, self.now))

    def render_action(self, record: AuditEntry) -> str:
        return f"{verb_of(record.action)} {object_of(record.noun)}"

    def render_object_id(self, record: AuditEntry) -> SafeString:
        name = self.names.get(record.object_id, record.object_id)
        return format_html('<span class="mono" title="{}">{}</span>', record.object_id, name)

    def render_fields(self, record: AuditEntry) -> str:
        if record.before is None or record.after is None:
            return "all"
        return ", ".join(sorted({*record.before, *record.after})) or "none"
