"""What is wrong with cache policies and purges."""

import re
from collections import Counter
from collections.abc import Iterator

from inference.contract.kinds import CacheTier, PurgeKind
from inference.contract.params import (
    CACHE_BOUNDS,
    CACHE_TTL_BOUND,
    MAX_BYPASS_RULES,
    NAMESPACE_PATTERN,
    TAG_PATTERN,
)
from inference.contract.snapshot import CachePolicyRecord, ConfigSnapshot, PurgeRecord
from inference.decisions.problems import (
    Finding,
    Host,
    Problem,
    is_label,
    named,
    organisation_findings,
    out_of_bounds,
)
from inference.decisions.route_problems import findings_in_match

_NAMESPACE = re.compile(NAMESPACE_PATTERN)
_TAG = re.compile(TAG_PATTERN)


def cache_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    """Problems of all cache policies."""
    policies = snapshot.cache_policies.values()
    counts = Counter((policy.organisation_id, policy.name) for policy in policies)
    for policy in policies:
        yield from named(name, policy.id, _findings_in_policy(snapshot, policy))
        if counts[policy.organisation_id, policy.name] > 1:
            message = "The organisation has this name twice."
            yield Problem(name, policy.id, "name", "duplicate", message)


def purge_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    """Problems of all purges."""
    for purge in snapshot.purges.values():
        yield from named(name, purge.id, _findings_in_purge(snapshot, purge))


def _findings_in_policy(snapshot: ConfigSnapshot, policy: CachePolicyRecord) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, policy.organisation_id)
    if not is_label(policy.name):
        yield "name", "invalid", "A name is 1 to 255 printable characters."
    yield from _findings_in_tiers(policy)
    for task, ttl_s in policy.ttl_s.items():
        message = CACHE_TTL_BOUND.problem_with(ttl_s)
        if message is not None:
            yield f"ttl_s.{task.value}", "out_of_range", message
    yield from out_of_bounds(policy, CACHE_BOUNDS)
    if len(policy.bypass) > MAX_BYPASS_RULES:
        yield "bypass", "out_of_range", f"A policy has at most {MAX_BYPASS_RULES} such rules."
    for position, when in enumerate(policy.bypass):
        for field, code, message in findings_in_match(when):
            yield f"bypass.{position}.{field}", code, message


def _findings_in_tiers(policy: CachePolicyRecord) -> Iterator[Finding]:
    # one without any only tells what repeats
    if len(set(policy.tiers)) < len(policy.tiers):
        yield "tiers", "duplicate", "A tier is listed twice."
    kept = {CacheTier.LOCAL, CacheTier.SHARED}
    if CacheTier.SEMANTIC in policy.tiers and kept.isdisjoint(policy.tiers):
        yield "tiers", "invalid", "What the semantic tier finds stands in the local or shared one."
    if CacheTier.EMBEDDING in policy.tiers and kept.isdisjoint(policy.tiers):
        yield "tiers", "invalid", "Vectors of the embedding tier stand in the local or shared one."


def _findings_in_purge(snapshot: ConfigSnapshot, purge: PurgeRecord) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, purge.organisation_id)
    if purge.epoch < 1:
        yield "epoch", "out_of_range", "It must be at least 1."
    is_named = {PurgeKind.NAMESPACE: _NAMESPACE, PurgeKind.TAG: _TAG}.get(purge.kind)
    if is_named is not None and not is_named.fullmatch(purge.value):
        yield "value", "invalid", f"It must match {is_named.pattern}."
    elif not is_label(purge.value):
        yield "value", "invalid", "It is 1 to 255 printable characters."
