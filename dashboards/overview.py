"""What the overview shows beside the live figures: recent changes, and the way to the first one."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo

from django.db.models import QuerySet

from controlplane.models import AuditEntry
from controlplane.selectors.access import Access
from controlplane.selectors.audit import list_audit
from controlplane.selectors.keys import list_keys
from controlplane.selectors.models import list_models
from controlplane.selectors.pools import list_pools
from controlplane.selectors.requests import list_requests
from controlplane.selectors.routes import list_routes

_MOST_CHANGES = 5
_MOST_FIELDS = 4
_HIDDEN = frozenset(("id", "version", "created_at", "updated_at", "organisation", "name"))
_DONE = {"create": "created", "update": "changed", "delete": "deleted", "revoke": "revoked"}
_ICONS = {"routes": "route", "pools": "pool", "models": "model", "prices": "price", "keys": "key"}


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the audit trail, in words."""

    icon: str
    title: str
    detail: str
    at: datetime
    when: str


@dataclass(frozen=True, slots=True)
class Step:
    """One step to the first figures; `url_name` is the page that does it."""

    title: str
    detail: str
    url_name: str
    is_done: bool


def changes_of(access: Access, organisation_id: str, zone: tzinfo) -> Sequence[Change]:
    """The newest changes of an organisation; none for a reader who may not read the trail."""
    rows = list_audit(access).filter(organisation_id=organisation_id).order_by("-id")
    return [_change(row, zone) for row in rows[:_MOST_CHANGES]]


def _change(row: AuditEntry, zone: tzinfo) -> Change:
    noun = row.noun.replace("_", " ").removesuffix("s")
    known = {**(row.before or {}), **(row.after or {})}
    name = known.get("name") or known.get("username") or row.object_id
    fields = sorted(set(row.after or {}) - _HIDDEN) if row.before and row.after else []
    words = ", ".join(field.replace("_", " ") for field in fields[:_MOST_FIELDS])
    detail = " \N{MIDDLE DOT} ".join(
        part for part in (row.reason or words, row.actor_label) if part
    )
    local = row.at.astimezone(zone)
    title = f"{noun.capitalize()} {name}: {_DONE.get(row.action, row.action.replace('_', ' '))}"
    return Change(
        _ICONS.get(row.noun, "info"), title, detail, row.at, f"{local.day} {local:%b %H:%M}"
    )


def checklist_of(access: Access, organisation_id: str) -> Sequence[Step]:
    """The steps to the first request; none once there was one, or for who may not see it all."""
    is_partial_reader = not access.reads_organisation(organisation_id)
    if is_partial_reader or list_requests(access, organisation_id).order_by().exists():
        return ()
    steps = (
        ("Name a model", "What callers ask for, and what a pool serves.", "models", list_models),
        ("Connect a pool", "Workers of ours, or addresses you already have.", "pools", list_pools),
        ("Make a route", "The model name callers send, and where it leads.", "routes", list_routes),
        ("Issue a key", "Its secret is shown once.", "keys", list_keys),
    )
    return [
        *(
            Step(title, detail, url_name, _has_any(rows(access), organisation_id))
            for title, detail, url_name, rows in steps
        ),
        Step("Send a request", "It shows here within two seconds of its end.", "requests", False),
    ]


def _has_any(rows: QuerySet, organisation_id: str) -> bool:
    return rows.filter(organisation_id=organisation_id).exists()
