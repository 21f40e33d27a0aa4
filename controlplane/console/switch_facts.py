"""What can be turned off and what is off, as the page of kill switches tells it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Q, QuerySet
from django.utils import timezone

from controlplane.console.activity import verb_of
from controlplane.console.details import State
from controlplane.console.formats import UNKNOWN, count
from controlplane.console.nouns import KEYS, MODELS, POOLS, PROJECTS, ROUTES, SWITCHES, Noun
from controlplane.console.scope import Scope
from controlplane.decisions.subjects import subject_words
from controlplane.models import AuditEntry, Switch
from controlplane.selectors.access import Access
from controlplane.selectors.audit import list_newest_entries
from controlplane.selectors.impact import list_requests_by
from controlplane.selectors.key_use import USE_DAYS, get_key_use
from controlplane.selectors.keys import list_keys
from controlplane.selectors.models import list_models
from controlplane.selectors.pools import list_pools
from controlplane.selectors.projects import list_projects
from controlplane.selectors.routes import list_routes
from controlplane.selectors.subjects import list_subject_names
from controlplane.selectors.switches import list_switches
from inference.contract.kinds import SwitchSubject

ON = State("On", "ok", "ok")
OFF = State("Off", "power", "crit")
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of thing that can be turned off, and where its rows and its traffic are read."""

    subject: SwitchSubject
    noun: Noun
    rows: Callable[[Access], QuerySet[Any]]
    field: str = ""


KINDS: Mapping[str, Kind] = {
    one.subject.value: one
    for one in (
        Kind(SwitchSubject.ROUTE, ROUTES, list_routes, "route_id"),
        Kind(SwitchSubject.MODEL, MODELS, list_models, "model_id"),
        Kind(SwitchSubject.POOL, POOLS, list_pools, "pool_id"),
        Kind(SwitchSubject.PROJECT, PROJECTS, list_projects, "project_id"),
        Kind(SwitchSubject.KEY, KEYS, list_keys),
    )
}


@dataclass(frozen=True, slots=True)
class Thrown:
    """A switch that is thrown. `last` is its newest change and `did` what that was.

    Only who reads the trail is told of them: None and "" to others.
    """

    row: Switch
    words: str
    url: str
    put_back_url: str
    last: AuditEntry | None
    did: str


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that can be turned off. `requests` are told by a page as it has them."""

    name: str
    url: str
    state: State
    requests: str
    thrown: Thrown | None
    throw_url: str


def throw_url(subject: str, subject_id: str | None = None) -> str:
    """The page that turns something off."""
    asked = {"subject": subject} | ({} if subject_id is None else {"subject_id": subject_id})
    return f"{SWITCHES.create_url()}?{urlencode(asked)}"


def thrown_in(scope: Scope) -> Sequence[Thrown]:
    """What is off in the page's organisation, the newest first."""
    found = list_switches(scope.access).filter(organisation_id=scope.organisation.pk)
    rows = list(found.order_by("-created_at", "pk"))
    names = list_subject_names(scope.access, rows)
    last = list_newest_entries(scope.access, SWITCHES.key, [row.pk for row in rows])
    return [
        Thrown(
            row,
            subject_words(row.subject, row.subject_id, names.get(row.subject_id or "")),
            SWITCHES.detail_url(row.pk),
            SWITCHES.delete_url(row.pk),
            last.get(row.pk),
            verb_of(last[row.pk].action) if row.pk in last else "",
        )
        for row in rows
    ]


def rows_of_kind(scope: Scope, kind: Kind, search: str) -> QuerySet[Any]:
    """The things of a kind, by name; of keys those that are live."""
    found = kind.rows(scope.access).filter(organisation_id=scope.organisation.pk)
    if kind.subject is SwitchSubject.KEY:
        now = timezone.now()
        alive = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
        found = found.filter(alive, revoked_at__isnull=True)
    if search:
        found = found.filter(Q(name__icontains=search) | Q(pk=search))
    return found.prefetch_related(None).order_by("name", "pk")


def lines_of_kind(
    scope: Scope, kind: Kind, rows: Sequence[Any], thrown: Sequence[Thrown]
) -> Sequence[Line]:
    """The rows as the page tells them; two queries at most."""
    off = {one.row.subject_id: one for one in thrown if one.row.subject == kind.subject}
    requests = _requests(scope, kind, rows)
    return [
        Line(
            row.name,
            kind.noun.detail_url(row.pk),
            OFF if row.pk in off else ON,
            requests.get(row.pk, "0") if requests is not None else UNKNOWN,
            off.get(row.pk),
            throw_url(kind.subject, row.pk),
        )
        for row in rows
    ]


def requests_label(kind: Kind) -> str:
    """Of what time the figures of a kind are: keys are counted by the day alone."""
    return "Requests, last hour" if kind.field else f"Requests, {USE_DAYS} days"


def _requests(scope: Scope, kind: Kind, rows: Sequence[Any]) -> Mapping[str, str] | None:
    """Requests by id; None to those who may not be told of everybody's."""
    now: datetime = timezone.now()
    if not kind.field:
        use = get_key_use(scope.organisation.pk, [row.public_id for row in rows], now)
        return {row.pk: count(use[row.public_id].requests) for row in rows if row.public_id in use}
    if not scope.access.reads_organisation(scope.organisation.pk):
        return None
    since = now - HOUR
    found = list_requests_by(scope.access, scope.organisation, since=since, field=kind.field)
    return {pk: count(number) for pk, number in found.items()}
