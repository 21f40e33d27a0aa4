"""Edits of cache policies, and of which one a route has."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack

from controlplane.compiler.caches import matches_of, stored_matches
from controlplane.decisions.caches import CALIBRATION_BOUNDS
from controlplane.decisions.route_rules import when_document
from controlplane.errors import InUse, Invalid
from controlplane.models import CachePolicy, Organisation
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.route_rules import References, match_of
from controlplane.services.snapshots import configuration_edit
from inference.contract.kinds import CacheTier, TaskClass
from inference.contract.params import CACHE_BOUNDS, CACHE_TTL_BOUND, MAX_BYPASS_RULES
from inference.contract.snapshot import MatchRecord

_EDITABLE = frozenset(
    (
        *("name", "tiers", "scope", "ttl_s", "stores_sampled", "stores_tool_calls"),
        *("serves_out_of_budget", "bypass", "is_enabled"),
        *CACHE_BOUNDS,
        *CALIBRATION_BOUNDS,
    )
)


class PolicySettings(TypedDict, total=False):
    """What a policy can be given besides its name and `bypass`; see `CachePolicyRecord`."""

    tiers: Sequence[str]
    scope: str
    ttl_s: Mapping[str, int]
    stores_sampled: bool
    stores_tool_calls: bool
    serves_out_of_budget: bool
    similarity_min: float
    check_percent: float
    stale_s: int
    max_entry_bytes: int
    memory_percent: int
    edge_s: int
    is_enabled: bool
    false_hits_max_percent: float | None


def create_policy(
    actor: Actor,
    *,
    organisation: Organisation,
    name: str,
    bypass: Sequence[Mapping[str, Any]] = (),
    **settings: Unpack[PolicySettings],
) -> CachePolicy:
    """Make a policy, which keeps nothing until a route has it; raises Invalid or ProblemsFound.

    `bypass` are conditions as `decisions.route_rules.when_document` tells them.
    """
    with configuration_edit():
        policy = CachePolicy(organisation=organisation, name=name, **_plain(settings, {}))
        policy.bypass = _placed(policy, bypass)
        rows.insert(policy)
        after = told_policy(edits.values_of(policy))
        edits.conclude(actor, "create", "caches", policy, after=after)
    return policy


def update_policy(
    actor: Actor,
    *,
    policy_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> CachePolicy:
    """Change the fields that are named, of `ttl_s` the classes; `bypass` replaces the whole list.

    Raises Invalid, ProblemsFound, NotFound or VersionMismatch.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    with configuration_edit():
        policy = rows.lock(CachePolicy, policy_id, expected_version=expected_version)
        values = _plain(changes, policy.ttl_s)
        if "bypass" in values:
            values["bypass"] = _placed(policy, values["bypass"])
        changed = rows.change(policy, values)
        if changed is not None:
            before, after = map(told_policy, changed)
            edits.conclude(actor, "update", "caches", policy, before=before, after=after)
    return policy


def delete_policy(actor: Actor, *, policy_id: str, expected_version: int | None = None) -> None:
    """Remove a policy no route has; raises InUse naming the routes that do."""
    with configuration_edit():
        policy = rows.lock(CachePolicy, policy_id, expected_version=expected_version)
        routes = list(policy.routes.order_by("name").values_list("name", flat=True))
        if routes:
            raise InUse.by(f"Cache policy {policy.name}", "routes", routes)
        before = told_policy(edits.values_of(policy))
        rows.remove(policy)
        edits.conclude(actor, "delete", "caches", policy, before=before)


def find_policy(organisation: Organisation, asked: str | None) -> CachePolicy | None:
    """The organisation's policy of this id or name, or Invalid at `cache_policy`; None is none."""
    if asked is None:
        return None
    found = organisation.cache_policies.filter(pk=asked).first()
    found = found or organisation.cache_policies.filter(name=asked).first()
    if found is None:
        raise Invalid.field("cache_policy", "There is no cache policy of this name or id.")
    return found


def told_policy(values: Mapping[str, Any]) -> dict[str, Any]:
    """A policy's values with its conditions as people write them: what is given, no more."""
    if "bypass" not in values:
        return dict(values)
    told = [_given(one) for one in matches_of(values["bypass"])]
    return {**values, "bypass": told}


def _given(match: MatchRecord) -> dict[str, Any]:
    return {name: one for name, one in when_document(match).items() if one not in (None, [])}


def _plain(values: Mapping[str, Any], ttl_s: Mapping[str, int]) -> dict[str, Any]:
    """The values as columns hold them: tiers in the order they are asked, all classes of task."""
    found = dict(values)
    if "tiers" in found:
        found["tiers"] = _tiers(found["tiers"])
    if "ttl_s" in found:
        found["ttl_s"] = {**(ttl_s or CachePolicy().ttl_s), **_times(found["ttl_s"])}
    return found


def _tiers(asked: Sequence[str]) -> list[str]:
    known = [one.value for one in CacheTier]
    for position, one in enumerate(asked):
        if one not in known:
            raise Invalid.field(f"tiers.{position}", f"Choose from {', '.join(known)}.")
    return [one for one in known if one in asked]


def _times(asked: Mapping[str, Any]) -> dict[str, int]:
    known = {one.value for one in TaskClass}
    problems = {}
    for task, seconds in asked.items():
        is_whole = isinstance(seconds, int) and not isinstance(seconds, bool)
        if task not in known:
            problems[f"ttl_s.{task}"] = ["There is no such class of task."]
        elif not is_whole or CACHE_TTL_BOUND.problem_with(seconds):
            problems[f"ttl_s.{task}"] = [CACHE_TTL_BOUND.words]
    if problems:
        raise Invalid("Some fields are not valid.", fields=problems)
    return {str(task): seconds for task, seconds in asked.items()}


def _placed(policy: CachePolicy, documents: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Conditions as the row stores them; who stands there already may be gone by now."""
    if len(documents) > MAX_BYPASS_RULES:
        raise Invalid.field("bypass", f"A policy has at most {MAX_BYPASS_RULES} bypass rules.")
    known = References(policy.organisation_id, [{"when": one} for one in documents])
    held = [pk for match in matches_of(policy.bypass) for pk in _named(match)]
    found = []
    for position, document in enumerate(documents):
        place = f"bypass.{position}"
        match = match_of(document, known, place)
        if match == MatchRecord():
            raise Invalid.field(place, "Give a condition; to bypass all, switch the policy off.")
        known.refuse_unknown(document, held, place)
        found.append(match)
    return stored_matches(found)


def _named(match: MatchRecord) -> Sequence[str]:
    return (*match.key_ids, *match.team_ids, *match.project_ids)
