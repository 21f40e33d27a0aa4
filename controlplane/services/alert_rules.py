"""Edits of alert rules. What an edit makes doubtful is looked at anew: nothing fires by it."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane.decisions.alert_kinds import (
    TRAITS,
    AlertKind,
    AlertScope,
    Severity,
    seconds_words,
    value_words,
)
from controlplane.errors import Invalid
from controlplane.models import AlertRule, Budget, Channel, Organisation, Pool, Route
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.episodes import end_episodes

NOUN = "alert_rules"
LONGEST_FOR_S = 86_400
_WATCHED = frozenset(("kind", "scope", "scope_id", "threshold", "window_s", "for_s", "is_enabled"))
_EDITABLE = _WATCHED | {"name", "severity", "channels", "tells_resolved"}
_CHANGED = "Its rule was changed."


def create_alert_rule(
    actor: Actor,
    *,
    organisation: Organisation | None,
    name: str,
    kind: str,
    scope: str,
    scope_id: str | None = None,
    threshold: float | None = None,
    window_s: int | None = None,
    for_s: int = 0,
    severity: str = Severity.WARNING.value,
    channels: Sequence[str] = (),
    tells_resolved: bool = True,
    is_enabled: bool = True,
) -> AlertRule:
    """Watch something; without an organisation, in the whole installation.

    `scope_id` and `channels` are ids or names. Threshold and window are the kind's own unless they
    are given. Raises Invalid.
    """
    with transaction.atomic():
        traits = TRAITS.get(_kind(kind))
        rule = AlertRule(
            organisation=organisation,
            name=name,
            kind=kind,
            scope=scope,
            scope_id=find_place(organisation, scope, scope_id),
            threshold=traits.threshold if threshold is None else threshold,
            window_s=traits.window_s if window_s is None else window_s,
            for_s=for_s,
            severity=severity,
            tells_resolved=tells_resolved,
            is_enabled=is_enabled,
        )
        _check(rule)
        found = _channels(organisation, channels)
        rows.insert(rule)
        _tell(rule, found)
        edits.note(actor, "create", NOUN, rule, after=_told(rule, found))
    return rule


def update_alert_rule(
    actor: Actor,
    *,
    rule_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> AlertRule:
    """Change the fields that are named; raises Invalid, NotFound or VersionMismatch.

    If it watches something else by that, or nothing, its alerts end and nobody is told.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    values = dict(changes)
    with transaction.atomic():
        rule = rows.lock(AlertRule, rule_id, expected_version=expected_version)
        channels = values.pop("channels", None)
        if not values.keys().isdisjoint(("scope", "scope_id")):
            scope = values.get("scope", rule.scope)
            asked = values.get("scope_id", rule.scope_id)
            values["scope_id"] = find_place(rule.organisation, scope, asked)
        told_before, told_after = _change_channels(rule, channels)
        candidate = AlertRule.objects.get(pk=rule.pk)
        for field, value in values.items():
            setattr(candidate, field, value)
        _check(candidate)
        changed = rows.change(rule, values, touch=bool(told_after))
        if changed is None:
            return rule
        before, after = changed
        if not _WATCHED.isdisjoint(after):
            rule.standings.all().delete()
            end_episodes(rule.episodes.all(), _CHANGED, timezone.now(), is_told=False)
        edits.note(
            actor, "update", NOUN, rule, before=before | told_before, after=after | told_after
        )
    return rule


def delete_alert_rule(actor: Actor, *, rule_id: str, expected_version: int | None = None) -> None:
    """Watch it no more; its alerts end, and their history stays."""
    with transaction.atomic():
        rule = rows.lock(AlertRule, rule_id, expected_version=expected_version)
        before = _told(rule, rule.channels.all())
        now = timezone.now()
        end_episodes(rule.episodes.all(), "Its rule was removed.", now, is_told=False)
        rows.remove(rule)
        edits.note(actor, "delete", NOUN, rule, before=before)


def find_place(organisation: Organisation | None, scope: str, asked: str | None) -> str | None:
    """The id of the one pool, route or budget that is meant, by its id or name.

    None is each of them, or the whole.

    Raises Invalid at `scope_id`.
    """
    kinds: Mapping[str, Any] = {
        AlertScope.POOL.value: Pool,
        AlertScope.ROUTE.value: Route,
        AlertScope.BUDGET.value: Budget,
    }
    if asked is None:
        return None
    if scope not in kinds:
        raise Invalid.field("scope_id", "Only pools, routes and budgets are named; leave this out.")
    found = kinds[scope]._default_manager.all()
    if organisation is not None:
        found = found.filter(organisation=organisation)
    row = found.filter(pk=asked).first()
    if row is None and organisation is not None:
        row = found.filter(name=asked).first()
    if row is None:
        raise Invalid.field("scope_id", f"There is no {scope} of this name or id.")
    return str(row.pk)


def _kind(kind: str) -> AlertKind:
    if kind not in list(AlertKind):
        raise Invalid.field("kind", "There is no such kind.")
    return AlertKind(kind)


def _check(rule: AlertRule) -> None:
    """Raise Invalid at each field that doesn't fit the kind."""
    traits = TRAITS[_kind(rule.kind)]
    problems: dict[str, list[str]] = {}
    if rule.scope not in traits.scopes:
        told = ", ".join(one.value for one in traits.scopes)
        problems["scope"] = [f"This kind is watched by {told}."]
    elif rule.scope == AlertScope.ALL and rule.organisation_id is not None:
        problems["scope"] = ["Only a rule of the installation watches all of it."]
    if not traits.least <= rule.threshold <= traits.most:
        least, most = (value_words(rule.kind, one) for one in (traits.least, traits.most))
        problems["threshold"] = [f"Give {least} to {most}."]
    least_s, most_s = traits.windows
    if not least_s <= rule.window_s <= most_s or rule.window_s % 60:
        told = f"Give whole minutes, {seconds_words(least_s)} to {seconds_words(most_s)}."
        problems["window_s"] = [told if most_s else "This kind has no window; give 0."]
    if not 0 <= rule.for_s <= LONGEST_FOR_S:
        problems["for_s"] = [f"Give 0 to {LONGEST_FOR_S:,} seconds."]
    if problems:
        raise Invalid("Some fields are not valid.", fields=problems)


def _channels(organisation: Organisation | None, asked: Sequence[str]) -> list[Channel]:
    """The organisation's channels of these ids or names, or Invalid."""
    found = {}
    for row in Channel.objects.filter(organisation=organisation).order_by("name"):
        found |= {row.pk: row, row.name: row}
    missing = [one for one in asked if one not in found]
    if missing:
        raise Invalid.field("channels", f"There is no channel {missing[0][:100]}.")
    return list(dict.fromkeys(found[one] for one in asked))


def _change_channels(
    rule: AlertRule, asked: Sequence[str] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Set the channels if they are named and differ; what is told of it, before and after."""
    if asked is None:
        return {}, {}
    found = _channels(rule.organisation, asked)
    before, after = _names(rule.channels.all()), _names(found)
    if before == after:
        return {}, {}
    _tell(rule, found)
    return {"channels": before}, {"channels": after}


def _tell(rule: AlertRule, channels: Sequence[Channel]) -> None:
    home = {"organisation_id": rule.organisation_id}
    rule.channels.set(channels, through_defaults=home)


def _names(channels: Iterable[Channel]) -> list[str]:
    return sorted(one.name for one in channels)


def _told(rule: AlertRule, channels: Iterable[Channel]) -> dict[str, Any]:
    return {**edits.values_of(rule), "channels": _names(channels)}
