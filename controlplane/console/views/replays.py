"""The Replay pages: what drafts of routes would have done to past traffic."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from controlplane.console.api_calls import reading
from controlplane.console.formats import minute
from controlplane.console.lists import when
from controlplane.console.pages import Crumb, Page
from controlplane.console.replayed import (
    STATES,
    Row,
    caution_told,
    errors_told,
    facts_of,
    models_of,
    rows_of,
    splits_of,
    unjudged_told,
    verdict_of,
    workers_told,
)
from controlplane.errors import NotAllowed
from controlplane.models import Replay, ReplayState
from controlplane.selectors.models import list_models
from controlplane.selectors.pools import list_pools
from controlplane.selectors.replays import list_replays

SHOWN = 50
NOT_SHOWN = "Replays tell of everybody's traffic, so they are for roles of the whole organisation."


class ReplayPage(Page):
    """What the pages have in common."""

    def get_rows(self) -> Any:
        """The organisation's replays, if the reader reads all of it; raises NotAllowed."""
        organisation = self.scope.organisation
        if not self.scope.access.reads_organisation(organisation.pk):
            raise NotAllowed(NOT_SHOWN)
        return list_replays(self.scope.access).filter(organisation=organisation)


class ReplayList(ReplayPage):
    template_name = "console/replays/list.html"

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb("Serve"), Crumb("Replay"))

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the newest ones."""
        rows = self.get_rows().defer("changes", "drafted").order_by("-created_at")[:SHOWN]
        context = {
            "rows": [self._line(row) for row in rows],
            "api": reading(request, self.scope, reverse("api-replay-list"), place=""),
        }
        return self.render(context)

    def _line(self, row: Replay) -> Mapping[str, Any]:
        observed: Mapping[str, Any] = row.observed or {}
        return {
            "url": reverse("replay", args=[row.pk]),
            "row": row,
            "state": STATES[row.state],
            "created": when(row.created_at, self.scope, timezone.now()),
            "verdict": verdict_of(observed.get("errors")) if observed else None,
        }


class ReplayDetail(ReplayPage):
    template_name = "console/replays/detail.html"

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb("Serve"), Crumb("Replay", reverse("replays")), Crumb(self.row.route_name))

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Show one; while it runs the page asks again."""
        self.row = row = self.found(self.get_rows(), pk)
        context: dict[str, Any] = {
            "row": row,
            "state": STATES[row.state],
            "is_open": row.state in (ReplayState.QUEUED, ReplayState.RUNNING),
            "progress": 100 * row.done // row.total if row.total else 0,
            "span": f"{minute(row.since, self.scope.zone)} to {minute(row.until, self.scope.zone)}",
            "route_url": reverse("route", args=[row.route_id]),
            "changes": json.dumps(row.changes, indent=2, ensure_ascii=False),
            "api": reading(
                request, self.scope, reverse("api-replay-detail", args=[row.pk]), place=""
            ),
        }
        if row.report is not None:
            context |= self._report(row, row.report)
        return self.render(context)

    def _report(self, row: Replay, report: Mapping[str, Any]) -> dict[str, Any]:
        access, organisation = self.scope.access, self.scope.organisation
        pools = list_pools(access).filter(organisation=organisation)
        models = list_models(access).filter(organisation=organisation)
        names = dict((*pools.values_list("pk", "name"), *models.values_list("pk", "name")))
        splits, legend = splits_of(report["route"], names)
        sides, errors = report["route"], report["model_errors"]
        observed = row.observed
        return {
            "facts": facts_of(row),
            "caution": caution_told(report),
            "unjudged": unjudged_told(report),
            "scopes": _scopes(report),
            "splits": splits,
            "legend": legend,
            "models": models_of(sides, names),
            "model_verdict": verdict_of(errors),
            "model_lines": errors_told(sides["current"], sides["recorded"], errors),
            "observed": observed,
            "observed_verdict": None if observed is None else verdict_of(observed["errors"]),
            "observed_lines": ()
            if observed is None
            else errors_told(sides["draft"], observed["side"], observed["errors"]),
            "workers": workers_told(report, names),
            "left_out": report["left_out"],
        }


def _scopes(report: Mapping[str, Any]) -> Sequence[tuple[str, Sequence[Row]]]:
    """The route's figures, and all of the organisation's where those are others."""
    own = ("The route's requests", rows_of(report["route"]))
    if report["all"] == report["route"]:
        return (own,)
    return (own, ("All of the organisation's", rows_of(report["all"])))
