"""What each rule of a route took of late, in words, beside where it sends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.utils import timezone

from controlplane.console.formats import count
from controlplane.console.route_flow import Branch
from controlplane.console.scope import Scope
from controlplane.console.targets import told
from controlplane.models import Route
from controlplane.selectors.impact import RULE_SPANS, RuleSplit, list_rule_splits

Splits = Mapping[str, RuleSplit]

GONE = "Rules that are gone"

SPAN_WORDS: Mapping[str, str] = {"1h": "last hour", "24h": "24 h"}
"""The stretches as people call them."""

_HOURS = {"1h": "1 h", "24h": "24 h"}

assert SPAN_WORDS.keys() == RULE_SPANS.keys()


@dataclass(frozen=True, slots=True)
class Taken:
    """One stretch of one rule: the share and the number, "" and "" where nothing came at all."""

    words: str
    hours: str
    share: str
    requests: str


@dataclass(frozen=True, slots=True)
class Line:
    """One rule: what it takes, where that goes, and what it took. `branch` None is gone."""

    title: str
    branch: Branch | None
    taken: Sequence[Taken]


def splits_for(scope: Scope, route: Route) -> Splits | None:
    """What the rules took; None for a role in a part of the organisation."""
    access, organisation = scope.access, scope.organisation
    if not access.reads_organisation(organisation.pk):
        return None
    return list_rule_splits(access, organisation, route_id=route.pk, now=timezone.now())


def lines_of(branches: Sequence[Branch], splits: Splits) -> Sequence[Line]:
    """A line a rule, one for what none took, and one for those that are gone, if they took any."""
    lines = [Line(one.title, one, _taken(one.rule_id, splits)) for one in branches]
    known = {one.rule_id for one in branches}
    gone = {
        span: sum(n for rule_id, n in split.by_rule.items() if rule_id not in known)
        for span, split in splits.items()
    }
    if any(gone.values()):
        taken = [_one(span, split, gone[span]) for span, split in splits.items()]
        lines.append(Line(GONE, None, taken))
    return lines


def words_of(rule_id: str | None, splits: Splits | None) -> str:
    """What a rule took, as a sentence; "" where it isn't told."""
    if splits is None:
        return ""
    taken = _taken(rule_id, splits)
    told_of = [f"{one.share} in {one.hours}" for one in taken if one.share]
    return f"took {', '.join(told_of)}" if told_of else "no request in the last 24 h"


def _taken(rule_id: str | None, splits: Splits) -> Sequence[Taken]:
    return [
        _one(span, one, one.by_none if rule_id is None else one.by_rule.get(rule_id, 0))
        for span, one in splits.items()
    ]


def _one(span: str, split: RuleSplit, requests: int) -> Taken:
    share = split.share_of(requests)
    if share is None:
        return Taken(SPAN_WORDS[span], _HOURS[span], "", "")
    return Taken(SPAN_WORDS[span], _HOURS[span], told(share), count(requests))
