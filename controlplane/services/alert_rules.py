"""Edits of alert rules. What an edit makes doubtful is looked at anew: nothing fires by it."""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack
from urllib.parse import urlsplit

from django.db import transaction
from django.utils import timezone

from controlplane.decisions.alert_kinds import (
    TRAITS,
    AlertKind,
    AlertScope,
    NoData,
    Severity,
    seconds_words,
    value_words,
)
from controlplane.errors import Invalid
from controlplane.models import AlertRule, Budget, Key, Organisation, Pool, Project, Route, Team
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.episodes import end_episodes
from controlplane.services.rule_channels import (
    change_steps,
    find_steps,
    place_steps,
    told_steps,
)

NOUN = "alert_rules"
LONGEST_FOR_S = 86_400
_WATCHED = frozenset(
    (
        *("kind", "scope", "scope_id", "threshold", "clears_at", "window_s", "for_s"),
        *("critical_at", "on_no_data", "is_enabled"),
    )
)
_EDITABLE = _WATCHED | {
    *("name", "severity", "channels", "tells_resolved", "reminds_every_s"),
    *("escalation", "escalates_after_s", "runbook"),
}
LEAST_AGAIN_S = 60
LONGEST_AGAIN_S = 7 * 86_400
RUNBOOK_LENGTH = 500
_CHANGED = "Its rule was changed."


class RuleSettings(TypedDict, total=False):
    """What a rule can be given besides what it watches and whom it tells; see `AlertRule`."""

    clears_at: float | None
    critical_at: float | None
    on_no_data: str
    for_s: int
    severity: str
    tells_resolved: bool
    reminds_every_s: int
    escalates_after_s: int
    runbook: str
    is_enabled: bool


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
    channels: Sequence[str] = (),
    escalation: Sequence[str] = (),
    **settings: Unpack[RuleSettings],
) -> AlertRule:
    """Watch something; without an organisation, in the whole installation.

    `scope_id`, `channels` and `escalation`, a channel a step, are ids or names. Threshold
    and window are the kind's own unless they are given. Raises Invalid.
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
            **settings,
        )
        _check(rule)
        steps = find_steps(organisation, channels, escalation)
        rows.insert(rule)
        place_steps(rule, steps)
        _check_escalation(rule)
        edits.note(actor, "create", NOUN, rule, after=_told(rule))
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
        channels, escalation = values.pop("channels", None), values.pop("escalation", None)
        if not values.keys().isdisjoint(("scope", "scope_id")):
            scope = values.get("scope", rule.scope)
            asked = values.get("scope_id", rule.scope_id)
            values["scope_id"] = find_place(rule.organisation, scope, asked)
        told_before, told_after = change_steps(rule, channels, escalation)
        candidate = AlertRule.objects.get(pk=rule.pk)
        for field, value in values.items():
            setattr(candidate, field, value)
        _check(candidate)
        _check_escalation(candidate)
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
        before = _told(rule)
        now = timezone.now()
        end_episodes(rule.episodes.all(), "Its rule was removed.", now, is_told=False)
        rows.remove(rule)
        edits.note(actor, "delete", NOUN, rule, before=before)


def find_place(organisation: Organisation | None, scope: str, asked: str | None) -> str | None:
    """The id of the one place that is meant, by its id or name.

    None is each of them, or the whole.

    Raises Invalid at `scope_id`.
    """
    kinds: Mapping[str, Any] = {
        AlertScope.POOL.value: Pool,
        AlertScope.ROUTE.value: Route,
        AlertScope.BUDGET.value: Budget,
        AlertScope.TEAM.value: Team,
        AlertScope.PROJECT.value: Project,
        AlertScope.KEY.value: Key,
    }
    if asked is None:
        return None
    if scope not in kinds:
        raise Invalid.field("scope_id", "The whole of something has no name; leave this out.")
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
    if rule.clears_at is not None and not 0 < rule.clears_at <= rule.threshold:
        problems["clears_at"] = ["Give more than 0, and no more than the value it fires at."]
    problems |= _problems_with_levels(rule)
    for name in ("reminds_every_s", "escalates_after_s"):
        if getattr(rule, name) and not LEAST_AGAIN_S <= getattr(rule, name) <= LONGEST_AGAIN_S:
            problems[name] = ["Give 1 min to 7 days in seconds, or 0 for never."]
    told_of_runbook = _problem_with_runbook(rule.runbook)
    if told_of_runbook is not None:
        problems["runbook"] = [told_of_runbook]
    if problems:
        raise Invalid("Some fields are not valid.", fields=problems)


def _problems_with_levels(rule: AlertRule) -> dict[str, list[str]]:
    problems: dict[str, list[str]] = {}
    if rule.on_no_data not in list(NoData):
        problems["on_no_data"] = ["There is no such policy."]
    if rule.critical_at is not None:
        most = TRAITS[_kind(rule.kind)].most
        if not rule.threshold < rule.critical_at <= most:
            words = value_words(rule.kind, most)
            problems["critical_at"] = [
                f"Give more than the value it fires at, and {words} at most."
            ]
        elif rule.severity == Severity.CRITICAL:
            problems["critical_at"] = ["The rule is critical from the first value on already."]
    return problems


def _problem_with_runbook(address: str) -> str | None:
    """It becomes a link in messages and pages, so nothing but an address of the web will do."""
    parts = urlsplit(address)
    is_link = parts.scheme in ("http", "https") and bool(parts.hostname)
    if not address or (is_link and len(address) <= RUNBOOK_LENGTH and address.isprintable()):
        return None
    return f"Give an address that begins with https://, of at most {RUNBOOK_LENGTH} characters."


def _check_escalation(rule: AlertRule) -> None:
    if told_steps(rule)["escalation"] and not rule.escalates_after_s:
        told = "Say after how long without anybody having taken it up the next channel is told."
        raise Invalid.field("escalates_after_s", told)


def _told(rule: AlertRule) -> dict[str, Any]:
    return {**edits.values_of(rule), **told_steps(rule)}
