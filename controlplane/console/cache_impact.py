"""What a change of a cache policy, or a purge, touches: routes, their traffic, and warnings."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.console.cache_what_if import reach_of_draft
from controlplane.console.formats import count
from controlplane.console.nouns import CACHES, PURGES
from controlplane.console.reviews import Check, Impact, Reach, checks_of
from controlplane.console.scope import Scope
from controlplane.decisions.caches import (
    SCOPE_WORDS,
    SHARED_WARNING,
    purge_words,
    tiers_words,
    ttl_words,
)
from controlplane.models import CachePolicy, Route
from controlplane.selectors.impact import get_traffic
from controlplane.services.drafts import Draft
from inference.contract.kinds import CacheScope, CacheTier, PurgeKind, TaskClass

DAY = timedelta(days=1)


def impact_of_policy(
    scope: Scope, values: Mapping[str, Any], draft: Draft, row: CachePolicy | None = None
) -> Impact:
    """The impact of a policy with these values; `row` is the one there is, if there is one."""
    routes = [] if row is None else list(row.routes.order_by("name"))
    reach = (
        Reach("Keeps answers", tiers_words(values["tiers"])),
        Reach("Shared by", SCOPE_WORDS[values["scope"]]),
        Reach("For", ttl_words(values["ttl_s"])),
        *_traffic(scope, routes),
        *(reach_of_draft(scope, row, values) if row is not None and routes else ()),
    )
    return Impact(reach=reach, checks=(*_warnings(values), *checks_of(draft, CACHES.key)))


def _traffic(scope: Scope, routes: Sequence[Route]) -> Iterator[Reach]:
    if not routes:
        yield Reach("Routes", "none has it: nothing is kept until one is given it")
        return
    yield Reach("Routes", ", ".join(route.name for route in routes))
    if not scope.access.reads_organisation(scope.organisation.pk):
        return
    since = timezone.now() - DAY
    found = [
        get_traffic(scope.access, scope.organisation, since=since, route_id=one.pk)
        for one in routes[:20]
    ]
    requests = sum(one.requests for one in found)
    yield Reach("Their requests", f"{count(requests)} in the last 24 h")


def _warnings(values: Mapping[str, Any]) -> Iterator[Check]:
    if not values["is_enabled"]:
        yield Check("info", "It is off: nothing is served from it or kept.")
    if not values["tiers"]:
        yield Check("info", "It only counts what repeats: nothing is kept or served.")
    if values["scope"] == CacheScope.SHARED:
        yield Check("warn", SHARED_WARNING)
    if values["stores_sampled"]:
        words = "Callers who ask for chance are given the same answer again."
        yield Check("warn", words)
    if values["stores_tool_calls"]:
        yield Check("warn", "A call of a tool that was kept is made again, with what it does.")
    if values["ttl_s"].get(TaskClass.CREATIVE.value):
        yield Check("warn", "Creative answers are kept too: the same words for the same wish.")
    if CacheTier.SEMANTIC in values["tiers"]:
        yield from _by_meaning(values)


def _by_meaning(values: Mapping[str, Any]) -> Iterator[Check]:
    if values["similarity_min"] < 0.85:
        words = f"At {values['similarity_min']:g} questions are alike that want other answers."
        yield Check("warn", words)
    if values["check_percent"] == 0:
        yield Check("warn", "Nothing is checked, so nobody will know how many hits are false.")


def impact_of_purge(scope: Scope, values: Mapping[str, Any], draft: Draft) -> Impact:
    """What a purge takes out, and that it can't be undone."""
    kind, value = values["kind"], values["value"]
    mine = CachePolicy.objects.filter(organisation=scope.organisation)
    policy = None
    if kind == PurgeKind.POLICY:
        policy = mine.filter(pk=value).first() or mine.filter(name=value).first()
    words = purge_words(kind, value, None if policy is None else policy.name)
    routes = [] if policy is None else list(policy.routes.order_by("name"))
    reach = [Reach("Takes out", words)]
    if policy is not None:
        reach += _traffic(scope, routes)
    else:
        reach.append(Reach("Of", f"every policy of {scope.organisation.name}"))
    checks = (
        Check(
            "info",
            "What was asked before it is never served again by a gateway that has heard of it.",
        ),
        Check("warn", "It can't be undone: what it takes out is asked of the workers anew."),
        *checks_of(draft, PURGES.key),
    )
    return Impact(reach=reach, checks=checks)
