"""What can be said of rules that look at headers, for requests that are over.

Of a request's headers a gateway writes down those that a rule of its route looks at. Of all others
nobody knows whether they were there.
"""

from collections.abc import Mapping
from dataclasses import replace

from inference.contract.snapshot import RouteRecord, RuleRecord
from inference.decisions.rules import Circumstances, fits

LookedAt = Mapping[tuple[str, int], Mapping[str, frozenset[str]]]
"""By lineage and version of the configuration, the headers that the rules of a route looked at.

Routes whose rules look at none are left out, and so are versions that are kept no longer.
"""

NOTHING: LookedAt = {}


def known_headers(
    looked_at: LookedAt, *, lineage: str, version: int, route_id: str | None
) -> frozenset[str]:
    """The headers whose presence was written down of a request that this version decided."""
    return looked_at.get((lineage, version), {}).get(route_id or "", frozenset())


def unjudged_rules(
    route: RouteRecord, case: Circumstances, known: frozenset[str]
) -> tuple[RuleRecord, ...]:
    """The rules that may have taken the request or not, for want of a header, in their order.

    `known` are headers whose presence is known beside those the facts hold. All that is known of
    the request fits such a rule; rules that a decided one comes before are never asked.
    """
    if case.facts.target_id is not None:
        return ()
    told = known | {name for name, _ in case.facts.headers}
    found: list[RuleRecord] = []
    for rule in route.rules:
        wanted = tuple(one for one in rule.when.headers if one[0] in told)
        if not rule.is_enabled or not fits(replace(rule.when, headers=wanted), case):
            continue
        if len(wanted) == len(rule.when.headers):
            break
        found.append(rule)
    return tuple(found)
