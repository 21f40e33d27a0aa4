"""Alerts as a caller may see them: for roles of the whole organisation.

What is the installation's belongs to no organisation; platform administrators alone see it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.contrib.postgres.expressions import ArraySubquery
from django.db.models import Count, Exists, OuterRef, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.utils import timezone

from controlplane.decisions.alert_kinds import (
    AlertKind,
    AlertScope,
    DeliveryState,
    EpisodeState,
    Severity,
    breach_words,
)
from controlplane.models import (
    AlertRule,
    AlertStanding,
    Budget,
    Channel,
    Delivery,
    Episode,
    Key,
    Organisation,
    Pool,
    Project,
    Route,
    Silence,
    Team,
)
from controlplane.selectors.access import Access
from controlplane.selectors.budget_places import list_near, list_pace

MOST_TOLD = 20
"""Of more alerts at once, the Overview lists the oldest."""

WHOLE_ID = "all"
"""The id that stands for the whole installation as a place."""


@dataclass(frozen=True, slots=True)
class Place:
    """One place that a rule watches; some have a threshold of their own."""

    id: str
    name: str
    threshold: float | None = None


def list_alert_rules(access: Access) -> QuerySet[AlertRule]:
    """Rules with their channels, and `firing`: how many alerts of each still hold."""
    held = ~Q(episodes__state=EpisodeState.RESOLVED.value)
    rows = AlertRule.objects.annotate(firing=Count("episodes", filter=held))
    return access.visible_organisation_wide(rows).prefetch_related("steps__channel")


def list_episodes(access: Access) -> QuerySet[Episode]:
    """Alerts, those that hold and those that are over, with `is_silenced`."""
    rows = Episode.objects.annotate(is_silenced=Exists(silences_of_episode(timezone.now())))
    return access.visible_organisation_wide(rows)


def list_silences(access: Access) -> QuerySet[Silence]:
    """Silences that last, with their rules."""
    rows = Silence.objects.filter(ends_at__gt=timezone.now()).select_related("rule")
    return access.visible_organisation_wide(rows)


def list_channels(access: Access) -> QuerySet[Channel]:
    """Channels with `rule_names`, the rules that tell them."""
    rules = AlertRule.objects.filter(channels=OuterRef("pk")).order_by("name").values("name")
    rows = Channel.objects.annotate(rule_names=ArraySubquery(rules))
    return access.visible_organisation_wide(rows)


def list_deliveries(access: Access) -> QuerySet[Delivery]:
    """Messages with their channels."""
    return access.visible_organisation_wide(Delivery.objects.select_related("channel"))


def silences_of_episode(now: datetime) -> QuerySet[Silence]:
    """Inside a query of episodes: the silences that keep one quiet now."""
    # what is the installation's has no organisation, and null equals nothing
    home = Coalesce(OuterRef("organisation"), Value(""))
    silences = Silence.objects.alias(home=Coalesce("organisation", Value(""))).filter(home=home)
    return silences.filter(
        Q(rule__isnull=True) | Q(rule=OuterRef("rule")),
        Q(subject_id__isnull=True) | Q(subject_id=OuterRef("subject_id")),
        Q(weekdays=[]) | Q(holds_until__gt=now),
        ends_at__gt=now,
    )


def count_firing(access: Access, organisation: Organisation) -> int:
    """How many alerts hold that nobody has acknowledged, for the navigation."""
    if not access.reads_organisation(organisation.pk):
        return 0
    return firing_of(access, organisation).filter(state=EpisodeState.OPEN.value).count()


def firing_of(access: Access, organisation: Organisation) -> QuerySet[Episode]:
    """What holds in an organisation, the gravest first; the installation's too, to who sees it."""
    rows = in_organisation(list_episodes(access), organisation)
    return rows.exclude(state=EpisodeState.RESOLVED.value)


def in_organisation(rows: QuerySet, organisation: Organisation) -> QuerySet:
    """Rows of an organisation and, as far as a selector left them in, of the installation."""
    return rows.filter(Q(organisation=organisation) | Q(organisation__isnull=True))


@dataclass(frozen=True, slots=True)
class Firing:
    """An alert that holds and that nobody has taken up, as the Overview tells it."""

    id: str
    severity: str
    title: str
    detail: str


def list_firing(organisation: Organisation) -> Sequence[Firing]:
    """Those of an organisation that are open and not silenced; the installation's are not told."""
    rows = Episode.objects.filter(organisation=organisation, state=EpisodeState.OPEN.value)
    quiet = Exists(silences_of_episode(timezone.now()))
    return [
        Firing(
            one.pk,
            one.severity,
            f"{one.name}: {one.subject_name or one.subject_id}",
            breach_words(one.kind, one.value, one.threshold, one.subject_name or one.subject_id),
        )
        for one in rows.exclude(quiet).order_by("opened_at", "pk")[:MOST_TOLD]
    ]


def list_watching() -> Sequence[AlertRule]:
    """The rules that are on, for who looks at all of them."""
    return list(AlertRule.objects.filter(is_enabled=True).order_by("pk"))


_KINDS: Mapping[AlertScope, Any] = {
    AlertScope.POOL: Pool,
    AlertScope.ROUTE: Route,
    AlertScope.ORGANISATION: Organisation,
    AlertScope.TEAM: Team,
    AlertScope.PROJECT: Project,
    AlertScope.KEY: Key,
}


def places_of(
    organisation_id: str | None, scope: str, scope_id: str | None, now: datetime
) -> Sequence[Place]:
    """The places a rule watches now, by name; a place that is gone is none."""
    if scope == AlertScope.ALL:
        return (Place(WHOLE_ID, "the whole installation"),)
    rows: QuerySet[Any] = _KINDS[AlertScope(scope)]._default_manager.all()
    if scope == AlertScope.KEY:
        rows = rows.filter(revoked_at__isnull=True)
    if organisation_id is not None:
        home = "pk" if scope == AlertScope.ORGANISATION else "organisation_id"
        rows = rows.filter(**{home: organisation_id})
    if scope_id is not None:
        rows = rows.filter(pk=scope_id)
    return [Place(pk, name) for pk, name in rows.order_by("name").values_list("pk", "name")]


def places_of_thresholds(
    organisation_id: str | None,
    budget_id: str | None,
    now: datetime,
    *,
    firing: frozenset[str] = frozenset(),
    least_percent: float = 0.0,
) -> Sequence[Place]:
    """The accounts of budgets near their thresholds, as places; see `list_near`."""
    near = list_near(organisation_id, budget_id, now, firing=firing, least_percent=least_percent)
    return [Place(one.id, one.name, one.threshold_percent) for one in near]


def list_firing_places(rule: AlertRule) -> frozenset[str]:
    """The ids of the places where a rule fires."""
    rows = rule.standings.filter(is_firing=True)
    return frozenset(rows.values_list("subject_id", flat=True))


def places_of_pace(
    organisation_id: str | None, budget_id: str | None, now: datetime
) -> Sequence[Place]:
    """The accounts of budgets whose end can be foretold, as places."""
    return [Place(one.id, one.name) for one in list_pace(organisation_id, budget_id, now)]


def count_dead_channels(organisation_id: str | None) -> Mapping[str, int]:
    """Channels that were switched off because they kept failing, by organisation."""
    rows = Channel.objects.filter(is_enabled=False).exclude(disabled_reason="")
    if organisation_id is not None:
        rows = rows.filter(organisation_id=organisation_id)
    counted = rows.values_list("organisation_id").annotate(dead=Count("pk"))
    return {pk or "": dead for pk, dead in counted}


def has_rule_for_dead_channels(organisation_id: str | None) -> bool:
    """Whether a rule of its own tells of this organisation's dead channels."""
    rows = AlertRule.objects.filter(kind=AlertKind.DEAD_CHANNEL.value, is_enabled=True)
    return rows.filter(organisation_id=organisation_id).exists()


def list_channels_about_budget(budget: Budget) -> tuple[bool, Sequence[Channel]]:
    """Whether a rule watches a budget's thresholds, and the channels that those rules tell."""
    home = Q(organisation_id=budget.organisation_id) | Q(organisation__isnull=True)
    mine = Q(scope_id=budget.pk) | Q(scope_id__isnull=True)
    rules = AlertRule.objects.filter(home, mine, kind=AlertKind.BUDGET_USED.value, is_enabled=True)
    channels = Channel.objects.filter(rules__in=rules).distinct().order_by("name")
    return rules.exists(), list(channels)


def get_oldest_waiting(now: datetime) -> float | None:
    """For how many seconds the message that waits longest has been due; None: none is."""
    waiting = (DeliveryState.QUEUED.value, DeliveryState.SENDING.value)
    rows = Delivery.objects.filter(state__in=waiting, channel__is_enabled=True)
    at = rows.filter(next_try_at__lte=now).order_by("next_try_at").values_list("next_try_at")
    first = at.first()
    return None if first is None else (now - first[0]).total_seconds()


def count_messages() -> Mapping[str, int]:
    """How many messages wait, are given up or are unknown, by state; each of these states."""
    states = (
        *(DeliveryState.HELD, DeliveryState.QUEUED, DeliveryState.SENDING),
        *(DeliveryState.FAILED, DeliveryState.UNKNOWN),
    )
    rows = Delivery.objects.filter(state__in=[one.value for one in states])
    found = dict(rows.values_list("state").annotate(count=Count("pk")))
    return {one.value: found.get(one.value, 0) for one in states}


def count_alerts() -> Mapping[str, int]:
    """How many alerts hold, in all organisations, by severity; each of them."""
    rows = Episode.objects.exclude(state=EpisodeState.RESOLVED.value)
    found = dict(rows.values_list("severity").annotate(count=Count("pk")))
    return {one.value: found.get(one.value, 0) for one in Severity}


def list_standings(rule: AlertRule) -> Sequence[AlertStanding]:
    """What is known of each place of a rule, the highest value first."""
    return list(rule.standings.order_by("-value", "subject_id")[:100])
