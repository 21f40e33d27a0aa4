"""A repricing in words: how far it is, and what it comes to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.console.details import State
from controlplane.console.formats import count, dollars, signed_dollars
from controlplane.console.icons import icon
from controlplane.models import Repricing, RepricingState

STATES: Mapping[str, State] = {
    RepricingState.QUEUED.value: State("Queued", "clock", "idle"),
    RepricingState.SUMMING.value: State("Summing", "clock", "info"),
    RepricingState.READY.value: State("Ready to be booked", "info", "info"),
    RepricingState.BOOKING.value: State("Booking", "clock", "info"),
    RepricingState.DONE.value: State("Booked", "ok", "ok"),
    RepricingState.FAILED.value: State("Failed", "crit", "crit"),
    RepricingState.DISCARDED.value: State("Discarded", "info", "idle"),
}
AT_WORK = frozenset(
    (
        RepricingState.QUEUED.value,
        RepricingState.SUMMING.value,
        RepricingState.BOOKING.value,
    )
)


def chip(state: State) -> SafeString:
    """A state in a cell."""
    return format_html('<span class="st {}">{}{}</span>', state.tone, icon(state.icon), state.words)


@dataclass(frozen=True, slots=True)
class SideLine:
    """One team or model before and after."""

    label: str
    before: str
    after: str
    change: str
    attempts: str
    unknown: str


def side_line(label: str, side: Mapping[str, int]) -> SideLine:
    """Sums of one side in words."""
    unknown_before, unknown_after = side["unknown_before"], side["unknown_after"]
    return SideLine(
        label,
        dollars(side["before_nanousd"]),
        dollars(side["after_nanousd"]),
        signed_dollars(side["after_nanousd"] - side["before_nanousd"]),
        f"{count(side['changed'])} of {count(side['attempts'])}",
        f"{count(unknown_before)} \N{RIGHTWARDS ARROW} {count(unknown_after)}",
    )


def groups_of(row: Repricing, names: Mapping[str, str]) -> Sequence[tuple[str, Sequence[SideLine]]]:
    """Its sums by team and by model, the largest change first."""
    sums: Mapping[str, Any] = row.sums
    if not sums:
        return ()
    return [
        (title, [side_line(names.get(pk, pk), side) for pk, side in _largest(sums[key])])
        for title, key in (("Team", "by_team"), ("Model", "by_model"))
    ]


def _largest(sides: Mapping[str, Mapping[str, int]]) -> list[tuple[str, Mapping[str, int]]]:
    return sorted(
        sides.items(),
        key=lambda one: (-abs(one[1]["after_nanousd"] - one[1]["before_nanousd"]), one[0]),
    )
