"""What the variants that a request got change of it: its targets, parameters and cache policy.

A variant that names no targets has those of the route, or of the rule that matched. Where a
variant's targets fail, its experiment's control takes their place and nobody else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from inference.contract.events import Exposure
from inference.contract.snapshot import RouteRecord, TargetRecord, VariantRecord
from inference.contract.values import frozen
from inference.decisions.experiments import Assignment, exposure_of

Assignments = Sequence[Assignment]


@frozen
class Arm:
    """The variant that decides about a request's targets, and who stands in where they fail."""

    variant: VariantRecord
    control: VariantRecord

    def chosen_of(self, usual: tuple[TargetRecord, ...]) -> tuple[TargetRecord, ...]:
        """The targets in place of the `usual` ones: its own, then as further tiers the control's.

        The control has nobody to stand in.
        """
        own = self.variant.targets or usual
        stand_ins = self.control.targets or usual
        if own == stand_ins:
            return own
        beyond = max((target.tier for target in own), default=-1) + 1
        moved = [replace(target, tier=beyond + target.tier) for target in stand_ins]
        return (*own, *moved)

    def stands_in(self, target_id: str, usual: tuple[TargetRecord, ...]) -> bool:
        """Whether the target of this id is there for the control alone."""
        return all(target.id != target_id for target in self.variant.targets or usual)


def arm_of(assignments: Assignments) -> Arm | None:
    """Who decides about targets: the one experiment whose variants have any."""
    for one in assignments:
        if one.variant is not None and any(each.targets for each in one.experiment.variants):
            return Arm(one.variant, one.experiment.variants[0])
    return None


def targets_in_question(
    usual: tuple[TargetRecord, ...], assignments: Assignments
) -> tuple[TargetRecord, ...]:
    """All that a request like this may come to, each once: other variants' after its own."""
    arm = arm_of(assignments)
    found = {one.id: one for one in (usual if arm is None else arm.chosen_of(usual))}
    for one in assignments:
        for variant in one.experiment.variants if one.variant is not None else ():
            for target in variant.targets:
                found.setdefault(target.id, target)
    return tuple(found.values())


def parameters_of(assignments: Assignments, *, is_stood_in: bool) -> Mapping[str, str]:
    """The members that a body gets or has replaced, as JSON text, by name.

    Where the control stands in, the experiment that decides about targets has the control's.
    """
    given: dict[str, str] = {}
    for one in assignments:
        if one.variant is not None:
            given |= _served(one, is_stood_in=is_stood_in).parameters
    return given


def cache_policy_of(route: RouteRecord, assignments: Assignments) -> str | None:
    """The id of the cache policy that bears on a request: its variant's, else the route's."""
    for one in assignments:
        if one.variant is not None and one.variant.cache_policy_id is not None:
            return one.variant.cache_policy_id
    return route.cache_policy_id


def cache_part_of(assignments: Assignments) -> str:
    """What keeps answers of different variants apart: "" of a request that has none.

    A variant that has other parameters than before has another part. An answer by a control that
    stood in belongs to no part and may not be kept.
    """
    return "/".join([_part_of(one.variant) for one in assignments if one.variant is not None])


def _part_of(variant: VariantRecord) -> str:
    if not (variant.parameters or variant.prompt_version_id):
        return variant.id
    changed = (variant.prompt_version_id, sorted(variant.parameters.items()))
    return f"{variant.id}.{blake2b(repr(changed).encode(), digest_size=8).hexdigest()}"


def exposures_of(
    assignments: Assignments, *, is_served: bool, is_stood_in: bool = False
) -> tuple[Exposure, ...]:
    """What is written down of a request's part in experiments, once it is known who served it."""
    found: list[Exposure] = []
    for one in assignments:
        served = _served(one, is_stood_in=is_stood_in).id if one.variant and is_served else None
        exposure = exposure_of(one, served)
        if exposure is not None:
            found.append(exposure)
    return tuple(found)


def assignments_record(assignments: Assignments) -> list[dict[str, object]]:
    """The same as plain JSON for the decision record, with what decided and why it was none."""
    return [_record(one) for one in assignments]


def _record(one: Assignment) -> dict[str, object]:
    experiment = one.experiment
    record: dict[str, object] = {
        "experiment": experiment.id,
        "phase": experiment.phase,
        "unit": experiment.unit.value,
    }
    if one.unit_id is not None:
        record["unit_id"] = one.unit_id
    if one.place is not None:
        record["place"] = one.place
    if one.draw is not None:
        record["draw"] = one.draw
    if one.variant is not None:
        record["variant"] = one.variant.id
        if one.variant.parameters:
            record["parameters"] = dict(one.variant.parameters)
    if one.why_not is not None:
        record["why_not"] = one.why_not.value
    return record


def _served(one: Assignment, *, is_stood_in: bool) -> VariantRecord:
    """By which of its experiment's variants a request was served."""
    variant, variants = one.variant, one.experiment.variants
    assert variant is not None
    if is_stood_in and any(each.targets for each in variants):
        return variants[0]
    return variant
