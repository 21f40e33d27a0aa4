"""The table of requests."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django_tables2 import Column, Table

from controlplane.console.cache_facts import cache_words, cost_saved_words, is_served
from controlplane.console.formats import (
    UNKNOWN,
    clock,
    cost,
    decimals_of,
    duration,
    tokens,
    worker,
)
from controlplane.console.icons import icon
from controlplane.models import Charge, Request
from inference.contract.kinds import Outcome
from inference.decisions.outcomes import is_failure

_MARKS: dict[str, tuple[str, str]] = {
    Outcome.OK: ("ok", "ok"),
    Outcome.REFUSED: ("warn", "warn"),
    Outcome.ERROR: ("warn", "warn"),
    Outcome.CANCELLED: ("stop", "idle"),
}
_SHOWN_OF_ID = 8
_FIRST_FAILURE = 400
# what went wrong after the caller had been answered, by error code
_THEN: dict[str, str] = {
    "upstream_closed": "the worker closed",
    "upstream_timeout": "the worker fell silent",
    "upstream_bad_answer": "the worker's answer broke off",
    "upstream_failed": "the worker failed",
    "client_left": "the caller left",
    "client_stalled": "the caller stopped reading",
    "deadline_exceeded": "the time was over",
    "gateway_stopping": "the gateway stopped",
}


def outcome_words(request: Request) -> str:
    """The outcome in words: the status, and what went wrong if anything did."""
    if request.outcome == Outcome.LOST_GATEWAY:
        return "lost gateway"
    if request.outcome != Outcome.OK and 0 < request.http_status < _FIRST_FAILURE:
        code = request.error_code or request.outcome
        return f"answered {request.http_status}, then {_THEN.get(code, code)}"
    reason = request.error_code or ("" if request.outcome == Outcome.OK else request.outcome)
    status = str(request.http_status) if request.http_status else ""
    return " ".join(part for part in (status, reason) if part)


def outcome_mark(request: Request) -> tuple[str, str]:
    """The outcome's icon and tone."""
    outcome = Outcome(request.outcome)
    if is_failure(outcome, request.http_status):
        return "crit", "crit"
    return _MARKS.get(outcome, ("info", "idle"))


def total_ms(request: Request) -> float | None:
    """The whole duration, None when nobody knows it."""
    return None if request.outcome == Outcome.LOST_GATEWAY else request.total_ms


def attempt_ms(request: Request, charge: Charge) -> float | None:
    """How long an attempt took, None when nobody knows it."""
    return None if request.outcome == Outcome.LOST_GATEWAY else charge.duration_ms


def cost_words(request: Request, decimals: int = 2) -> str:
    """The cost; a dash when nothing went upstream, and of a hit what it saved."""
    if not request.attempts:
        return cost_saved_words(request.cache) if is_served(request.cache) else UNKNOWN
    return cost(request.cost_nanousd, request.cost_max_nanousd, decimals)


def decimals_in(requests: Iterable[Request]) -> int:
    """How many digits after the point the costs of these requests need in one column."""
    costs = ((one.cost_nanousd, one.cost_max_nanousd) for one in requests if one.attempts)
    # the bound is written only where nothing is booked
    return max(2, decimals_of(most if booked == 0 and most else booked for booked, most in costs))


class RequestTable(Table):
    """Requests, newest first. Cells carry their label for phones, where rows become cards."""

    at = Column("Time", attrs={"td": {"class": "nw"}})
    event_id = Column("Request", attrs={"td": {"class": "nw"}})
    route_name = Column("Route", empty_values=(), attrs={"td": {"class": "nw opt"}})
    served = Column("Model and worker", empty_values=(), attrs={"td": {"class": "served"}})
    outcome = Column("Outcome", attrs={"td": {"class": "outcome"}})
    first_token_ms = Column(
        "First token", attrs={"th": {"class": "num"}, "td": {"class": "num opt"}}, empty_values=()
    )
    total_ms = Column(
        "Duration",
        attrs={"th": {"class": "num"}, "td": {"class": "num", "data-l": "Duration"}},
    )
    tokens = Column(
        "Tokens in / out",
        empty_values=(),
        attrs={"th": {"class": "num"}, "td": {"class": "num", "data-l": "Tokens"}},
    )
    cost_nanousd = Column(
        "Cost",
        empty_values=(),
        attrs={"th": {"class": "num"}, "td": {"class": "num", "data-l": "Cost"}},
    )

    class Meta:
        orderable = False
        template_name = "components/table.html"
        attrs = {"class": "tbl cards requests"}
        default = UNKNOWN

    caption = "Requests, newest first"

    def __init__(self, data: Any, *, zone: ZoneInfo, now: datetime, **options: Any) -> None:
        super().__init__(data, **options)
        self._zone = zone
        self._today = now.astimezone(zone).date()
        self._decimals = decimals_in(data)

    def render_at(self, record: Request) -> SafeString:
        """The time, and its date unless it is today's."""
        local = record.at.astimezone(self._zone)
        return format_html(
            '<time datetime="{}">{}{}</time>',
            record.at.isoformat(timespec="milliseconds"),
            clock(record.at, self._zone, has_date=False),
            "" if local.date() == self._today else f" {local.day} {local:%b}",
        )

    def render_event_id(self, record: Request) -> SafeString:
        return format_html(
            '<a class="mono" id="open-{}" href="{}" title="{}" aria-label="Request {}">{}</a>',
            record.event_id,
            reverse("request", args=[record.event_id]),
            record.event_id,
            record.event_id,
            f"…{record.event_id[-_SHOWN_OF_ID:]}",
        )

    def render_route_name(self, record: Request) -> SafeString:
        """The route, and the endpoint it was asked by."""
        return format_html(
            '{} <span class="mut">{}</span>', record.route_name or UNKNOWN, record.endpoint
        )

    def render_served(self, record: Request) -> SafeString:
        if is_served(record.cache):
            return format_html('<span class="chip">cache</span> {}', cache_words(record.cache))
        if record.worker_id is None:
            return format_html('<span class="mut">{}</span>', record.requested_model or UNKNOWN)
        return format_html(
            '<span class="nb">{} <span class="mut">on</span></span> '
            '<span class="mono nb" title="{}">{}</span>',
            record.model_name or record.model_id,
            record.worker_id,
            worker(record.pool_id, record.pool_name, record.worker_id),
        )

    def render_outcome(self, record: Request) -> SafeString:
        name, tone = outcome_mark(record)
        return format_html(
            '<span class="st {}">{}<span>{}</span></span>',
            tone,
            icon(name),
            breakable(outcome_words(record)),
        )

    def render_first_token_ms(self, record: Request) -> str:
        return duration(record.first_token_ms)

    def render_total_ms(self, record: Request) -> str:
        return duration(total_ms(record))

    def render_tokens(self, record: Request) -> str:
        return tokens(record.prompt_tokens, record.completion_tokens)

    def render_cost_nanousd(self, record: Request) -> str:
        return cost_words(record, self._decimals)


def breakable(words: str) -> SafeString:
    """A text whose long codes may go on in the next line, behind an underscore."""
    first, *rest = words.split("_")
    return format_html("{}{}", first, format_html_join("", "_<wbr>{}", ((one,) for one in rest)))
