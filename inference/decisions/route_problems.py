"""What is wrong with routes: names, rules, targets, numbers."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from inference.contract.params import (
    HEADER_PATTERN,
    MAX_ALIASES,
    MAX_RULES,
    MAX_TIERS,
    MAX_WEIGHT,
    MINUTES_A_DAY,
    ROUTE_BOUNDS,
    ROUTE_NAME_PATTERN,
    SIMILARITY_BOUND,
    TAG_PATTERN,
    TARGET_BOUNDS,
)
from inference.contract.snapshot import (
    ConfigSnapshot,
    MatchRecord,
    RouteRecord,
    RuleRecord,
    TargetRecord,
)
from inference.decisions.problems import (
    Finding,
    Host,
    Problem,
    is_label,
    named,
    organisation_findings,
    out_of_bounds,
)

_ROUTE_NAME = re.compile(ROUTE_NAME_PATTERN)
_TAG = re.compile(TAG_PATTERN)
_HEADER = re.compile(HEADER_PATTERN)

_NEVER_MATCHED = frozenset(("authorization", "cookie", "proxy-authorization", "x-api-key"))
"""Headers that carry credentials: a rule would be a place where they are written down."""


def route_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    """Problems of all routes."""
    names = Counter(
        (route.organisation_id, given)
        for route in snapshot.routes.values()
        for given in (route.name, *route.aliases)
    )
    for route in snapshot.routes.values():
        yield from named(name, route.id, _findings_in_route(snapshot, route))
        for position, alias in enumerate(route.aliases):
            if names[route.organisation_id, alias] > 1:
                message = "Another route, or this one, has this name already."
                yield Problem(name, route.id, f"aliases.{position}", "duplicate", message)


def _findings_in_route(snapshot: ConfigSnapshot, route: RouteRecord) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, route.organisation_id)
    if not _ROUTE_NAME.fullmatch(route.name):
        yield "name", "invalid", f"A route's name must match {ROUTE_NAME_PATTERN}."
    if len(route.aliases) > MAX_ALIASES:
        yield "aliases", "out_of_range", f"A route has at most {MAX_ALIASES} further names."
    for position, alias in enumerate(route.aliases):
        if not _ROUTE_NAME.fullmatch(alias):
            message = f"A name must match {ROUTE_NAME_PATTERN}."
            yield f"aliases.{position}", "invalid", message
    # a route whose pool was removed under it is switched off and may stand empty
    yield from findings_in_targets(
        snapshot, route.organisation_id, route.targets, "targets", is_needed=route.is_enabled
    )
    yield from out_of_bounds(route, ROUTE_BOUNDS)
    if len(set(route.degradation)) < len(route.degradation):
        yield "degradation", "duplicate", "A step is listed twice."
    yield from _findings_in_rules(snapshot, route)
    if route.cache_policy_id is not None:
        policy = snapshot.cache_policies.get(route.cache_policy_id)
        if policy is None:
            yield "cache_policy_id", "unknown", "There is no such cache policy."
        elif policy.organisation_id != route.organisation_id:
            yield "cache_policy_id", "foreign", "The policy belongs to another organisation."
    yield from out_of_bounds(route, {"similarity_min": SIMILARITY_BOUND})


def findings_in_targets(
    snapshot: ConfigSnapshot,
    organisation_id: str,
    targets: Sequence[TargetRecord],
    place: str,
    *,
    is_needed: bool,
) -> Iterator[Finding]:
    """What is wrong with targets that an organisation has chosen, by themselves and together."""
    if is_needed and not any(target.weight > 0 for target in targets):
        yield place, "required", "An enabled route needs a target with a weight above 0."
    counts = Counter(target.id for target in targets)
    for position, target in enumerate(targets):
        for field, code, message in _findings_in_target(snapshot, organisation_id, target):
            yield f"{place}.{position}.{field}", code, message
        if counts[target.id] > 1:
            yield f"{place}.{position}.id", "duplicate", "Two targets of the route have this id."


def _findings_in_target(
    snapshot: ConfigSnapshot, organisation_id: str, target: TargetRecord
) -> Iterator[Finding]:
    if not 0 <= target.weight <= MAX_WEIGHT:
        yield "weight", "out_of_range", f"A weight must be between 0 and {MAX_WEIGHT:,}."
    if not 0 <= target.tier < MAX_TIERS:
        yield "tier", "out_of_range", f"It must be between 0 and {MAX_TIERS - 1}."
    pool = snapshot.pools.get(target.pool_id)
    if pool is None:
        yield "pool_id", "unknown", "There is no such pool."
    elif pool.organisation_id != organisation_id:
        yield "pool_id", "foreign", "The pool belongs to another organisation."
    yield from out_of_bounds(target, TARGET_BOUNDS)


def _findings_in_rules(snapshot: ConfigSnapshot, route: RouteRecord) -> Iterator[Finding]:
    if len(route.rules) > MAX_RULES:
        yield "rules", "out_of_range", f"A route has at most {MAX_RULES} rules."
    counts = Counter(rule.id for rule in route.rules)
    for position, rule in enumerate(route.rules):
        place = f"rules.{position}"
        if counts[rule.id] > 1:
            yield f"{place}.id", "duplicate", "Two rules of the route have this id."
        if not is_label(rule.name):
            yield f"{place}.name", "invalid", "A name is 1 to 255 printable characters."
        is_on, owner = _is_on(route, rule), route.organisation_id
        yield from findings_in_targets(
            snapshot, owner, rule.targets, f"{place}.targets", is_needed=is_on
        )
        for field, code, message in findings_in_match(rule.when):
            yield f"{place}.when.{field}", code, message


def _is_on(route: RouteRecord, rule: RuleRecord) -> bool:
    return route.is_enabled and rule.is_enabled


def findings_in_match(when: MatchRecord) -> Iterator[Finding]:
    """What is wrong with the conditions of a rule, by themselves."""
    for position, tag in enumerate(when.tags):
        if not _TAG.fullmatch(tag):
            yield f"tags.{position}", "invalid", f"A tag must match {TAG_PATTERN}."
    for position, (header, value) in enumerate(when.headers):
        if not _HEADER.fullmatch(header):
            message = "It is the name of a header in lower case."
            yield f"headers.{position}.0", "invalid", message
        elif header in _NEVER_MATCHED:
            message = "Rules can't look at headers that carry credentials."
            yield f"headers.{position}.0", "not_allowed", message
        if not is_label(value):
            yield f"headers.{position}.1", "invalid", "It is 1 to 255 printable characters."
    low, high = when.prompt_tokens_min, when.prompt_tokens_max
    if low is not None and low < 0:
        yield "prompt_tokens_min", "out_of_range", "It can't be negative."
    if high is not None and high < (low or 0):
        yield "prompt_tokens_max", "out_of_range", "It can't be below the least."
    if when.schedule is not None:
        for field in ("from_minute", "to_minute"):
            if not 0 <= getattr(when.schedule, field) <= MINUTES_A_DAY:
                message = f"It must be between 0 and {MINUTES_A_DAY:,}."
                yield f"schedule.{field}", "out_of_range", message
