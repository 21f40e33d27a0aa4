"""Requests begin at the next tier of targets, which is where a route has its smaller models."""

from dataclasses import replace

from inference.decisions.degradation.base import Serving


def skip_first_tier(serving: Serving) -> Serving:
    """Leave the lowest tier's targets out, if there are others."""
    plan = serving.plan
    lowest = plan.targets[0].target.tier
    others = tuple(one for one in plan.targets if one.target.tier != lowest)
    if not others:
        return serving
    return replace(serving, plan=replace(plan, targets=others))
