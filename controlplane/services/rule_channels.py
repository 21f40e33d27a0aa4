"""Whom a rule tells: its channels at once, and step by step those that come after them."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.errors import Invalid
from controlplane.models import AlertRule, Channel, Organisation, RuleChannel

MOST_STEPS = 5

Steps = Sequence[tuple[Channel, int]]
"""Channels with their steps; 0 is at once."""


def find_steps(
    organisation: Organisation | None, channels: Sequence[str], escalation: Sequence[str]
) -> Steps:
    """The organisation's channels of these ids or names; raises Invalid at `channels` or
    `escalation`."""
    found: dict[str, Channel] = {}
    for row in Channel.objects.filter(organisation=organisation).order_by("name"):
        found |= {row.pk: row, row.name: row}
    first = _named(found, "channels", channels)
    later = _named(found, "escalation", escalation)
    if len(later) > MOST_STEPS:
        raise Invalid.field("escalation", f"At most {MOST_STEPS} of them.")
    for one in later:
        if one in first:
            raise Invalid.field("escalation", f"{one.name} is told at once already.")
    return [(one, 0) for one in first] + [(one, at) for at, one in enumerate(later, start=1)]


def _named(found: Mapping[str, Channel], field: str, asked: Sequence[str]) -> list[Channel]:
    missing = [one for one in asked if one not in found]
    if missing:
        raise Invalid.field(field, f"There is no channel {missing[0][:100]}.")
    return list(dict.fromkeys(found[one] for one in asked))


def place_steps(rule: AlertRule, steps: Steps) -> None:
    """Have the rule tell these channels and no others."""
    RuleChannel.objects.filter(rule=rule).delete()
    home = rule.organisation_id
    RuleChannel.objects.bulk_create(
        [RuleChannel(organisation_id=home, rule=rule, channel=one, step=at) for one, at in steps]
    )


def change_steps(
    rule: AlertRule, channels: Sequence[str] | None, escalation: Sequence[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Set the lists that are named, if they differ; what is told of it, before and after."""
    if channels is None and escalation is None:
        return {}, {}
    before = told_steps(rule)
    steps = find_steps(
        rule.organisation,
        before["channels"] if channels is None else channels,
        before["escalation"] if escalation is None else escalation,
    )
    after = {
        "channels": sorted(one.name for one, at in steps if at == 0),
        "escalation": [one.name for one, at in steps if at],
    }
    changed = [name for name in after if before[name] != after[name]]
    if not changed:
        return {}, {}
    place_steps(rule, steps)
    return {name: before[name] for name in changed}, {name: after[name] for name in changed}


def told_steps(rule: AlertRule) -> dict[str, list[str]]:
    """Names of the channels as they are now; of the later ones in their order."""
    rows = RuleChannel.objects.filter(rule=rule).order_by("step", "channel__name")
    named = list(rows.values_list("step", "channel__name"))
    return {
        "channels": [name for step, name in named if step == 0],
        "escalation": [name for step, name in named if step],
    }
