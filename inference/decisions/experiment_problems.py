"""What is wrong with experiments: shares, places in layers, and what variants change."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import pairwise

import msgspec

from inference.contract.kinds import ExperimentMode, ExperimentUnit
from inference.contract.params import (
    ANSWER_BOUNDS,
    EXPERIMENT_BOUNDS,
    FIXED_MEMBERS,
    MAX_PARAMETER_CHARS,
    MAX_PARAMETERS,
    MAX_RAMP_STEPS,
    MAX_RUNNING_EXPERIMENTS,
    MAX_VARIANTS,
    NAME_PATTERN,
    PARAMETER_PATTERN,
    VARIANT_BOUNDS,
    WHOLE_BP,
)
from inference.contract.snapshot import (
    ConfigSnapshot,
    ExperimentRecord,
    RouteRecord,
    TargetRecord,
    VariantRecord,
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
from inference.decisions.route_problems import findings_in_match, findings_in_targets

_LAYER = re.compile(NAME_PATTERN)
_PARAMETER = re.compile(PARAMETER_PATTERN)
_COUNT = re.compile(r"[1-9][0-9]{0,8}")
_parsed = msgspec.json.Decoder().decode

Running = dict[tuple[str, str], list[ExperimentRecord]]


def experiment_problems(
    snapshot: ConfigSnapshot, name: str, host: Host
) -> Iterator[Problem | None]:
    """Problems of all experiments, and of those that run with one another."""
    experiments = snapshot.experiments.values()
    counts = Counter((one.organisation_id, one.name) for one in experiments)
    routes = {route.id: route for route in snapshot.routes.values()}
    layers: Running = defaultdict(list)
    sharing: Running = defaultdict(list)
    for one in experiments:
        yield from named(name, one.id, _findings_in_experiment(snapshot, one, routes))
        if counts[one.organisation_id, one.name] > 1:
            message = "The organisation has this name twice."
            yield Problem(name, one.id, "name", "duplicate", message)
        if one.is_running:
            layers[one.organisation_id, one.layer].append(one)
            sharing[one.organisation_id, one.route_id].append(one)
    for those in layers.values():
        yield from _clashes_in_layer(name, those)
    for those in sharing.values():
        yield from _clashes_on_route(name, those)


def _findings_in_experiment(
    snapshot: ConfigSnapshot, experiment: ExperimentRecord, routes: dict[str, RouteRecord]
) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, experiment.organisation_id)
    if not is_label(experiment.name):
        yield "name", "invalid", "A name is 1 to 255 printable characters."
    if not is_label(experiment.salt):
        yield "salt", "invalid", "It is 1 to 255 printable characters."
    route = routes.get(experiment.route_id)
    if route is None:
        yield "route_id", "unknown", "There is no such route."
    elif route.organisation_id != experiment.organisation_id:
        yield "route_id", "foreign", "The route belongs to another organisation."
    if experiment.mode is ExperimentMode.SHADOW:
        yield "mode", "not_allowed", "Gateways can't ask variants beside the control yet."
    if experiment.mode is ExperimentMode.BANDIT and experiment.unit is not ExperimentUnit.REQUEST:
        yield "unit", "invalid", "Where shares follow what is learned, the unit is the request."
    yield from out_of_bounds(experiment, EXPERIMENT_BOUNDS)
    yield from _findings_in_place(experiment)
    yield from _findings_in_ramp(experiment)
    if experiment.when is not None:
        for field, code, message in findings_in_match(experiment.when):
            yield f"when.{field}", code, message
    yield from _findings_in_variants(snapshot, experiment, route)


def _findings_in_place(experiment: ExperimentRecord) -> Iterator[Finding]:
    if not _LAYER.fullmatch(experiment.layer):
        yield "layer", "invalid", f"A layer's name must match {NAME_PATTERN}."
    if experiment.layer_to_bp <= experiment.layer_from_bp:
        yield "layer_to_bp", "invalid", "A part of a layer ends after it begins."


def _findings_in_ramp(experiment: ExperimentRecord) -> Iterator[Finding]:
    if len(experiment.ramp) > MAX_RAMP_STEPS:
        yield "ramp", "out_of_range", f"A ramp has at most {MAX_RAMP_STEPS} steps."
    for position, (_, allocation_bp) in enumerate(experiment.ramp):
        message = EXPERIMENT_BOUNDS["allocation_bp"].problem_with(allocation_bp)
        if message is not None:
            yield f"ramp.{position}.1", "out_of_range", message
    for position, (before, after) in enumerate(pairwise(experiment.ramp), 1):
        if after[0] <= before[0]:
            yield f"ramp.{position}.0", "invalid", "Each step begins after the one before it."
        if after[1] < before[1]:
            yield f"ramp.{position}.1", "invalid", "A ramp grows: or units would leave again."


def _findings_in_variants(
    snapshot: ConfigSnapshot, experiment: ExperimentRecord, route: RouteRecord | None
) -> Iterator[Finding]:
    variants = experiment.variants
    if not variants:
        yield "variants", "required", "An experiment needs at least one variant."
        return
    if len(variants) > MAX_VARIANTS:
        yield "variants", "out_of_range", f"An experiment has at most {MAX_VARIANTS} variants."
    if sum(one.share_bp for one in variants) != WHOLE_BP:
        message = f"The shares of all variants make {WHOLE_BP:,} together."
        yield "variants", "invalid", message
    ids = Counter(one.id for one in variants)
    names = Counter(one.name for one in variants)
    target_ids = Counter(target.id for one in variants for target in one.targets)
    target_ids.update({target.id for target in _targets_of(route)})
    for position, variant in enumerate(variants):
        place = f"variants.{position}"
        for field, code, message in _findings_in_variant(snapshot, experiment, variant):
            yield f"{place}.{field}", code, message
        if ids[variant.id] > 1:
            yield f"{place}.id", "duplicate", "Two variants of the experiment have this id."
        if names[variant.name] > 1:
            yield f"{place}.name", "duplicate", "Two variants of the experiment have this name."
        for number, target in enumerate(variant.targets):
            if target_ids[target.id] > 1:
                message = "Two targets of the experiment and its route have this id."
                yield f"{place}.targets.{number}.id", "duplicate", message


def _targets_of(route: RouteRecord | None) -> Iterable[TargetRecord]:
    if route is None:
        return ()
    return (*route.targets, *(target for rule in route.rules for target in rule.targets))


def _findings_in_variant(
    snapshot: ConfigSnapshot, experiment: ExperimentRecord, variant: VariantRecord
) -> Iterator[Finding]:
    if not is_label(variant.name):
        yield "name", "invalid", "A name is 1 to 255 printable characters."
    yield from out_of_bounds(variant, VARIANT_BOUNDS)
    owner = experiment.organisation_id
    if variant.targets and not any(target.weight > 0 for target in variant.targets):
        yield "targets", "required", "A variant with targets needs one with a weight above 0."
    yield from findings_in_targets(snapshot, owner, variant.targets, "targets", is_needed=False)
    yield from _findings_in_parameters(variant)
    if variant.cache_policy_id is not None:
        policy = snapshot.cache_policies.get(variant.cache_policy_id)
        if policy is None:
            yield "cache_policy_id", "unknown", "There is no such cache policy."
        elif policy.organisation_id != owner:
            yield "cache_policy_id", "foreign", "The policy belongs to another organisation."
    if variant.prompt_version_id is not None:
        yield "prompt_version_id", "unknown", "There is no such version of a prompt."


def _findings_in_parameters(variant: VariantRecord) -> Iterator[Finding]:
    if len(variant.parameters) > MAX_PARAMETERS:
        yield "parameters", "out_of_range", f"A variant has at most {MAX_PARAMETERS} parameters."
    for name, text in variant.parameters.items():
        place = f"parameters.{name}"
        if not _PARAMETER.fullmatch(name):
            yield place, "invalid", f"A parameter's name must match {PARAMETER_PATTERN}."
        elif name in FIXED_MEMBERS:
            yield place, "not_allowed", f"No variant can replace `{name}`."
        if len(text) > MAX_PARAMETER_CHARS:
            message = f"A parameter has at most {MAX_PARAMETER_CHARS:,} characters."
            yield place, "out_of_range", message
        elif not _is_json(text):
            yield place, "invalid", "It is a value in JSON."
        elif name in ANSWER_BOUNDS and not _COUNT.fullmatch(text):
            yield place, "invalid", "It is a whole number of at least 1."


def _is_json(text: str) -> bool:
    try:
        _parsed(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _clashes_in_layer(section: str, those: list[ExperimentRecord]) -> Iterator[Problem]:
    """Both of two that have a place in common, and those that count something else than others."""
    placed = sorted(those, key=lambda one: (one.layer_from_bp, one.layer_to_bp))
    found: set[str] = set()
    furthest = placed[0]
    for one in placed[1:]:
        if one.layer_from_bp < furthest.layer_to_bp:
            found |= {one.id, furthest.id}
        if one.layer_to_bp > furthest.layer_to_bp:
            furthest = one
    for experiment_id in sorted(found):
        message = "Another experiment that runs has some of this part of the layer."
        yield Problem(section, experiment_id, "layer_from_bp", "overlap", message)
    if len({one.unit for one in those}) > 1:
        message = "Experiments of one layer have the same unit: or somebody could be in two."
        for one in placed:
            yield Problem(section, one.id, "unit", "overlap", message)


def _clashes_on_route(section: str, those: list[ExperimentRecord]) -> Iterator[Problem]:
    """Those beyond the most, and those of several layers that change the same of a request."""
    if len(those) > MAX_RUNNING_EXPERIMENTS:
        message = f"A route has at most {MAX_RUNNING_EXPERIMENTS} experiments that run."
        for one in those:
            yield Problem(section, one.id, "route_id", "out_of_range", message)
    layers: dict[str, set[str]] = defaultdict(set)
    for one in those:
        for change in _changes(one):
            layers[change].add(one.layer)
    for one in those:
        for change in sorted(_changes(one)):
            if len(layers[change]) > 1:
                message = f"An experiment of another layer changes {change} on this route too."
                yield Problem(section, one.id, "layer", "overlap", message)


def _changes(experiment: ExperimentRecord) -> set[str]:
    """What the variants of an experiment change of a request."""
    changed: set[str] = set()
    for variant in experiment.variants:
        changed |= {f"`{name}`" for name in variant.parameters}
        if variant.targets:
            changed.add("targets")
        if variant.cache_policy_id is not None:
            changed.add("the cache policy")
        if variant.prompt_version_id is not None:
            changed.add("the prompt")
    return changed
