"""Recent changes as the overview tells them: in words, with names instead of ids."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Any

from controlplane.console.activity import object_of, verb_of
from controlplane.models import AuditEntry
from controlplane.selectors.access import Access
from controlplane.selectors.audit import list_audit
from controlplane.selectors.names import list_names
from controlplane.selectors.users import list_service_accounts, list_users

_MOST_CHANGES = 5
_MOST_FIELDS = 4
_HIDDEN = frozenset(("id", "version", "created_at", "updated_at", "organisation", "name"))
_ICONS = {
    "routes": "route",
    "pools": "pool",
    "models": "model",
    "prices": "price",
    "keys": "key",
    "api_tokens": "key",
    "users": "person",
    "role_bindings": "person",
    "service_accounts": "person",
    "organisations": "organisation",
    "teams": "organisation",
    "projects": "organisation",
    "limits": "limit",
    "caches": "snapshot",
    "purges": "snapshot",
    "budgets": "budget",
    "switches": "power",
}
_NAMING = ("model", "team", "project", "service_account")
"""Fields of an entry whose ids its title tells by name."""

_SET_PASSWORD = "set_password"


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of the audit trail, in words."""

    icon: str
    title: str
    detail: str
    at: datetime
    when: str


def changes_of(access: Access, organisation_id: str, zone: tzinfo) -> Sequence[Change]:
    """The newest changes of an organisation; none for a reader who may not read the trail."""
    rows = list_audit(access).filter(organisation_id=organisation_id).order_by("-id")
    shown = list(rows[:_MOST_CHANGES])
    names = _names_in(access, shown)
    return [_change(row, names, zone) for row in shown]


def _names_in(access: Access, rows: Iterable[AuditEntry]) -> Mapping[str, str]:
    """The names of what the entries mention, by id, as far as it is there and the reader's."""
    ids, people = set(), set()
    for row in rows:
        known = _known(row)
        ids |= {row.object_id, *(one for field in _NAMING if (one := known.get(field)))}
        people |= {row.object_id} if row.noun == "users" else {known.get("user")} - {None}
    users = list_users(access).filter(pk__in=[one for one in people if str(one).isdecimal()])
    accounts = list_service_accounts(access).filter(pk__in=ids)
    return {
        **list_names(access, ids),
        **dict(accounts.values_list("pk", "name")),
        **{str(pk): name for pk, name in users.values_list("pk", "username")},
    }


def _known(row: AuditEntry) -> Mapping[str, Any]:
    return {**(row.before or {}), **(row.after or {})}


def _change(row: AuditEntry, names: Mapping[str, str], zone: tzinfo) -> Change:
    fields = sorted(set(row.after or {}) - _HIDDEN) if row.before and row.after else []
    words = ", ".join(field.replace("_", " ") for field in fields[:_MOST_FIELDS])
    detail = " \N{MIDDLE DOT} ".join(
        part for part in (row.reason or words, row.actor_label) if part
    )
    local = row.at.astimezone(zone)
    when = f"{local.day} {local:%b %H:%M}"
    return Change(_ICONS.get(row.noun, "info"), _title(row, names), detail, row.at, when)


def _title(row: AuditEntry, names: Mapping[str, str]) -> str:
    """`Pool mine created`, `Role admin granted to mira`; an id where nothing has a name."""
    known, verb = _known(row), verb_of(row.action)
    if row.noun == "role_bindings":
        return _role_title(row, known, names)
    if row.noun == "api_tokens":
        account = names.get(known.get("service_account", ""), "a service account")
        return f"Token of {account} {verb}"
    if row.noun == "prices" and (model := names.get(known.get("model", row.object_id))):
        return f"Price of {model} {verb}"
    name = names.get(row.object_id) or known.get("name") or known.get("username")
    if row.action == _SET_PASSWORD:
        return f"Password of {name or 'a user'} set"
    return f"{object_of(row.noun).capitalize()} {name or row.object_id} {verb}"


def _role_title(row: AuditEntry, known: Mapping[str, Any], names: Mapping[str, str]) -> str:
    told = "taken from" if row.action == "revoke" else "granted to"
    subject = names.get(known.get("user") or known.get("service_account") or "", "somebody")
    places = [(kind, known.get(kind)) for kind in ("team", "project")]
    place = "".join(f" in {kind} {names.get(one, one)}" for kind, one in places if one)
    return f"Role {known.get('role')} {told} {subject}{place}"
