"""What turning something off stops, in words, by the last hour and the configuration of now."""

from collections.abc import Iterator, Sequence

from controlplane.console.formats import UNKNOWN, count, share
from controlplane.console.reviews import Check, Figure, Impact, Reach, checks_of
from controlplane.console.scope import Scope
from controlplane.selectors.switches import MOST_LOOKED_AT, Effect, get_effect
from controlplane.services.drafts import Draft
from inference.contract.kinds import SwitchSubject

_NAMED = 10
PARTS = frozenset((SwitchSubject.POOL, SwitchSubject.MODEL))
"""What routes may have others of, so that its requests may go on elsewhere."""


def impact_of_throwing(
    scope: Scope, subject: SwitchSubject, subject_id: str | None, draft: Draft
) -> Impact:
    """What is stopped."""
    effect = get_effect(scope.access, scope.organisation, subject, subject_id)
    return Impact(
        figures_title="Impact, by the last hour",
        figures=_figures(subject, effect),
        reach=tuple(_reach(subject, effect)),
        checks=(*_warnings(subject, effect), *checks_of(draft, "switches")),
    )


def impact_of_putting_back(
    scope: Scope, subject: SwitchSubject, subject_id: str | None, draft: Draft
) -> Impact:
    """What is served again."""
    effect = get_effect(scope.access, scope.organisation, subject, subject_id)
    told = Check("info", "Callers that were refused come again by themselves, perhaps all at once.")
    return Impact(
        reach=tuple(_reach(subject, effect)), checks=(told, *checks_of(draft, "switches"))
    )


def _figures(subject: SwitchSubject, effect: Effect) -> Sequence[Figure]:
    if effect.requests is None or effect.total is None:
        return ()
    before, after = effect.total, max(effect.total - effect.requests, 0)
    label = "Requests that are served"
    if subject in PARTS:
        before, after, label = effect.requests, 0, "Requests it serves"
    elif effect.is_capped:
        before, after = MOST_LOOKED_AT, MOST_LOOKED_AT - effect.requests
        label = f"Of the newest {count(MOST_LOOKED_AT)} requests"
    part = share(effect.requests, MOST_LOOKED_AT if effect.is_capped else effect.total)
    change = "no traffic" if part == UNKNOWN else f"▼ {part} % of all"
    return (Figure(label, count(before), count(after), change),)


def _reach(subject: SwitchSubject, effect: Effect) -> Iterator[Reach]:
    if effect.refused:
        yield Reach("Routes left without", _few(effect.refused))
    if effect.narrowed:
        yield Reach("Routes with fewer", _few(effect.narrowed))
    if subject is SwitchSubject.ROUTE:
        yield Reach("Keys that may ask it", count(effect.keys))
    elif subject in (SwitchSubject.ORGANISATION, SwitchSubject.PROJECT):
        yield Reach("Live keys", count(effect.keys))
    if subject not in (SwitchSubject.PROJECT, SwitchSubject.KEY):
        yield Reach("Projects, last hour", ", ".join(effect.projects) or "none called it")


def _warnings(subject: SwitchSubject, effect: Effect) -> Iterator[Check]:
    if subject is SwitchSubject.ORGANISATION:
        yield Check("warn", "Every request of the organisation is refused, whatever it asks for.")
    if effect.refused:
        yield Check("warn", f"All targets of {_few(effect.refused)} are off then: it is refused.")
    if effect.narrowed:
        yield Check("info", "Routes that have other targets go on with those, which must bear it.")
    elif subject in PARTS and not effect.refused:
        yield Check("ok", "No route that is on sends there.")


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
