"""The steps there are, by kind, and a request taken through those that are in force."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from inference.contract.kinds import DegradationStep
from inference.decisions.degradation.base import Serving, Step
from inference.decisions.degradation.steps import (
    shed_batch,
    shed_default,
    smaller_model,
    trim_batch,
)
from inference.decisions.plan import Plan

REGISTRY: Mapping[DegradationStep, Step] = {
    DegradationStep.TRIM_BATCH: trim_batch.trim,
    DegradationStep.SMALLER_MODEL: smaller_model.skip_first_tier,
    DegradationStep.SHED_BATCH: shed_batch.shed,
    DegradationStep.SHED_DEFAULT: shed_default.shed,
}


def degraded(plan: Plan, steps: Iterable[DegradationStep]) -> Serving:
    """How a request is served while these steps are in force."""
    serving = Serving(plan)
    for kind in steps:
        if serving.is_shed:
            break
        after = REGISTRY[kind](serving)
        if after is not serving:
            serving = replace(after, changed_by=(*serving.changed_by, kind))
    return serving
