"""Edits of API keys. A key's text exists once, in the answer to whoever made or rotated it."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from controlplane.errors import Conflict, Invalid, Revoked
from controlplane.models import Key, KeyDigest, KeyRoute, Organisation, Project, Route
from controlplane.services import edits, rows
from controlplane.services.actors import Actor
from controlplane.services.snapshots import configuration_edit
from controlplane.services.subjects import remove_what_names
from inference.contract.kinds import PriorityClass, Scope
from inference.contract.params import MAX_TAGS
from inference.contract.sealing import KEY_PREFIX, token_digest

SECRET_BYTES = 32
MAX_SECRETS = 5
"""Secrets of a key accepted at once: each costs a comparison a request."""
MAX_OVERLAP_S = 90 * 24 * 3600

_EDITABLE = frozenset(
    (
        *("name", "scopes", "routes", "is_enabled", "expires_at"),
        *("tags", "priority", "default_task"),
    )
)


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key and its text, which is shown once and stored nowhere."""

    key: Key
    text: str = field(repr=False)


def create_key(
    actor: Actor,
    *,
    organisation: Organisation,
    name: str,
    project: Project | None = None,
    scopes: Sequence[str] = (Scope.INFERENCE.value,),
    routes: Sequence[Route | str] | None = None,
    is_enabled: bool = True,
    expires_at: datetime | None = None,
    tags: Sequence[str] = (),
    priority: str = PriorityClass.DEFAULT.value,
    default_task: str | None = None,
) -> IssuedKey:
    """Make a key of the project, or of the organisation's default one.

    `routes` (rows, names or ids) restricts it to these; None is every route, none is none. Raises
    Invalid or ProblemsFound.
    """
    _refuse_past(expires_at)
    _refuse_many(tags)
    with configuration_edit():
        key = rows.insert(
            Key(
                organisation=organisation,
                project=project or organisation.projects.get(is_default=True),
                name=name,
                scopes=list(dict.fromkeys(scopes)),
                is_restricted=routes is not None,
                is_enabled=is_enabled,
                expires_at=expires_at,
                tags=list(dict.fromkeys(tags)),
                priority=priority,
                default_task=default_task,
            )
        )
        _place_routes(key, routes or ())
        text = _add_secret(key)
        _conclude(actor, "create", key, after={**edits.values_of(key), "routes": _told(key)})
    return IssuedKey(key, text)


def update_key(
    actor: Actor,
    *,
    key_id: str,
    changes: Mapping[str, Any],
    expected_version: int | None = None,
) -> Key:
    """Change the fields that are named; `routes` None lifts the restriction, [] leaves none.

    Raises Invalid, ProblemsFound, NotFound, VersionMismatch, or Revoked: a revoked key stays so.
    """
    edits.refuse_unknown(changes, _EDITABLE)
    values = dict(changes)
    _refuse_past(values.get("expires_at"))
    if "tags" in values:
        _refuse_many(values["tags"])
        values["tags"] = list(dict.fromkeys(values["tags"]))
    with configuration_edit():
        key = _lock_live(key_id, expected_version)
        told_before = _told(key)
        if "routes" in values:
            routes = values.pop("routes")
            values["is_restricted"] = routes is not None
            _place_routes(key, routes or ())
        told_after = _told(key)
        if values.get("scopes"):
            values["scopes"] = list(dict.fromkeys(values["scopes"]))
        changed = rows.change(key, values, touch=told_before != told_after)
        if changed is not None:
            before, after = changed
            if told_before != told_after:
                before["routes"], after["routes"] = told_before, told_after
            _conclude(actor, "update", key, before=before, after=after)
    return key


def rotate_key(
    actor: Actor, *, key_id: str, overlap_s: int, expected_version: int | None = None
) -> IssuedKey:
    """Give a key a new secret; the old ones are accepted for `overlap_s` more, 0 ends them now.

    Raises Invalid, NotFound, Revoked, or Conflict when too many secrets are still accepted.
    """
    if not 0 <= overlap_s <= MAX_OVERLAP_S:
        raise Invalid.field("overlap_s", f"It must be between 0 and {MAX_OVERLAP_S:,}.")
    with configuration_edit():
        key = _lock_live(key_id, expected_version)
        now = timezone.now()
        until = now + timedelta(seconds=overlap_s)
        KeyDigest.objects.filter(key=key, accepted_until__lte=now).delete()
        if overlap_s == 0:
            KeyDigest.objects.filter(key=key).delete()
        KeyDigest.objects.filter(key=key, accepted_until__isnull=True).update(accepted_until=until)
        KeyDigest.objects.filter(key=key, accepted_until__gt=until).update(accepted_until=until)
        if key.digests.count() >= MAX_SECRETS:
            raise Conflict(f"{MAX_SECRETS} secrets of this key are accepted already.")
        text = _add_secret(key)
        rows.change(key, {}, touch=True)
        _conclude(actor, "rotate", key, after={"old_secrets_until": until})
    return IssuedKey(key, text)


def revoke_key(actor: Actor, *, key_id: str, expected_version: int | None = None) -> Key:
    """End a key for good; its secrets are forgotten, its limits and its switch go with it.

    Revoking it again changes nothing.
    """
    with configuration_edit():
        key = rows.lock(Key, key_id, expected_version=expected_version)
        if key.revoked_at is not None:
            return key
        KeyDigest.objects.filter(key=key).delete()
        remove_what_names(actor, key.organisation_id, "key", [key.pk])
        changed = rows.change(key, {"is_enabled": False, "revoked_at": timezone.now()})
        before, after = changed or ({}, {})
        _conclude(actor, "revoke", key, before=before, after=after)
    return key


def _conclude(
    actor: Actor,
    action: str,
    key: Key,
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    edits.conclude(actor, action, "keys", key, before=before, after=after, subject_id=key.public_id)


def _lock_live(key_id: str, expected_version: int | None) -> Key:
    key = rows.lock(Key, key_id, expected_version=expected_version)
    if key.revoked_at is not None:
        raise Revoked("The key was revoked, and that is final.")
    return key


def _refuse_past(expires_at: datetime | None) -> None:
    if expires_at is not None and expires_at <= timezone.now():
        raise Invalid.field("expires_at", "This time is past; revoke a key to end it now.")


def _refuse_many(tags: Sequence[str]) -> None:
    if len(tags) > MAX_TAGS:
        raise Invalid.field("tags", f"A key has at most {MAX_TAGS} tags.")


def _add_secret(key: Key) -> str:
    text = f"{KEY_PREFIX}{key.public_id}.{secrets.token_urlsafe(SECRET_BYTES)}"
    version, pepper = next(iter(settings.HEADWORKS.peppers.items()))
    KeyDigest.objects.create(
        key=key, pepper_version=version, digest=token_digest(pepper, text), last4=text[-4:]
    )
    return text


def _told(key: Key) -> list[str] | None:
    """The routes as the audit trail tells them: ids, or None for all."""
    if not key.is_restricted:
        return None
    return sorted(KeyRoute.objects.filter(key=key).values_list("route_id", flat=True))


def _place_routes(key: Key, choices: Iterable[Route | str]) -> None:
    """Restrict the key to these routes of its organisation, or raise Invalid at `routes`."""
    routes = {route.pk: route for route in (_route_of(key, choice) for choice in choices)}
    KeyRoute.objects.filter(key=key).exclude(route_id__in=routes).delete()
    KeyRoute.objects.bulk_create(
        [
            KeyRoute(organisation_id=key.organisation_id, key=key, route=route)
            for route in routes.values()
        ],
        ignore_conflicts=True,
    )


def _route_of(key: Key, choice: Route | str) -> Route:
    if isinstance(choice, Route):
        return choice
    routes = Route.objects.filter(organisation_id=key.organisation_id)
    found = routes.filter(pk=choice).first() or routes.filter(name=choice).first()
    if found is None:
        raise Invalid.field("routes", f"There is no route {choice!r}.")
    return found
