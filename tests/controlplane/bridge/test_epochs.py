"""A store that lost or forgot, a database that was put back: whom to believe, and who says so."""

import json
import time
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from redis import Redis
from structlog.testing import capture_logs

from controlplane.bridge.epochs import sweep
from controlplane.bridge.parts import ADOPT, NEWER_KEY
from controlplane.bridge.publisher import Publication, publish
from controlplane.bridge.system import recorder_part, snapshots_part
from controlplane.models import AuditEntry, ConfigRevision, JournalMark, Organisation, Request
from controlplane.selectors.snapshots import get_revision_of
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation
from controlplane.services.usage import expect_marks
from inference.contract import wire
from inference.contract.vitals import Applied
from tests.controlplane.bridge.conftest import Recording
from tests.controlplane.conftest import Caller
from tests.controlplane.fleet import put_vitals, vitals
from tests.controlplane.ledger_events import NOON, feed, make_end
from tests.controlplane.snapshots import newest_revision

pytestmark = pytest.mark.slow


JOURNAL = "gw-1.1"


@pytest.fixture
def home(transactional_db: None, actor: Actor) -> Organisation:
    return create_organisation(actor, name="Home")


def go_on_without(actor: Actor, store: Redis) -> tuple[str, int]:
    """Publish two more versions and lose them again, as a database that was put back does."""
    kept = newest_revision()
    for name in ("Later", "Last"):
        create_organisation(actor, name=name)
    lost = newest_revision()
    assert publish() is Publication.CURRENT
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM controlplane_configrevision WHERE id > %s", [kept.pk])
    return lost.lineage, lost.version


def adopt(*options: str) -> str:
    out = StringIO()
    call_command("adopt_configuration", *options, stdout=out)
    return out.getvalue()


def test_a_database_behind_the_store_is_said_everywhere_with_the_command_that_mends_it(
    home: Organisation, actor: Actor, state_store: Redis
) -> None:
    publish()
    lost = go_on_without(actor, state_store)
    with capture_logs() as logs:
        assert sweep() is Publication.REFUSED
    errors = [entry for entry in logs if entry["log_level"] == "error"]
    assert [entry["remedy"] for entry in errors] == [ADOPT, ADOPT]
    part = snapshots_part()
    assert part.state == "degraded"
    assert part.detail == (
        "the state store holds a newer configuration than the database; if it was restored from a "
        f"back-up, run {ADOPT}"
    )
    assert part.facts["newer_version"] == lost[1]
    assert configuration_told()["state"] == "degraded"
    assert configuration_told()["detail"] == part.detail
    assert Client().get("/-/status").json()["status"] == "degraded"


def configuration_told() -> dict[str, object]:
    """What the status page says of the configuration."""
    parts: list[dict[str, object]] = Client().get("/-/status").json()["parts"]
    return next(part for part in parts if part["name"] == "configuration")


def test_gateways_ahead_of_an_emptied_store_and_a_restored_database_are_told_too(
    home: Organisation, state_store: Redis
) -> None:
    publish()
    revision = newest_revision()
    ahead = Applied(revision.lineage, revision.version + 3)
    put_vitals(state_store, vitals("gw/0", applied=ahead, written_at=time.time()))
    assert sweep() is Publication.CURRENT
    told = json.loads(state_store.get(NEWER_KEY) or b"{}")["newer"]
    assert told == {
        "holder": "gateways run",
        "lineage": revision.lineage,
        "version": revision.version + 3,
    }
    put_vitals(
        state_store,
        vitals("gw/0", applied=Applied(revision.lineage, revision.version)),
    )
    sweep()
    assert state_store.exists(NEWER_KEY) == 0
    assert configuration_told()["state"] == "ok"


def test_adopting_is_rehearsed_first_and_changes_nothing_then(
    home: Organisation, actor: Actor, state_store: Redis
) -> None:
    publish()
    lineage, version = go_on_without(actor, state_store)
    state_store.hset(wire.JOURNAL_MARKS, JOURNAL, 40)
    before = (newest_revision().pk, state_store.hgetall(wire.MANIFEST), JournalMark.objects.count())
    text = adopt()
    assert f"a newer configuration than the database: version {version}" in text
    assert "up to 40 events of 1 journals were recorded after the back-up" in text
    assert text.endswith("nothing was changed: run it again with --yes to do this\n")
    after = (newest_revision().pk, state_store.hgetall(wire.MANIFEST), JournalMark.objects.count())
    assert after == before
    assert newest_revision().lineage == lineage


def test_an_adopted_configuration_outranks_what_store_and_gateways_hold(
    home: Organisation, actor: Actor, state_store: Redis
) -> None:
    publish()
    lineage, version = go_on_without(actor, state_store)
    put_vitals(state_store, vitals("gw/0", applied=Applied("7zzz", 900)))
    seeded_at = state_store.get(wire.SEEDED_AT)
    text = adopt("--yes", "--reason", "power cut")
    revision = newest_revision()
    assert (revision.lineage, revision.version) == ("7zzz0", 901)
    assert revision.reason == "power cut"
    assert "adopted as version 901 of lineage 7zzz0\n" in text
    assert "not published" not in text
    stored = state_store.hmget(wire.MANIFEST, "lineage", "version")
    assert stored == [b"7zzz0", b"901"]
    assert state_store.get(wire.LINEAGE) == b"7zzz0"
    assert state_store.get(wire.SEEDED_AT) != seeded_at
    entry = AuditEntry.objects.get(action="adopt")
    assert (entry.noun, entry.object_id, entry.reason) == ("snapshots", "installation", "power cut")
    assert entry.before == {"lineage": lineage, "version": version - 2}
    create_organisation(actor, name="After")
    assert (newest_revision().lineage, newest_revision().version) == ("7zzz0", 902)
    assert sweep() is Publication.CURRENT


def test_without_anybody_ahead_nothing_is_adopted_unless_forced(
    home: Organisation, state_store: Redis
) -> None:
    publish()
    before = newest_revision()
    assert "there is nothing to adopt" in adopt("--yes")
    assert newest_revision() == before
    adopt("--yes", "--force")
    assert newest_revision().lineage > before.lineage
    assert newest_revision().version == before.version + 1
    assert newest_revision().manifest == before.manifest


def test_without_a_store_nothing_is_adopted(
    home: Organisation, state_store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise OSError

    path = "controlplane.management.commands.adopt_configuration.read_epochs"
    monkeypatch.setattr(path, fail)
    with pytest.raises(CommandError, match="the state store is not answering"):
        adopt("--yes")
    assert ConfigRevision.objects.count() == 1


def test_adopting_lowers_the_stores_marks_to_the_ledgers_and_waits_for_what_is_missing(
    recording: Recording, home: Organisation, actor: Actor
) -> None:
    store = recording.store
    feed(store, *(make_end(number) for number in (1, 2, 3)))
    recording.drain()
    publish()
    # the former ledger went on to 9, and another journal came and went
    store.hset(wire.JOURNAL_MARKS, mapping={JOURNAL: 9, "jnl_gone": 4})
    adopt("--yes", "--force")
    assert store.hgetall(wire.JOURNAL_MARKS) == {JOURNAL.encode(): b"3", b"jnl_gone": b"0"}
    assert missing() == {JOURNAL: 6, "jnl_gone": 4}
    # a gateway feeds again what it keeps: 6 and up, so 4 and 5 are gone
    store.xadd(wire.USAGE_STREAM, {wire.USAGE_START_FIELD: f"{JOURNAL} 5"})
    feed(store, *(make_end(number) for number in (6, 7, 8, 9, 10, 11)))
    recording.drain()
    assert missing() == {JOURNAL: 2, "jnl_gone": 4}
    assert store.hget(wire.JOURNAL_MARKS, JOURNAL) == b"11"
    assert Request.objects.count() == 9
    told = recorder_part()
    assert told.detail == "6 events that a former ledger had are in this one no more"
    assert told.state == "ok"  # there is nothing to do about them
    assert told.facts["missing_events"] == 6


def missing() -> dict[str, int]:
    return dict(JournalMark.objects.values_list("journal", "missing"))


def test_expecting_the_same_again_changes_nothing(recording: Recording, admin: Caller) -> None:
    feed(recording.store, make_end(1), make_end(4))
    recording.drain()
    assert expect_marks({JOURNAL: 6}, NOON) == 4
    assert expect_marks({JOURNAL: 6}, NOON) == 4
    assert expect_marks({JOURNAL: 2}, NOON) == 4
    assert expect_marks({JOURNAL: 8}, NOON) == 6


def test_a_start_that_cannot_be_read_holds_nothing_up(recording: Recording, admin: Caller) -> None:
    for text in (b"jnl_a", b"jnl_a x", b"\xff\x00 ", f"jnl_a {2**63}".encode()):
        recording.store.xadd(wire.USAGE_STREAM, {wire.USAGE_START_FIELD: text})
    feed(recording.store, make_end(1))
    recording.drain()
    assert dict(JournalMark.objects.values_list("journal", "mark")) == {JOURNAL: 1}


def test_a_start_the_ledger_is_past_changes_nothing(recording: Recording, admin: Caller) -> None:
    feed(recording.store, make_end(1), make_end(2))
    recording.drain()
    recording.store.xadd(wire.USAGE_STREAM, {wire.USAGE_START_FIELD: f"{JOURNAL} 1"})
    recording.drain()
    assert dict(JournalMark.objects.values_list("journal", "mark")) == {JOURNAL: 2}
    assert missing() == {JOURNAL: 0}


def test_marks_are_told_to_an_emptied_store_with_its_seeding(
    recording: Recording, home: Organisation
) -> None:
    feed(recording.store, make_end(1), make_end(2))
    recording.drain()
    recording.store.flushdb()
    assert sweep() is Publication.PUBLISHED
    assert recording.store.hgetall(wire.JOURNAL_MARKS) == {JOURNAL.encode(): b"2"}


def test_marks_are_told_again_to_a_store_put_back_under_the_recorders_hands(
    recording: Recording, home: Organisation
) -> None:
    recorder = recording.recorder()
    feed(recording.store, make_end(1), make_end(2))
    recording.drain(recorder)
    recording.store.hset(wire.JOURNAL_MARKS, JOURNAL, 1)
    recording.store.set(wire.SEEDED_AT, "1")
    recorder._claim_at = 0.0
    recorder.step()
    assert recording.store.hget(wire.JOURNAL_MARKS, JOURNAL) == b"2"


def test_versions_from_before_the_adoption_can_still_be_read(
    home: Organisation, state_store: Redis
) -> None:
    before = newest_revision()
    adopt("--yes", "--force")
    assert get_revision_of(before.version) == before
    assert get_revision_of(newest_revision().version) == newest_revision()
