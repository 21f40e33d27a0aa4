"""The tables of repricings and corrections."""

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_tables2 import Column

from controlplane.console.formats import UNKNOWN, count, signed_dollars
from controlplane.console.lists import NUMBER, NounTable, WhenColumn
from controlplane.console.nouns import REPRICINGS
from controlplane.console.repricing_facts import STATES, chip
from controlplane.models import Repricing, SpendCorrection


class RepricingTable(NounTable):
    """Repricings, the newest first."""

    created_at = WhenColumn("Asked", order_by="created_at")
    reason = Column("Reason", orderable=False)
    state = Column("State", orderable=False, attrs={"td": {"data-l": "State"}})
    corrections = Column("Corrections", orderable=False, attrs=NUMBER)
    corrected_nanousd = Column("Corrected", orderable=False, attrs=NUMBER)
    created_by = Column("By", orderable=False, attrs={"td": {"class": "opt"}})

    caption = "Repricings"

    def render_reason(self, value: str, record: Repricing) -> SafeString:
        return format_html('<a href="{}">{}</a>', REPRICINGS.detail_url(record.pk), value)

    def render_state(self, record: Repricing) -> SafeString:
        return chip(STATES[record.state])

    def render_corrections(self, value: int) -> str:
        return count(value)

    def render_corrected_nanousd(self, value: int, record: Repricing) -> str:
        return signed_dollars(value) if record.corrections else UNKNOWN


class CorrectionTable(NounTable):
    """Corrections, the newest first."""

    booked_at = WhenColumn("Booked", order_by="booked_at")
    amount_nanousd = Column(
        "Amount", orderable=False, attrs={"th": {"class": "num"}, "td": {"class": "num"}}
    )
    about = Column("Of", empty_values=(), orderable=False, attrs={"td": {"data-l": "Of"}})
    reason = Column("Reason", orderable=False, attrs={"td": {"data-l": "Reason"}})
    received_at = WhenColumn("Belongs to", orderable=False)
    created_by = Column("By", orderable=False, attrs={"td": {"class": "opt"}})

    caption = "Corrections of what was booked"

    def render_amount_nanousd(self, value: int) -> str:
        return signed_dollars(value)

    def render_about(self, record: SpendCorrection) -> str:
        if record.event_id is not None:
            return f"request {record.event_id}"
        for kind in ("key", "project", "team"):
            if found := getattr(record, f"{kind}_id"):
                return f"{kind} {found}"
        return "the organisation"
