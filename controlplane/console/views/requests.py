"""The pages of the ledger: the list that keeps itself new, and one request."""

import re
from collections.abc import Sequence
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

from controlplane.console.api_calls import reading
from controlplane.console.budget_traces import budgets_of_request
from controlplane.console.cache_facts import cache_facts, has_entry
from controlplane.console.filtering import Chip, address
from controlplane.console.formats import cost as cost_of
from controlplane.console.forms.requests import FOLDED, SUGGESTED, TIMES, dress
from controlplane.console.nouns import KEYS, MODELS, POOLS, PROJECTS, ROUTES, TEAMS, Noun
from controlplane.console.request_facts import (
    at_most,
    closing_words,
    decimals_in,
    facts_of,
    price_lines,
    rule_words,
)
from controlplane.console.scope import Scope, scoped
from controlplane.console.tables.requests import (
    RequestTable,
    outcome_mark,
    outcome_words,
)
from controlplane.console.texts import as_text
from controlplane.console.waterfall import draw
from controlplane.models import Charge, Request
from controlplane.models.keys import key_pk
from controlplane.selectors.feedback import list_feedback
from controlplane.selectors.names import list_names
from controlplane.selectors.request_filters import EVER, RequestFilters
from controlplane.selectors.requests import (
    RequestPage,
    get_request,
    has_news,
    list_charges,
    list_requests,
    page_of_requests,
)
from controlplane.selectors.routes import get_rule_name
from controlplane.selectors.usage import get_labels_of_day, list_labels

PAGE_SIZE = 50
RESULTS = "results"
CURSOR = "cursor"
LIVE = "live"
SEEN = "seen"

USUAL_SPAN = "24h"
"""What a list without a time is about: a filter that little fits must not read the whole ledger."""

_TIMES = ("last", "from", "to", "id")
_SUGGESTED_SINCE = timedelta(days=30)
_NO_CONTENT = 204
_SEEN = re.compile(r"([0-9]{13})-([0-9a-f]{16})")


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
    context["is_unused"] = (
        not page.rows and not _is_filtered(request.GET) and not everything.exists()
    )
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
    links = _links_of(scope, row, charges)
    decimals = decimals_in(charges)
    context = {
        "scope": scope,
        "zone": scope.zone,
        "row": row,
        "charges": charges,
        "outcome": outcome_words(row),
        "mark": mark,
        "tone": tone,
        "booked": cost_of(row.cost_nanousd, None, decimals),
        "at_most": at_most(row, decimals),
        "decimals": decimals,
        "closing": closing_words(charges),
        "links": links,
        "rule": rule_words(row, get_rule_name(scope.access, row.route_id, row.rule_id)),
        "facts": facts_of(row, charges),
        "waterfall": draw(row, charges, links),
        "lines": price_lines(charges),
        "decision": None if row.decision is None else as_text(row.decision),
        "budgets": budgets_of_request(scope, row),
        "feedback": list_feedback(scope.access, row),
        "cache_facts": cache_facts(row, _policy_name(scope, row)),
        "is_from_cache": has_entry(row.cache),
        "may_purge": scope.access.may_write("purges", scope.organisation.pk),
        "labels": get_labels_of_day(
            scope.access,
            scope.organisation,
            row.day,
            {"team": row.team_id, "project": row.project_id, "key": row.key_id},
        ),
        "api": reading(request, scope, f"{_api_path()}{row.event_id}/"),
    }
    return render(request, "console/requests/detail.html", context)


def _policy_name(scope: Scope, row: Request) -> str | None:
    """The name of the cache policy that bore on a request, None if there is none any more."""
    pk = None if row.cache is None else row.cache["policy_id"]
    return None if pk is None else list_names(scope.access, {pk}).get(pk)


def _links_of(scope: Scope, row: Request, charges: Sequence[Charge]) -> dict[str, str]:
    """The pages of what a request went through, by id, as far as those things are still there."""
    nouns: dict[str, Noun] = {
        row.route_id or "": ROUTES,
        row.project_id: PROJECTS,
        row.team_id: TEAMS,
        key_pk(row.key_id): KEYS,
        **{charge.pool_id: POOLS for charge in charges},
        **{charge.model_id: MODELS for charge in charges},
    }
    there = list_names(scope.access, [one for one in nouns if one])
    return {one: nouns[one].detail_url(one) for one in there}


def _is_filtered(query: QueryDict) -> bool:
    """Whether the address names a filter, beside a span of time, or a page."""
    names = {CURSOR, *RequestFilters.base_filters} - {"last"}
    return any(query.get(name) for name in names)


def _asked(query: QueryDict) -> QueryDict:
    """The filters of the address, and the usual span where it names no time.

    What was left empty is no filter.
    """
    asked = QueryDict(mutable=True)
    for name in RequestFilters.base_filters:
        if value := query.get(name, "").strip():
            asked[name] = value
    if not any(name in asked for name in _TIMES):
        asked["last"] = USUAL_SPAN
    return asked


def _list_context(
    request: HttpRequest, scope: Scope, filters: RequestFilters, page: RequestPage
) -> dict[str, Any]:
    query, asked, form = request.GET, filters.data, filters.form
    is_first_page = not query.get(CURSOR)
    is_paused = query.get(LIVE) == "off"
    path = reverse("requests")
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
        "poll": address(path, query, **{SEEN: None}),
        "pause": address(path, query, **{LIVE: "off", SEEN: None}),
        "resume": address(path, query, **{LIVE: None, CURSOR: None, SEEN: None}),
        "newest": address(path, query, **{CURSOR: None, SEEN: None}),
        "older": address(path, query, **{CURSOR: page.older, SEEN: None}),
        "clear": path,
        "ever": address(path, query, last=EVER, **{CURSOR: None, SEEN: None}),
        "gateway": f"http://{request.get_host().partition(':')[0]}:{settings.HEADWORKS.gateway_port}",
        "api": reading(request, scope, _api_path(), _as_api(filters)),
    }


def _chip(filters: RequestFilters, name: str, value: str, query: QueryDict) -> Chip:
    """A filter in force. Without its span, the list is about any time."""
    field = filters.form.fields[name]
    shown = dict(getattr(field, "choices", ())).get(value, value)
    gone = EVER if name == "last" and value != EVER else None
    changes = {name: gone, CURSOR: None, SEEN: None}
    return Chip(str(field.label), str(shown), address(reverse("requests"), query, **changes))


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
