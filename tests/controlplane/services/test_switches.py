"""Switches whose time is over are removed by the jobs, as the system's own edit."""

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from controlplane.celery import app
from controlplane.models import AuditEntry, ConfigRevision, Organisation, Switch
from controlplane.services import snapshots
from controlplane.services.actors import Actor
from controlplane.services.switches import throw_switch
from controlplane.tasks.switches import remove_expired
from tests.controlplane.snapshots import staged_snapshot

pytestmark = pytest.mark.slow


@pytest.fixture
def now() -> datetime:
    return timezone.now()


def thrown(actor: Actor, home: Organisation, until: datetime | None, subject: str) -> Switch:
    project = home.projects.get()
    pk = None if subject == "organisation" else project.pk
    switch = throw_switch(actor, organisation=home, subject=subject, subject_id=pk)
    Switch.objects.filter(pk=switch.pk).update(expires_at=until)
    return switch


def test_an_expired_switch_is_removed_and_the_system_says_so(
    actor: Actor, organisation: Organisation, now: datetime
) -> None:
    later = thrown(actor, organisation, now + timedelta(hours=1), "project")
    thrown(actor, organisation, now - timedelta(seconds=1), "organisation")
    snapshots.stage(actor, "as they are", organisation_id=organisation.pk)
    before = ConfigRevision.objects.latest("id").version
    assert remove_expired() == 1
    assert [row.pk for row in Switch.objects.all()] == [later.pk]
    assert list(staged_snapshot().switches) == [later.pk]
    assert ConfigRevision.objects.latest("id").version == before + 1
    entry = AuditEntry.objects.filter(noun="switches").latest("id")
    assert (entry.action, entry.actor_kind, entry.actor_label, entry.via, entry.reason) == (
        *("expire", "system", "jobs", "job"),
        "Its time was over.",
    )
    assert entry.before is not None
    assert (entry.before["name"], entry.after) == ("the whole organisation", None)
    assert remove_expired() == 0


def test_the_jobs_look_for_them_four_times_a_minute() -> None:
    schedules = {one["task"]: one["schedule"] for one in app.conf.beat_schedule.values()}
    assert schedules[remove_expired.name] == 15.0
    assert "controlplane.tasks.switches" in app.conf.imports
