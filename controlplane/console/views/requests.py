"""The pages of the ledger: the list that keeps itself new, and one request."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe
from django_htmx.http import HttpResponseClientRedirect

from controlplane.console.formats import cost as cost_of
from controlplane.console.forms.requests import FOLDED, SUGGESTED, TIMES, dress
from controlplane.console.request_facts import at_most, facts_of, price_lines
from controlplane.console.scope import PARAMETER, Scope, scoped
from controlplane.console.tables.requests import (
    RequestTable,
    outcome_mark,
    outcome_words,
)
from controlplane.console.texts import as_text
from controlplane.console.waterfall import draw
from controlplane.selectors.request_filters import RequestFilters
from controlplane.selectors.requests import (
    RequestPage,
    get_request,
    has_news,
    list_charges,
    list_requests,
    page_of_requests,
)
from controlplane.selectors.usage import get_labels_of_day, list_labels
from inference.contract.kinds import ChargeKind

PAGE_SIZE = 50
RESULTS = "results"
CURSOR = "cursor"
LIVE = "live"
SEEN = "seen"

_SUGGESTED_SINCE = timedelta(days=30)
_NO_CONTENT = 204
_SEEN = re.compile(r"([0-9]{13})-([0-9a-f]{16})")


@dataclass(frozen=True, slots=True)
class Chip:
    """One filter in force, and the address of the page without it."""

    label: str
    value: str
    without: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What a page showed and when, so that a poll can be answered without reading it all again."""

    at: datetime
    digest: str

    def __str__(self) -> str:
        return f"{int(self.at.timestamp() * 1000)}-{self.digest}"

    @classmethod
    def of(cls, page: RequestPage, now: datetime) -> "Seen":
        """Rows never change once they are there, so their ids are enough."""
        ids = "\n".join(row.event_id for row in page.rows)
        return cls(now, sha256(ids.encode()).hexdigest()[:16])

    @classmethod
    def read(cls, text: str) -> "Seen | None":
        """The same back from a page's address; None if it isn't one."""
        match = _SEEN.fullmatch(text)
        if match is None:
            return None
        return cls(datetime.fromtimestamp(int(match[1]) / 1000, UTC), match[2])


@require_safe
@scoped
def request_list(request: HttpRequest, scope: Scope) -> HttpResponse:
    """List requests, newest first. A poll gets the results alone, or 204 if nothing changed."""
    now = timezone.now()
    everything = list_requests(scope.access, scope.organisation.pk)
    filters = RequestFilters(_asked(request.GET), queryset=everything)
    dress(filters.form, scope.zone.key)
    is_poll = request.headers.get("HX-Target") == RESULTS
    seen = Seen.read(request.GET.get(SEEN, "")) if is_poll else None
    if seen and not has_news(filters.qs, since=seen.at, now=now):
        return HttpResponse(status=_NO_CONTENT)
    page = RequestPage((), None)
    if filters.is_valid():
        page = page_of_requests(filters.qs, request.GET.get(CURSOR), PAGE_SIZE)
    shown = Seen.of(page, now)
    if seen and seen.digest == shown.digest:
        return HttpResponse(status=_NO_CONTENT)
    wanted = request.GET.get("id")
    if len(page.rows) == 1 and page.rows[0].event_id == wanted:
        return _go_to(request, reverse("request", args=[wanted]))
    context = _list_context(request, scope, filters, page) | {"seen": str(shown)}
    if is_poll:
        return render(request, "console/requests/results.html", context)
    context["suggestions"] = list_labels(
        scope.access, scope.organisation, SUGGESTED, now - _SUGGESTED_SINCE
    )
    return render(request, "console/requests/list.html", context)


def _go_to(request: HttpRequest, address: str) -> HttpResponse:
    """Send the whole page there, also when only a part of it was asked for."""
    is_part = "HX-Request" in request.headers
    return HttpResponseClientRedirect(address) if is_part else redirect(address)


@require_safe
@scoped
def request_detail(request: HttpRequest, scope: Scope, event_id: str) -> HttpResponse:
    """Show one request: timings, attempts, price and the decision behind it."""
    row = get_request(scope.access, scope.organisation.pk, event_id)
    charges = list(list_charges(scope.access, row))
    mark, tone = outcome_mark(row)
    context = {
        "scope": scope,
        "zone": scope.zone,
        "row": row,
        "charges": charges,
        "outcome": outcome_words(row),
        "mark": mark,
        "tone": tone,
        "booked": cost_of(row.cost_nanousd, None),
        "at_most": at_most(row),
        "facts": facts_of(row, charges),
        "waterfall": draw(row, charges),
        "lines": price_lines(charges),
        "is_exact": all(charge.kind == ChargeKind.FINAL for charge in charges),
        "decision": None if row.decision is None else as_text(row.decision),
        "labels": get_labels_of_day(
            scope.access,
            scope.organisation,
            row.day,
            {"team": row.team_id, "project": row.project_id, "key": row.key_id},
        ),
        "api": _api_call(request, scope, f"{_api_path()}{row.event_id}/", QueryDict()),
    }
    return render(request, "console/requests/detail.html", context)


def _asked(query: QueryDict) -> QueryDict:
    """The filters of the address: what was left empty is no filter."""
    asked = QueryDict(mutable=True)
    for name in RequestFilters.base_filters:
        if value := query.get(name, "").strip():
            asked[name] = value
    return asked


def _list_context(
    request: HttpRequest, scope: Scope, filters: RequestFilters, page: RequestPage
) -> dict[str, Any]:
    query, asked, form = request.GET, filters.data, filters.form
    is_first_page = not query.get(CURSOR)
    is_paused = query.get(LIVE) == "off"
    return {
        "scope": scope,
        "zone": scope.zone,
        "fields": [field for field in form if field.name not in FOLDED],
        "folded": [field for field in form if field.name in FOLDED],
        "is_valid": filters.is_valid(),
        "is_more_open": any(name in asked for name in FOLDED),
        "page": page,
        "table": RequestTable(page.rows, zone=scope.zone, now=timezone.now()),
        "chips": [_chip(filters, name, asked[name], query) for name in asked],
        "is_live": is_first_page and not is_paused and "to" not in asked and filters.is_valid(),
        "is_first_page": is_first_page,
        "poll": _address(query, **{SEEN: None}),
        "pause": _address(query, **{LIVE: "off", SEEN: None}),
        "resume": _address(query, **{LIVE: None, CURSOR: None, SEEN: None}),
        "newest": _address(query, **{CURSOR: None, SEEN: None}),
        "older": _address(query, **{CURSOR: page.older, SEEN: None}),
        "clear": reverse("requests"),
        "is_unused": not asked and is_first_page and not page.rows,
        "gateway": f"http://{request.get_host().partition(':')[0]}:{settings.HEADWORKS.gateway_port}",
        "api": _api_call(request, scope, _api_path(), _as_api(filters)),
    }


def _chip(filters: RequestFilters, name: str, value: str, query: QueryDict) -> Chip:
    field = filters.form.fields[name]
    shown = dict(getattr(field, "choices", ())).get(value, value)
    without = _address(query, **{name: None, CURSOR: None, SEEN: None})
    return Chip(str(field.label), str(shown), without)


def _address(query: QueryDict, **changes: str | None) -> str:
    """The list's address with these parameters set, or left out where None."""
    changed = query.copy()
    for name, value in changes.items():
        changed.pop(name, None)
        if value is not None:
            changed[name] = value
    return f"{reverse('requests')}?{changed.urlencode()}"


def _api_path() -> str:
    return reverse("api-request-list")


def _as_api(filters: RequestFilters) -> QueryDict:
    """The filters as the API takes them: times with their offset from UTC."""
    asked: QueryDict = filters.data.copy()
    for name in TIMES:
        at = filters.form.cleaned_data.get(name)
        if at is not None:
            asked[name] = at.isoformat()
    return asked


def _api_call(request: HttpRequest, scope: Scope, path: str, asked: QueryDict) -> str:
    """The same question to the API, ready for a shell."""
    query = asked.copy()
    if scope.is_choice:
        query[PARAMETER] = scope.organisation.pk
    address = request.build_absolute_uri(path)
    if query:
        address = f"{address}?{query.urlencode()}"
    return f"curl -H \"Authorization: Bearer $API_TOKEN\" \\\n  '{address}'"
