"""What a review shows of a change before it is made: difference, impact, reach and checks."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from controlplane.console.diffs import Line
from controlplane.services.drafts import Draft, RowChange

LIVE = "Acts live: gateways run on it within a second, without a restart."
UNNOTICED = "No gateway reads this; it is in force as soon as it is saved."


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure now and after the change; `change` is the difference in words."""

    label: str
    before: str
    after: str
    change: str = ""
    tone: str = ""


@dataclass(frozen=True, slots=True)
class Reach:
    """What the change touches, in words."""

    label: str
    words: str


@dataclass(frozen=True, slots=True)
class Check:
    """Something that was checked. Tone ok, warn, crit or info; a crit one forbids the change."""

    tone: str
    words: str

    @property
    def icon(self) -> str:
        return self.tone


@dataclass(frozen=True, slots=True)
class Part:
    """One slice of a split, in per cent; `start` is where it begins."""

    label: str
    share: float
    start: float
    slot: int


@dataclass(frozen=True, slots=True)
class Split:
    """How traffic divides, as a bar."""

    label: str
    parts: Sequence[Part]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        return not any(part.share for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Impact:
    """What a change does, besides the fields that differ."""

    figures: Sequence[Figure] = ()
    figures_title: str = ""
    reach: Sequence[Reach] = ()
    checks: Sequence[Check] = ()
    splits: Sequence[Split] = field(default_factory=tuple)
    legend: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One change, ready to be judged. `confirm` is the name to type, "" for none."""

    title: str
    words: str
    lines: Sequence[Line]
    impact: Impact
    is_risky: bool
    verb: str
    before_label: str = "Now"
    after_label: str = "After"
    confirm: str = ""
    is_dangerous: bool = False
    title_of_lines: str = ""

    @property
    def heading(self) -> str:
        """The title of the difference: how many fields change, unless it is told otherwise."""
        if self.title_of_lines:
            return self.title_of_lines
        fields = len(self.lines)
        return "1 field changes" if fields == 1 else f"{fields} fields change"

    @property
    def is_possible(self) -> bool:
        return all(check.tone != "crit" for check in self.impact.checks)


def how_it_acts(draft: Draft) -> str:
    """Whether gateways will notice."""
    return LIVE if draft.sections else UNNOTICED


def checks_of(draft: Draft, noun: str) -> Sequence[Check]:
    """What the draft proved: the configuration it changes is sound, or why it is refused."""
    if draft.refused is not None:
        told = [text for texts in draft.refused.fields.values() for text in texts]
        return [Check("crit", text) for text in (draft.refused.detail, *told[:5])]
    also = [one for one in draft.changes if one.noun != noun]
    checks = []
    if draft.sections:
        checks.append(Check("ok", "The whole configuration stays valid with it."))
    checks += [Check("warn", words) for one in also for words in _also(one)]
    return checks


def _also(change: RowChange) -> Sequence[str]:
    """What else an edit does, in words; of rules that name who goes, what becomes of them."""
    sides = [(side or {}).get("rules") for side in (change.before, change.after)]
    if change.action != "update" or not all(isinstance(side, list) for side in sides):
        return [f"Also {change.action}s {change.noun} {change.object_id}."]
    was, now = ({rule["id"]: rule for rule in side} for side in sides)  # type: ignore[attr-defined]
    return [
        f"Rule {rule['name']} of a route names nobody else: it is switched off."
        if was[pk]["is_enabled"] and not rule["is_enabled"]
        else f"Rule {rule['name']} of a route will no longer name it."
        for pk, rule in now.items()
        if pk in was and was[pk] != rule
    ]


def split_of(label: str, shares: Sequence[tuple[str, float]]) -> Split:
    """A bar of named shares, each a fraction of 1; slots stay with their place."""
    parts, start = [], 0.0
    for place, (name, share) in enumerate(shares):
        parts.append(Part(name, 100 * share, start, min(place + 1, 8)))
        start += 100 * share
    return Split(label, parts)
