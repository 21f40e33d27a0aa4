"""An experiment for tests, and what it makes of many units."""

from dataclasses import replace

from inference.contract.codec import assemble, index_section
from inference.contract.kinds import ExperimentUnit
from inference.contract.snapshot import (
    ConfigSnapshot,
    ExperimentRecord,
    Manifest,
    TargetRecord,
    VariantRecord,
)
from inference.contract.wire import SECTIONS
from inference.decisions.experiments import assign_unit, unit_digest

CONTROL = VariantRecord("var_a", "control", 5_000)
OTHER = VariantRecord("var_b", "other", 5_000, (TargetRecord("tgt_x", "pool_x", 1),))
EXPERIMENT = ExperimentRecord(
    "exp_a",
    "org_a",
    "rt_m",
    "another model",
    "salt-1",
    ExperimentUnit.USER,
    1,
    (CONTROL, OTHER),
    10_000,
    "answers",
)
NOW = 1_764_500_000.0


def experiment(*shares: int, **changes: object) -> ExperimentRecord:
    """The experiment above, with variants of these shares in place of its own if there are any."""
    record = replace(EXPERIMENT, **changes)  # type: ignore[arg-type]
    if not shares:
        return record
    variants = tuple(VariantRecord(f"var_{n}", f"{n}", share) for n, share in enumerate(shares))
    return replace(record, variants=variants)


def with_experiments(snapshot: ConfigSnapshot, *experiments: ExperimentRecord) -> ConfigSnapshot:
    """The configuration with these experiments, found as those of any snapshot are."""
    sections = {name: index_section(name, ()) for name in SECTIONS}
    sections["experiments"] = index_section("experiments", experiments)
    found = assemble(Manifest("L", 1, {}, 0.0), sections)
    return replace(snapshot, experiments=found.experiments, tested=found.tested)


def units(count: int) -> list[str]:
    """Digests of so many end users."""
    return [unit_digest("org_a", ExperimentUnit.USER, f"user {n}") for n in range(count)]


def arms_of(record: ExperimentRecord, those: list[str], at: float = NOW) -> dict[str, str]:
    """The variant of each unit that takes part."""
    found = ((unit, assign_unit(record, unit, at).variant) for unit in those)
    return {unit: variant.id for unit, variant in found if variant is not None}
