"""What a change of a route's rules, names or waiting does, in words."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.compiler import rules_of
from controlplane.console.formats import count
from controlplane.console.reviews import Check, Reach
from controlplane.console.route_edits import as_edit
from controlplane.console.rule_lines import conditions_of
from controlplane.console.scope import Scope
from controlplane.console.targets import told
from controlplane.decisions.header_rules import NOTHING
from controlplane.decisions.rule_matches import COLUMNS, Matches, count_matches
from controlplane.models import Route
from controlplane.selectors.impact import list_recent_of_route
from controlplane.selectors.snapshots import list_headers_looked_at
from controlplane.services.route_rules import place_rules
from inference.contract.snapshot import RuleRecord

MOST_READ = 1_000
_HOUR = timedelta(hours=1)


def rule_reach(scope: Scope, route: Route, changes: Mapping[str, Any]) -> Sequence[Reach]:
    """What share of the newest requests of the last hour each rule would have taken."""
    if "rules" not in changes:
        return ()
    rules = rules_of(place_rules(route, as_edit(changes)["rules"]))
    if not rules:
        return (Reach("Rules", "None: all requests go to the route's own targets."),)
    rows = list_recent_of_route(
        scope.access,
        scope.organisation,
        route_id=route.pk,
        since=timezone.now() - _HOUR,
        columns=COLUMNS,
        most=MOST_READ,
    )
    looked_at = NOTHING
    if any(one.when.headers for one in rules):
        looked_at = list_headers_looked_at({(row["lineage"], row["version"]) for row in rows})
    matches = count_matches(rows, rules, scope.organisation.time_zone, looked_at)
    found = [Reach(f"Rule {one.name}", _words(one, matches, len(rows))) for one in rules]
    if rows:
        none = _share(matches.taken[None], len(rows))
        found.append(Reach("No rule", f"{none}: the route's own targets"))
    return found


def _words(rule: RuleRecord, matches: Matches, read: int) -> str:
    if not rule.is_enabled:
        return "off, takes nothing"
    if not read:
        return "no request in the last hour to judge by"
    unjudged = matches.unjudged[rule.id]
    words = f"would have taken {_share(matches.taken[rule.id], read)}"
    if not unjudged:
        return words
    names = ", ".join(sorted({name for name, _ in rule.when.headers}))
    lacking = f"it looks at {names}, which was not recorded of them"
    if unjudged == read:
        return f"nothing tells what it would have taken: {lacking}"
    return f"{words}; {count(unjudged)} couldn't be judged: {lacking}"


def _share(taken: int, read: int) -> str:
    which = f"the newest {count(read)}" if read == MOST_READ else count(read)
    return f"{told(taken / read)} of {which} requests of the last hour"


def rule_checks(route: Route, changes: Mapping[str, Any]) -> Iterator[Check]:
    """What to think of before such a change."""
    for one in changes.get("rules") or ():
        if one["is_enabled"] and not any(conditions_of(one).values()):
            words = f"Rule {one['name']} has no condition: it takes every request that gets there."
            yield Check("warn", words)
    gone = sorted({*route.aliases} - {*changes.get("aliases", route.aliases)})
    if gone:
        yield Check("warn", f"Requests for {', '.join(gone)} will be refused from then on.")


def waiting_reach(changes: Mapping[str, Any]) -> Iterator[Reach]:
    """What becomes of requests while workers are busy."""
    if "max_queue_wait_ms" in changes:
        wait = changes["max_queue_wait_ms"]
        words = f"up to {count(wait)} ms for a free worker, then refused with Retry-After"
        yield Reach("Waiting", words if wait else "not at all: refused when no worker is free")
    if changes.get("hedge_after_ms") is not None:
        words = (
            f"asked {count(changes['hedge_after_ms'])} ms after the first if that has not begun; "
            "what both compute is billed"
        )
        yield Reach("Second worker", words)
    if "degradation" in changes:
        steps = ", then ".join(step.replace("_", " ") for step in changes["degradation"])
        yield Reach("While saturated", steps or "nothing is served less well")
