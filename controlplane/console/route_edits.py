"""A route's form values as the service takes them."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.console.targets import TIMEOUT_LABELS
from controlplane.services.route_targets import TargetChoice


def as_edit(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with their targets, and those of their rules, as choices."""
    edit = dict(values)
    if "targets" in edit:
        edit["targets"] = _choices(edit["targets"])
    if "rules" in edit:
        edit["rules"] = [{**one, "targets": _choices(one["targets"])} for one in edit["rules"]]
    return edit


def _choices(targets: Sequence[Mapping[str, Any]]) -> list[TargetChoice]:
    return [
        TargetChoice(
            one["pool"],
            one["weight"],
            timeouts={name: one.get(name) for name in TIMEOUT_LABELS},
            tier=one["tier"],
        )
        for one in targets
    ]
