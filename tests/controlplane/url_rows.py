"""Rows of alerts and of what was put right, for the walk over every path."""

from datetime import timedelta

from django.utils import timezone

from controlplane.models import Episode
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import NOON

ALERTS = ("alert", "alert-rule", "silence", "channel", "delivery")


def alert_rows(admin: Caller) -> dict[str, str]:
    """The ids of an alert that holds, and of one of each that belongs to alerts."""
    channel = {"name": "canary-channel", "kind": "email", "recipients": ["canary@example.com"]}
    rule = {"name": "canary-rule", "kind": "pool_down", "scope": "pool"}
    silence = {"reason": "canary", "ends_at": (timezone.now() + timedelta(days=1)).isoformat()}
    told = {**rule, "threshold": 1, "subject_id": "canary", "severity": "notice"}
    alert = Episode.objects.create(organisation=admin.organisation, **told)
    paths = ("/alert-rules/", "/silences/", "/channels/", "/deliveries/")
    bodies = (rule, silence, channel, {"channel": "canary-channel"})
    made = [admin.made(*one)["id"] for one in zip(paths, bodies, strict=True)]
    return dict(zip(ALERTS, (alert.pk, *made), strict=True))


def money_rows(admin: Caller) -> dict[str, str]:
    """The ids of a repricing and of a correction."""
    period = {"since": NOON.isoformat(), "until": timezone.now().isoformat(), "reason": "canary"}
    amount = {"subject": "organisation", "amount_nanousd": "1", "reason": "canary"}
    gpu = {"gpu_type": "H100", "capacity_class": "spot", "hour_nanousd": "1"}
    gpu["effective_from"] = (timezone.now() + timedelta(days=1)).isoformat()
    return {
        "gpu-price": admin.made("/gpu-prices/", gpu)["id"],
        "repricing": admin.made("/repricings/", period)["id"],
        "correction": admin.made("/corrections/", amount)["id"],
    }


def cache_rows(admin: Caller) -> dict[str, str]:
    """The ids of a cache policy and of a purge."""
    return {
        "cache-policy": admin.made("/caches/", {"name": "canary-answers"})["id"],
        "purge": admin.made("/purges/", {"kind": "tag", "value": "canary"})["id"],
    }
