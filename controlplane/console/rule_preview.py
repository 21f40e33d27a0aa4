"""What a rule would have done over the last day, in words, for its page and its review."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

from controlplane.alerting.base import Question
from controlplane.alerting.preview import Preview, preview
from controlplane.console.formats import clock, elapsed
from controlplane.console.reviews import Check, Impact, Reach, checks_of
from controlplane.console.scope import Scope
from controlplane.decisions.alert_kinds import (
    TRAITS,
    AlertKind,
    AlertScope,
    NoData,
    condition_words,
    place_words,
    value_words,
)
from controlplane.decisions.alerts import Terms
from controlplane.models import Organisation
from controlplane.selectors.budget_places import has_budgets
from controlplane.selectors.names import list_names
from controlplane.services.drafts import Draft

_TOLD = 5
_MANY = 20
"""So many alerts a day are more than people look at."""


def impact_of_rule(
    scope: Scope, values: Mapping[str, Any], draft: Draft, *, home: Organisation | None
) -> Impact:
    """The impact of a rule with these values."""
    question = Question(
        kind=values["kind"],
        organisation_id=None if home is None else home.pk,
        scope=values["scope"],
        scope_id=values["scope_id"],
        window_s=values["window_s"],
    )
    terms = Terms(
        values["threshold"],
        values["for_s"],
        values.get("clears_at"),
        values.get("critical_at"),
        NoData(values["on_no_data"]),
    )
    words = condition_words(values["kind"], terms.threshold, question.window_s, terms.for_s)
    name = list_names(scope.access, {one for one in (question.scope_id,) if one})
    where = place_words(question.scope, question.scope_id, name.get(question.scope_id or ""))
    found = preview(question, terms, timezone.now())
    reach = (
        Reach("Fires at", words),
        Reach("Where", where),
        *(Reach(label, told) for label, told in preview_lines(scope, question.kind, found)),
    )
    is_waiting = question.scope == AlertScope.BUDGET and has_budgets(
        question.organisation_id, question.scope_id
    )
    warnings = _warnings(found, values, is_waiting=is_waiting)
    return Impact(reach=reach, checks=(*warnings, *checks_of(draft, "alert_rules")))


def preview_lines(scope: Scope, kind: str, found: Preview) -> Sequence[tuple[str, str]]:
    """What the last day would have brought: how many alerts, and the newest of them."""
    if found.fired is None:
        return [("Last 24 h", "nobody keeps the past of this, so nothing can be told")]
    if found.unknown == 1.0:
        return [("Last 24 h", "no data")]
    count = len(found.fired)
    told = "it would not have fired" if count == 0 else f"it would have fired {count} times"
    told = "it would have fired once" if count == 1 else told
    if found.looked_at < found.places:
        told += f", at the first {found.looked_at} of {found.places} places"
    lines = [("Last 24 h", told)]
    for place, one in found.fired[:_TOLD]:
        lasted = "" if one.until is None else f" for {elapsed((one.until - one.since).seconds)}"
        peak = value_words(kind, one.peak)
        if one.critical_since is not None:
            peak += ", critical" if one.critical_since == one.since else ", later critical"
        lines.append((clock(one.since, scope.zone), f"{place.name}{lasted}, up to {peak}"))
    return lines


def _warnings(found: Preview, values: Mapping[str, Any], *, is_waiting: bool) -> Sequence[Check]:
    """`is_waiting`: what it watches is there, but nothing of it is near a threshold."""
    warnings = []
    if found.places == 0 and is_waiting:
        told = "No account of a budget is near a threshold now; it fires once one is."
        warnings.append(Check("info", told))
    elif found.places == 0:
        warnings.append(Check("warn", "There is nothing of this kind to watch yet."))
    if found.fired is not None and len(found.fired) > _MANY:
        told = "This is more than people look at; a higher value or a longer time tells less."
        warnings.append(Check("warn", told))
    if not values.get("channels"):
        warnings.append(Check("info", "No channel is told; it shows in the console alone."))
    if not TRAITS[AlertKind(values["kind"])].has_history:
        warnings.append(Check("info", "It can't be tried on the past."))
    return warnings
