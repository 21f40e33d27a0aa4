"""Which experiments a request takes part in, and which variant of each it gets.

Nothing is stored: a unit's place and draw are digests of what it is called, so they are the same in
every process, after every restart. From `unit_digest` on nobody needs to know what that was.
"""

from collections.abc import Sequence
from enum import StrEnum
from hashlib import blake2b

from inference.contract.events import Exposure
from inference.contract.kinds import ExperimentUnit
from inference.contract.params import WHOLE_BP
from inference.contract.snapshot import ExperimentRecord, VariantRecord
from inference.contract.values import frozen
from inference.decisions.endpoints import GENERATING, READING
from inference.decisions.rules import Circumstances, fits

_BITS = 53
"""All that a float tells apart."""
_STEPS = 2.0**_BITS

_TESTED = GENERATING | READING
"""The others ask no model for anything."""


class Unexposed(StrEnum):
    """Why a request takes no part in an experiment that runs on its route."""

    OVER = "over"
    ENDPOINT = "endpoint"
    TARGET_ASKED_FOR = "target_asked_for"
    OTHER_REQUESTS = "other_requests"
    NO_UNIT = "no_unit"
    OTHER_PART = "other_part"
    NOT_ALLOCATED = "not_allocated"


@frozen
class Assignment:
    """What an experiment makes of a request: a variant, or `why_not`.

    `place` and `draw` are in [0, 1), None as far as it didn't get to them.
    """

    experiment: ExperimentRecord
    variant: VariantRecord | None = None
    why_not: Unexposed | None = None
    unit_id: str | None = None
    place: float | None = None
    draw: float | None = None


def assign(
    experiments: Sequence[ExperimentRecord], case: Circumstances, u: float
) -> tuple[Assignment, ...]:
    """What each of these experiments makes of a request whose plan has the chance `u`.

    That chance tells requests apart where they are the unit: it is recorded with them.
    """
    return tuple([_assigned(experiment, case, u) for experiment in experiments])


def _assigned(experiment: ExperimentRecord, case: Circumstances, u: float) -> Assignment:
    at = case.at
    if experiment.ends_at is not None and experiment.ends_at <= at:
        return Assignment(experiment, why_not=Unexposed.OVER)
    if case.facts.endpoint not in _TESTED:
        return Assignment(experiment, why_not=Unexposed.ENDPOINT)
    if case.facts.target_id is not None:
        return Assignment(experiment, why_not=Unexposed.TARGET_ASKED_FOR)
    if experiment.when is not None and not fits(experiment.when, case):
        return Assignment(experiment, why_not=Unexposed.OTHER_REQUESTS)
    raw = _unit_of(experiment.unit, case, u)
    if raw is None:
        return Assignment(experiment, why_not=Unexposed.NO_UNIT)
    unit_id = unit_digest(experiment.organisation_id, experiment.unit, raw)
    return assign_unit(experiment, unit_id, at)


def assign_unit(experiment: ExperimentRecord, unit_id: str, at: float) -> Assignment:
    """What an experiment makes of the unit of this digest at that time (epoch seconds)."""
    place = place_of(experiment.layer, unit_id)
    first, end = experiment.layer_from_bp, experiment.layer_to_bp
    point = place * WHOLE_BP
    if not first <= point < end:
        return Assignment(experiment, None, Unexposed.OTHER_PART, unit_id, place)
    if (point - first) * WHOLE_BP >= (end - first) * allocation_at(experiment, at):
        return Assignment(experiment, None, Unexposed.NOT_ALLOCATED, unit_id, place)
    draw = draw_of(experiment.salt, unit_id)
    return Assignment(experiment, variant_at(experiment, draw), None, unit_id, place, draw)


def allocation_at(experiment: ExperimentRecord, at: float) -> int:
    """How much of its part of the layer takes part at that time, of 10,000."""
    allocation_bp = experiment.allocation_bp
    for begins_at, step_bp in experiment.ramp:
        if begins_at > at:
            break
        allocation_bp = step_bp
    return allocation_bp


def variant_at(experiment: ExperimentRecord, draw: float) -> VariantRecord:
    """The variant of a draw: shares follow one another in the order of the variants."""
    point, end = draw * WHOLE_BP, 0
    for variant in experiment.variants:
        end += variant.share_bp
        if point < end:
            return variant
    return experiment.variants[-1]


def unit_digest(organisation_id: str, unit: ExperimentUnit, raw: str) -> str:
    """What a unit is called in experiments: the same of one unit in all of its organisation's.

    `raw` is the key's id, or the end user or session as the ledger has it.
    """
    named = f"unit\0{organisation_id}\0{unit.value}\0{raw}".encode("utf-8", "surrogatepass")
    return blake2b(named, digest_size=8).hexdigest()


def place_of(layer: str, unit_id: str) -> float:
    """Where a unit stands in a layer, in [0, 1)."""
    return _fraction(f"layer\0{layer}\0{unit_id}".encode())


def draw_of(salt: str, unit_id: str) -> float:
    """What a unit draws in the experiment of this salt, in [0, 1)."""
    return _fraction(f"variant\0{salt}\0{unit_id}".encode())


def exposure_of(assignment: Assignment, served_variant_id: str | None) -> Exposure | None:
    """What is written down of an assignment; None of a request that takes no part."""
    experiment, variant, unit_id = assignment.experiment, assignment.variant, assignment.unit_id
    if variant is None or unit_id is None:
        return None
    return Exposure(
        experiment.id,
        experiment.phase,
        variant.id,
        experiment.unit,
        unit_id,
        variant.share_bp / WHOLE_BP,
        served_variant_id,
    )


def _unit_of(unit: ExperimentUnit, case: Circumstances, u: float) -> str | None:
    """What the unit of a request is called; None if its caller doesn't say."""
    if unit is ExperimentUnit.KEY:
        return case.identity.id
    if unit is ExperimentUnit.USER:
        return case.facts.end_user
    if unit is ExperimentUnit.SESSION:
        return case.facts.session
    return u.hex()


def _fraction(named: bytes) -> float:
    return (int.from_bytes(blake2b(named, digest_size=8).digest()) >> (64 - _BITS)) / _STEPS
