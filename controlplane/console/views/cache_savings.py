"""What the caches do: hit rates and savings by tier, how alike hits were, and which were false."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils import timezone

from controlplane.bridge.cache_stores import (
    PrefixCache,
    TierState,
    prefix_caches,
    tiers_of,
    top_entries,
)
from controlplane.bridge.vitals import read_fleet
from controlplane.console.api_calls import reading
from controlplane.console.cache_figures import (
    Drawn,
    hit_rates,
    rate_words,
    savings,
    similarities,
    tier_words,
)
from controlplane.console.details import Fact
from controlplane.console.filtering import address, dress
from controlplane.console.formats import (
    NO_PRICE,
    UNKNOWN,
    about_dollars,
    count,
    duration,
    minute,
    share,
    size,
    tokens,
)
from controlplane.console.forms.caches import SavingsForm
from controlplane.console.nouns import CACHES, POOLS, PURGES, ROUTES
from controlplane.console.pages import Crumb, Page
from controlplane.console.views.caches import require_whole, tabs_for
from controlplane.decisions.cache_calibration import Rate
from controlplane.models import CachePolicy, FalseHit
from controlplane.selectors.cache_usage import (
    CacheReport,
    Savings,
    get_cache_report,
    get_similarities,
    list_false_hits,
)
from controlplane.selectors.caches import list_policies
from controlplane.selectors.names import list_names
from controlplane.selectors.pools import list_pools
from inference.contract.vitals import TopEntry

_SHOWN = 50


class SavingsPage(Page):
    """A range of what the caches did, and what they hold now."""

    template_name = "console/caches/savings.html"

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb(CACHES.group), Crumb(CACHES.title, CACHES.list_url()), Crumb("Savings"))

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the range of the address."""
        require_whole(self)
        access, home, now = self.scope.access, self.scope.organisation, timezone.now()
        form = SavingsForm(request.GET, scope=self.scope)
        dress(form, self.scope.zone.key)
        is_valid = form.is_valid()
        policies = list(list_policies(access).filter(organisation=home).order_by("name"))
        context: dict[str, Any] = {
            "fields": [form["range"], form["route"]],
            "cache_tabs": tabs_for(self, "cache-savings"),
            "is_valid": is_valid,
            "has_policy": bool(policies),
            "has_route": any(one.route_names for one in policies),
            "may_write": self.may_write(CACHES.key),
        }
        if not is_valid:
            return self.render(context)
        route = form.cleaned_data["route"]
        pk = None if route is None else route.pk
        report = get_cache_report(access, home, form.asked, now, route_id=pk)
        steps = get_similarities(access, home, report.since, route_id=pk)
        thresholds = [one.threshold for one in report.routes if one.route_id == pk]
        drawn = similarities(steps, next(iter(thresholds), None))
        call = reading(
            request, self.scope, f"{reverse('api-cache-policy-list')}savings/", form.as_api()
        )
        return self.render(
            {
                **context,
                "figures": figures_of(report),
                "charts": [
                    _chart("hits", "Served from caches", "% of requests", hit_rates(report)),
                    _chart("saved", "Saved", "USD", savings(report)),
                ]
                if report.buckets
                else (),
                "alike": None
                if drawn is None
                else _chart("alike", "How alike the nearest were", "requests", drawn),
                "tiers": [tier_line(tier, one, report) for tier, one in report.tiers.items()],
                "outcomes": [
                    (name, count(number), self._requests(name, pk))
                    for name, number in report.outcomes.items()
                ],
                "routes": self._routes(report),
                "false_hits": self._false_hits(pk),
                **self._now(policies),
                "is_one_route": route is not None,
                "api": call,
            }
        )

    def _requests(self, outcome: str, route_id: str | None) -> str:
        return address(reverse("requests"), QueryDict(), cache=outcome, route=route_id)

    def _routes(self, report: CacheReport) -> Sequence[Mapping[str, Any]]:
        return [
            {
                "name": one.name,
                "url": ROUTES.detail_url(one.route_id) if one.threshold is not None else "",
                "asked": count(one.part.asked),
                "rate": rate_words(one.part),
                "saved": saved_words(one.part.served),
                "threshold": UNKNOWN if one.threshold is None else f"{one.threshold:.2f}",
                "false": false_words(one.false_hits),
            }
            for one in report.routes
        ]

    def _false_hits(self, route_id: str | None) -> Sequence[Mapping[str, Any]]:
        rows = list_false_hits(self.scope.access, self.scope.organisation)
        if route_id is not None:
            rows = rows.filter(route_id=route_id)
        found = list(rows[:_SHOWN])
        names = list_names(self.scope.access, {one.route_id for one in found if one.route_id})
        return [self._false_hit(one, names) for one in found]

    def _false_hit(self, row: FalseHit, names: Mapping[str, str]) -> Mapping[str, Any]:
        return {
            "at": minute(row.at, self.scope.zone),
            "request": row.event_id,
            "url": reverse("request", args=[row.event_id]),
            "route": names.get(row.route_id, row.route_id or UNKNOWN),
            "entry": row.entry_id or UNKNOWN,
            "similarity": UNKNOWN if row.similarity is None else f"{row.similarity:.3f}",
            "found": "a check" if row.source == "check" else f"told by {row.told_by}",
            "reason": row.reason,
        }

    def _now(self, policies: Sequence[CachePolicy]) -> Mapping[str, Any]:
        """What gateways hold now; nothing is told where the state store doesn't answer."""
        fleet = read_fleet()
        if fleet is None:
            return {"has_store": False}
        by_id = {one.pk: one.name for one in policies}
        entries = top_entries(fleet, by_id)
        names = list_names(self.scope.access, {one.route_id for one in entries})
        return {
            "has_store": True,
            "stores": [store_line(one) for one in tiers_of(fleet)],
            "engines": self._engines(prefix_caches(fleet)),
            "entries": [self._entry(one, by_id, names) for one in entries],
        }

    def _engines(self, found: Mapping[str, PrefixCache]) -> Sequence[Mapping[str, str]]:
        """The engines' own caches, a pool of the organisation's a row."""
        mine = list_pools(self.scope.access).filter(organisation_id=self.scope.organisation.pk)
        return [
            {
                "pool": pool.name,
                "url": POOLS.detail_url(pool.pk),
                "rate": f"{share(found[pool.pk].hits, found[pool.pk].tokens)} %"
                if found[pool.pk].tokens
                else UNKNOWN,
                "tokens": count(found[pool.pk].tokens),
                "workers": count(found[pool.pk].workers),
            }
            for pool in mine.filter(pk__in=list(found)).order_by("name")
        ]

    def _entry(
        self, entry: TopEntry, policies: Mapping[str, str], routes: Mapping[str, str]
    ) -> Mapping[str, Any]:
        purge = f"{PURGES.create_url()}?kind=entry&value={entry.entry_id}"
        saved = entry.saved_nanousd
        return {
            "id": entry.entry_id,
            "policy": policies[entry.policy_id],
            "route": routes.get(entry.route_id, entry.route_id),
            "tier": entry.tier.value,
            "hits": count(entry.hits),
            "bytes": size(entry.bytes),
            "saved": NO_PRICE if saved is None else about_dollars(saved),
            "stored": minute(datetime.fromtimestamp(entry.stored_at, UTC), self.scope.zone),
            "purge": purge,
        }


def figures_of(report: CacheReport) -> Sequence[Fact]:
    """The strip: what was served, what that saved, and the engines' own caches beside."""
    served = report.total.served
    engine = report.engine_hit_rate
    mean_ms = served.ms / served.requests if served.requests else None
    return (
        Fact("Served from caches", rate_words(report.total)),
        Fact("Saved", saved_words(served)),
        Fact("Tokens saved, in / out", tokens(served.prompt_tokens, served.completion_tokens)),
        Fact("Time saved, a hit", duration(mean_ms)),
        Fact(
            "Embeddings kept",
            f"{share(report.inputs_hit, report.inputs)} %" if report.inputs else UNKNOWN,
            unit="of inputs" if report.inputs else "",
        ),
        Fact(
            "Engines' prefix caches",
            UNKNOWN if engine is None else f"{100 * engine:.1f} %",
            unit="" if engine is None else "of prompt tokens",
        ),
    )


def saved_words(served: Savings) -> str:
    """Dollars, a dash where nothing was served, "no price" where nobody knows."""
    if served.is_nothing:
        return UNKNOWN
    saved = served.saved_nanousd
    return NO_PRICE if saved is None else about_dollars(saved)


def tier_line(tier: str, one: Savings, report: CacheReport) -> Mapping[str, str]:
    """A row of the table of tiers."""
    return {
        "tier": tier_words(tier),
        "served": count(one.requests),
        "rate": f"{share(one.requests, report.total.asked)} %" if report.total.asked else UNKNOWN,
        "tokens": tokens(one.prompt_tokens, one.completion_tokens),
        "saved": saved_words(one),
        "time": duration(one.ms / one.requests if one.requests else None),
    }


def false_words(rate: Rate) -> str:
    """`1.2 % (0.4 to 3.1), 5 of 412 checks`; how many checks there were where there were none."""
    if not rate.checks:
        return "not checked"
    low, high = f"{100 * rate.low:.1f}", f"{100 * rate.high:.1f}"
    told = f"{share(rate.false_hits, rate.checks)} % ({low} to {high})"
    return f"{told}, {count(rate.false_hits)} of {count(rate.checks)} checks"


def store_line(one: TierState) -> Mapping[str, Any]:
    """A row of the table of what tiers hold now."""
    is_known = one.bytes is not None and one.bytes_max
    return {
        "tier": one.tier.value,
        "entries": count(one.entries),
        "bytes": size(one.bytes),
        "of": size(one.bytes_max),
        "used": f"{share(one.bytes, one.bytes_max)} %" if is_known else UNKNOWN,
        "evictions": count(one.evictions),
        "errors": count(one.errors),
        "state": f"{one.down} of {one.processes} can't ask it" if one.down else "up",
        "tone": "warn" if one.down else "ok",
    }


def _chart(name: str, title: str, unit: str, drawn: Drawn) -> Mapping[str, Any]:
    return {
        "name": name,
        "title": title,
        "unit": unit,
        "drawn": drawn,
        "figure": json.dumps(drawn.figure),
    }
