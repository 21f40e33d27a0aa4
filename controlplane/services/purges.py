"""Purges: what is taken out of the caches now, and is never served after.

Gateways keep what they stored until it is overwritten or too old; an entry lives only under the
epoch it was stored under, so a purge acts at once, also on what a gateway stores that hasn't heard.
"""

from datetime import datetime, timedelta

from django.db import connection

from controlplane.errors import Invalid
from controlplane.models import CachePolicy, Organisation, Purge
from controlplane.services import edits, rows
from controlplane.services.actors import Actor, Via, system_actor
from controlplane.services.audit import REASON_LENGTH
from controlplane.services.snapshots import configuration_edit, stage
from inference.contract.kinds import PurgeKind
from inference.decisions.problems import is_label

KEPT = timedelta(days=31)
"""No entry is kept for more than 30 days, so after these a purge is about nothing any more."""

MOST = 1_000
"""So many things one organisation purges apart in a month; gateways look at all of them."""


def create_purge(
    actor: Actor, *, organisation: Organisation, kind: str, value: str, reason: str = ""
) -> Purge:
    """Take out of the caches what `kind` and `value` name; raises Invalid.

    A policy goes by its id or name. What was asked for before, or by a gateway that hasn't heard
    of it yet, is never served afterwards.
    """
    with configuration_edit():
        value = _found(organisation, kind, value)
        _refuse_too_many(organisation, kind, value)
        purge = rows.insert(
            Purge(
                organisation=organisation,
                kind=kind,
                value=value,
                epoch=_next_epoch(),
                reason=(reason or actor.reason)[:REASON_LENGTH],
                made_by=actor.label,
            )
        )
        edits.conclude(actor, "create", "purges", purge, after=edits.values_of(purge))
    return purge


def _found(organisation: Organisation, kind: str, value: str) -> str:
    if kind not in {one.value for one in PurgeKind}:
        raise Invalid.field("kind", f"Choose from {', '.join(one.value for one in PurgeKind)}.")
    if not is_label(value):
        raise Invalid.field("value", "Give 1 to 255 printable characters.")
    if kind != PurgeKind.POLICY:
        return value
    policies = CachePolicy.objects.filter(organisation=organisation)
    found = policies.filter(pk=value).first() or policies.filter(name=value).first()
    if found is None:
        raise Invalid.field("value", "There is no cache policy of this name or id.")
    return found.pk


def _refuse_too_many(organisation: Organisation, kind: str, value: str) -> None:
    mine = Purge.objects.filter(organisation=organisation)
    if mine.filter(kind=kind, value=value).exists():
        return
    if mine.values("kind", "value").distinct().count() >= MOST:
        raise Invalid.field(
            "value",
            f"{MOST:,} different things were purged in {KEPT.days} days; purge their policy.",
        )


def _next_epoch() -> int:
    """A greater number than any before; inside the lock of configuration edits.

    It is never below the time in ms: a database that was put back to an older copy would count
    again what purges that are lost had, and gateways' entries from after those would come alive.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT setval('controlplane_purge_epoch', GREATEST("
            "nextval('controlplane_purge_epoch'),"
            " (EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint))"
        )
        return int(cursor.fetchone()[0])


def forget_purges(now: datetime) -> int:
    """Remove purges no entry can be older than; returns how many; one edit an organisation."""
    actor = system_actor("jobs", via=Via.JOB, reason="forget old purges")
    removed = 0
    with configuration_edit():
        old = Purge.objects.filter(created_at__lt=now - KEPT)
        owners = old.order_by("organisation_id").values_list("organisation_id", flat=True)
        for organisation_id in list(owners.distinct()):
            removed += old.filter(organisation_id=organisation_id).delete()[0]
            stage(actor, actor.reason, organisation_id=organisation_id)
    return removed
