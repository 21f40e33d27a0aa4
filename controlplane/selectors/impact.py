"""What a change would touch: recent traffic of a route, pool, model or project, by roll-ups."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import F, QuerySet, Sum

from controlplane.models import Organisation, Project, RuleMinute, UsageMinute
from controlplane.selectors.access import Access
from controlplane.selectors.requests import list_requests, within

MOST_PROJECTS = 10

RULE_SPANS: Mapping[str, timedelta] = {"1h": timedelta(hours=1), "24h": timedelta(days=1)}
"""The stretches over which it is told what rules took."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Sums since a time. `projects` are names, most requests first, at most MOST_PROJECTS."""

    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    projects: Sequence[str]


def get_traffic(
    access: Access,
    organisation: Organisation,
    *,
    since: datetime,
    route_id: str | None = None,
    pool_id: str | None = None,
    model_id: str | None = None,
    project_id: str | None = None,
) -> Traffic:
    """What came in since then, of the whole organisation or what is named."""
    asked = {"route_id": route_id, "pool_id": pool_id, "model_id": model_id}
    asked["project_id"] = project_id
    rows = _minutes(access, organisation, since)
    rows = rows.filter(**{name: value for name, value in asked.items() if value is not None})
    names = ("requests", "prompt_tokens", "cached_tokens", "completion_tokens")
    sums = rows.aggregate(**{f"sum_{name}": Sum(name) for name in names})
    by_project = rows.values("project_id").annotate(total=Sum("requests"))
    largest = by_project.filter(total__gt=0).order_by("-total", "project_id")[:MOST_PROJECTS]
    ids = [row["project_id"] for row in largest]
    labels = dict(Project.objects.filter(pk__in=ids).values_list("pk", "name"))
    return Traffic(
        *(int(sums[f"sum_{name}"] or 0) for name in names),
        projects=[labels.get(one, one) for one in ids if one],
    )


def list_attempts_by_pool(
    access: Access, organisation: Organisation, *, since: datetime, route_ids: Sequence[str]
) -> Mapping[str, Mapping[str, int]]:
    """Attempts by route and pool since then; by one query. Pools nothing went to are absent."""
    rows = _minutes(access, organisation, since).filter(route_id__in=route_ids)
    found: dict[str, dict[str, int]] = {}
    for row in rows.exclude(pool_id="").values("route_id", "pool_id").annotate(n=Sum("attempts")):
        found.setdefault(row["route_id"], {})[row["pool_id"]] = int(row["n"])
    return found


@dataclass(frozen=True, slots=True)
class RuleSplit:
    """What came to a route since then, and how many requests each rule took, by its id.

    Rules that are gone since are in it; those that took nothing are not.
    """

    since: datetime
    requests: int
    by_rule: Mapping[str, int]

    @property
    def by_none(self) -> int:
        """How many no rule took: the route's own targets, or refused before any was read."""
        # both sums are read a moment apart
        return max(self.requests - sum(self.by_rule.values()), 0)

    def share_of(self, requests: int) -> float | None:
        """What part of all that is; None if there was nothing."""
        return min(requests / self.requests, 1.0) if self.requests else None


def list_rule_splits(
    access: Access, organisation: Organisation, *, route_id: str, now: datetime
) -> Mapping[str, RuleSplit]:
    """What the rules of a route took over each of RULE_SPANS; nothing for a narrower role."""
    found = {}
    for name, span in RULE_SPANS.items():
        since = now - span
        whole = _minutes(access, organisation, since).filter(route_id=route_id)
        rows = RuleMinute.objects.filter(
            organisation_id=organisation.pk, minute__gte=since, route_id=route_id
        )
        sums = access.visible_organisation_wide(rows).values("rule_id")
        by_rule = {row["rule_id"]: int(row["n"]) for row in sums.annotate(n=Sum("requests"))}
        total = whole.aggregate(n=Sum("requests"))["n"] or 0
        found[name] = RuleSplit(since, max(int(total), sum(by_rule.values())), by_rule)
    return found


def _minutes(access: Access, organisation: Organisation, since: datetime) -> QuerySet[UsageMinute]:
    # it tells of everybody's traffic, so it is for roles of the whole organisation
    rows = UsageMinute.objects.filter(organisation_id=organisation.pk, minute__gte=since)
    return access.visible_organisation_wide(rows)


def list_requests_by(
    access: Access, organisation: Organisation, *, since: datetime, field: str
) -> Mapping[str, int]:
    """Requests since then by `route_id`, `pool_id`, `model_id` or `project_id`; by one query."""
    rows = _minutes(access, organisation, since)
    sums = rows.values(field).annotate(total=Sum("requests")).filter(total__gt=0)
    return {row[field]: int(row["total"]) for row in sums}


def list_recent_of_route(
    access: Access,
    organisation: Organisation,
    *,
    route_id: str,
    since: datetime,
    columns: Sequence[str],
    most: int,
) -> Sequence[Mapping[str, Any]]:
    """Columns of a route's newest requests since then, at most so many, newest first.

    `headers` are those that the gateway wrote down, None if there were none.
    """
    rows = within(list_requests(access, organisation.pk), since=since).filter(route_id=route_id)
    return list(rows.values(*columns, headers=F("decision__facts__headers"))[:most])
