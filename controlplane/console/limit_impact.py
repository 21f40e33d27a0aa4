"""What a limit would do, in words: what it counts, and how near traffic came to it lately."""

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Any

from django.utils import timezone

from controlplane.console.formats import count
from controlplane.console.reviews import Check, Impact, Reach, checks_of
from controlplane.console.scope import Scope
from controlplane.decisions.limits import (
    amount_words,
    enforcement_words,
    limit_words,
    unit_words,
)
from controlplane.decisions.subjects import kind_words, subject_words
from controlplane.selectors.limits import Peak, get_peak, list_same
from controlplane.selectors.names import list_names
from controlplane.services.drafts import Draft
from inference.contract.kinds import LimitSubject, LimitUnit, LimitWindow

DAY = timedelta(days=1)
_BUSIEST = {
    LimitWindow.MINUTE.value: "Busiest minute, last 24 h",
    LimitWindow.HOUR.value: "Busiest hour, last 24 h",
    LimitWindow.DAY.value: "The last 24 h",
}


def impact_of_limit(
    scope: Scope, values: Mapping[str, Any], draft: Draft, *, pk: str | None = None
) -> Impact:
    """The impact of a limit with these values; `pk` is its id if there is one already."""
    peak = _peak(scope, values)
    names = {one for one in (values["subject_id"], peak and peak.subject_id) if one}
    known = list_names(scope.access, names)
    about = subject_words(values["subject"], values["subject_id"], known.get(values["subject_id"]))
    words = limit_words(values["unit"], values["window"], values["amount"], about)
    reach = [Reach("Allows", words)]
    if peak is not None:
        reach.append(Reach(_BUSIEST[values["window"]], _peak_words(values, peak, known)))
    checks = (*_warnings(scope, values, about, peak, pk), *checks_of(draft, "limits"))
    return Impact(reach=reach, checks=checks)


def _peak(scope: Scope, values: Mapping[str, Any]) -> Peak | None:
    window = values["window"]
    return get_peak(
        scope.access,
        scope.organisation,
        since=timezone.now() - DAY,
        subject=LimitSubject(values["subject"]),
        subject_id=values["subject_id"],
        unit=LimitUnit(values["unit"]),
        window=None if window is None else LimitWindow(window),
    )


def _peak_words(values: Mapping[str, Any], peak: Peak, names: Mapping[str, str]) -> str:
    words = f"{count(peak.amount)} {unit_words(values['unit'], peak.amount)}"
    is_each = values["subject_id"] is None and values["subject"] != LimitSubject.ORGANISATION
    if not is_each or not peak.amount:
        return words
    who = names.get(peak.subject_id, peak.subject_id) or "none"
    return f"{words}, of {kind_words(values['subject'])} {who}"


def _warnings(
    scope: Scope, values: Mapping[str, Any], about: str, peak: Peak | None, pk: str | None
) -> Iterator[Check]:
    if not values["is_enabled"]:
        yield Check("info", "It is off: nothing is counted and nobody refused.")
    if values["amount"] == 0:
        yield Check("warn", f"0 is none: every request is refused that is of {about}.")
    elif peak is None:
        yield Check("info", "Nothing kept tells whether traffic of late would have felt it.")
    elif peak.amount > values["amount"]:
        allowed = amount_words(values["unit"], values["window"], values["amount"])
        yield Check("warn", f"Traffic of the last 24 h would have felt it: {allowed} are allowed.")
    else:
        yield Check("ok", "Nobody would have felt it in the last 24 h.")
    same = list_same(
        scope.organisation,
        **{name: values[name] for name in ("subject", "subject_id", "unit", "window")},
        besides=pk,
    )
    for one in same[:5]:
        told = amount_words(one.unit, one.window, one.amount)
        yield Check("warn", f"{one.name} counts the same ({told}); the least amount decides.")
    yield Check("info", enforcement_words(values["enforcement"], values["unit"]))
