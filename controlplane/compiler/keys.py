"""Keys as gateways read them, in the sections that they are spread over."""

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from controlplane.models import Key, KeyDigest, KeyRoute
from controlplane.models.keys import public_key_id
from inference.contract import sealing
from inference.contract.kinds import PriorityClass, Scope, TaskClass
from inference.contract.snapshot import KeyDigest as DigestRecord
from inference.contract.snapshot import KeyRecord
from inference.contract.wire import key_section

_KEY_COLUMNS = (
    *("id", "organisation_id", "project__team_id", "project_id"),
    *("scopes", "is_restricted", "expires_at", "is_enabled"),
    *("tags", "priority", "default_task"),
)


def keys_by_section() -> Mapping[str, tuple[KeyRecord, ...]]:
    """Records of the keys a gateway should know; a revoked one is unknown to it.

    Keys are the one noun there are thousands of, so their columns are read without making rows.
    """
    digests, names = _digests_by_key(), _route_names_by_key()
    sections: dict[str, list[KeyRecord]] = defaultdict(list)
    columns = Key.objects.filter(revoked_at__isnull=True).values_list(*_KEY_COLUMNS)
    for pk, home, team, project, scopes, is_restricted, expires_at, is_enabled, *rest in columns:
        tags, priority, task = rest
        record = KeyRecord(
            id=public_key_id(pk),
            organisation_id=home,
            team_id=team,
            project_id=project,
            digests=tuple(digests[pk]),
            scopes=tuple(Scope(scope) for scope in scopes),
            route_names=tuple(sorted(names[pk])) if is_restricted else None,
            expires_at=seconds_of(expires_at),
            is_enabled=is_enabled,
            tags=tuple(tags),
            priority=PriorityClass(priority),
            default_task=None if task is None else TaskClass(task),
        )
        sections[key_section(sealing.key_bucket(record.id))].append(record)
    return {
        name: tuple(sorted(sections[name], key=lambda record: record.id))
        for name in sorted(sections)
    }


def _digests_by_key() -> Mapping[str, list[DigestRecord]]:
    digests: dict[str, list[DigestRecord]] = defaultdict(list)
    live = KeyDigest.objects.filter(key__revoked_at__isnull=True).order_by("-id")
    columns = live.values_list("key_id", "pepper_version", "digest", "accepted_until")
    for key, version, digest, accepted_until in columns:
        digests[key].append(DigestRecord(version, digest, seconds_of(accepted_until)))
    return digests


def _route_names_by_key() -> Mapping[str, list[str]]:
    names: dict[str, list[str]] = defaultdict(list)
    live = KeyRoute.objects.filter(key__revoked_at__isnull=True)
    for key, name in live.values_list("key_id", "route__name"):
        names[key].append(name)
    return names


def seconds_of(at: datetime | None) -> float | None:
    """Seconds since the epoch, as the contract has times."""
    return None if at is None else at.timestamp()
