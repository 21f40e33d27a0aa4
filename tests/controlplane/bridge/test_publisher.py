"""Publishing: sections first, never an older version over a newer, repeated until it's done."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from redis import Redis

from controlplane.bridge import publisher
from controlplane.bridge.publisher import (
    GRACE_S,
    Publication,
    collect_sections,
    publish,
    publish_revision,
)
from controlplane.models import ConfigRevision, Installation, Organisation
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation
from controlplane.services.pools import create_pool, update_pool
from controlplane.tasks.configuration import collect_sections as collect_task
from controlplane.tasks.configuration import republish
from inference.contract import codec, sealing, wire
from inference.contract.snapshot import ConfigSnapshot
from tests.controlplane.snapshots import newest_revision, staged_snapshot

Capture = Callable[..., Any]


def unsealed(sealed: bytes | None) -> bytes:
    assert sealed is not None
    return sealing.unseal(settings.HEADWORKS.data_key_bytes, sealed)


def published_snapshot(store: Redis) -> ConfigSnapshot:
    """The configuration as a gateway reads it from the store."""
    manifest = codec.decode_manifest(unsealed(store.hget(wire.MANIFEST, "sealed")))
    sections = {}
    for name, digest in manifest.sections.items():
        content = unsealed(store.get(wire.section_key(digest)))
        assert sealing.content_digest(content) == digest
        sections[name] = codec.index_section(name, codec.decode_section(name, content))
    return codec.assemble(manifest, sections)


@pytest.fixture
def home(db: None, actor: Actor) -> Organisation:
    return create_organisation(actor, name="Home")


@pytest.fixture
def edit(home: Organisation, actor: Actor) -> Callable[[], ConfigRevision]:
    """Make a version; each edit changes the pools section."""
    pool = create_pool(
        actor,
        organisation=home,
        name="mine",
        model="m",
        provisioner="static",
        addresses=["http://127.0.0.1:9000/v1"],
    )

    def make() -> ConfigRevision:
        pool.refresh_from_db()
        update_pool(actor, pool_id=pool.pk, changes={"replicas": pool.replicas + 1})
        return newest_revision()

    return make


def test_a_committed_edit_is_published_whole(
    home: Organisation,
    actor: Actor,
    state_store: Redis,
    django_capture_on_commit_callbacks: Capture,
) -> None:
    with state_store.pubsub() as channel:
        channel.subscribe(wire.SNAPSHOT_CHANGED)
        channel.get_message(timeout=5)
        with django_capture_on_commit_callbacks(execute=True):
            create_organisation(actor, name="Second")
        message = channel.get_message(timeout=5)
    revision = newest_revision()
    assert published_snapshot(state_store) == staged_snapshot(revision)
    at = f"{revision.lineage}:{revision.version}"
    assert message is not None
    assert message["data"].decode() == at
    stored = state_store.hmget(wire.MANIFEST, "lineage", "version")
    assert b":".join(stored).decode() == at  # type: ignore[arg-type]
    assert state_store.get(wire.LINEAGE) == revision.lineage.encode()
    assert float(state_store.get(wire.SEEDED_AT) or 0) > 1_700_000_000


def test_an_edit_that_is_rolled_back_publishes_nothing(
    home: Organisation, state_store: Redis
) -> None:
    assert state_store.dbsize() == 0


def test_publishing_again_changes_nothing_and_says_nothing(
    edit: Callable[[], ConfigRevision], state_store: Redis
) -> None:
    edit()
    assert publish() is Publication.PUBLISHED
    keys = sorted(state_store.keys())
    held = state_store.hgetall(wire.MANIFEST)
    seeded_at = state_store.get(wire.SEEDED_AT)
    with state_store.pubsub() as channel:
        channel.subscribe(wire.SNAPSHOT_CHANGED)
        channel.get_message(timeout=5)
        assert publish() is Publication.CURRENT
        state_store.publish(wire.SNAPSHOT_CHANGED, "end")
        message = channel.get_message(timeout=5)
    assert message is not None
    assert message["data"] == b"end"
    assert sorted(state_store.keys()) == keys
    assert state_store.hget(wire.MANIFEST, "version") == held[b"version"]
    assert state_store.get(wire.SEEDED_AT) == seeded_at


def test_an_older_version_never_replaces_a_newer_one(
    edit: Callable[[], ConfigRevision], state_store: Redis
) -> None:
    older, newer = edit(), edit()
    assert publish_revision(state_store, newer) is Publication.PUBLISHED
    assert publish_revision(state_store, older) is Publication.REFUSED
    assert published_snapshot(state_store).version == newer.version


def test_versions_are_compared_as_numbers(
    edit: Callable[[], ConfigRevision], state_store: Redis
) -> None:
    revision = edit()
    revision.version = 9
    assert publish_revision(state_store, revision) is Publication.PUBLISHED
    revision.version = 10
    assert publish_revision(state_store, revision) is Publication.PUBLISHED
    revision.version = 9
    assert publish_revision(state_store, revision) is Publication.REFUSED


def test_a_newer_lineage_wins_whatever_its_version_and_seeds_anew(
    edit: Callable[[], ConfigRevision], state_store: Redis
) -> None:
    revision = edit()
    assert publish_revision(state_store, revision) is Publication.PUBLISHED
    state_store.set(wire.SEEDED_AT, "1")
    old = revision.lineage
    revision.lineage, revision.version = "7" + old[1:], 1
    assert publish_revision(state_store, revision) is Publication.PUBLISHED
    assert state_store.get(wire.LINEAGE) == revision.lineage.encode()
    assert state_store.get(wire.SEEDED_AT) != b"1"
    revision.lineage, revision.version = old, 99
    assert publish_revision(state_store, revision) is Publication.REFUSED


def test_the_manifest_comes_after_its_sections(
    edit: Callable[[], ConfigRevision], state_store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    revision = edit()
    seen: list[tuple[bool, bool]] = []

    class Watched(Redis):
        def eval(self, script: str, numkeys: int, *words: Any) -> Any:
            if wire.MANIFEST in words:
                sections = [wire.section_key(one) for one in revision.manifest.values()]
                has_all = state_store.exists(*sections) == len(sections)
                seen.append((has_all, bool(state_store.exists(wire.MANIFEST, wire.SEEDED_AT))))
            return super().eval(script, numkeys, *words)

    with Watched.from_url(settings.HEADWORKS.state_url.get_secret_value()) as store:
        assert publish_revision(store, revision) is Publication.PUBLISHED
    assert seen == [(True, False)]


@pytest.mark.parametrize("lost", ["everything", "a section", "the manifest", "the seed"])
def test_a_store_that_lost_something_is_filled_again(
    lost: str, edit: Callable[[], ConfigRevision], state_store: Redis
) -> None:
    revision = edit()
    publish()
    whole = published_snapshot(state_store)
    if lost == "everything":
        state_store.flushdb()
    elif lost == "a section":
        state_store.delete(wire.section_key(revision.manifest["pools"]))
    elif lost == "the manifest":
        state_store.delete(wire.MANIFEST)
    else:
        state_store.delete(wire.SEEDED_AT, wire.LINEAGE)
    assert republish() in ("published", "current")
    assert published_snapshot(state_store) == whole
    assert state_store.exists(wire.SEEDED_AT, wire.LINEAGE) == 2


def test_an_edit_is_stored_when_the_store_is_away_and_published_by_the_sweep(
    home: Organisation,
    actor: Actor,
    state_store: Redis,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    django_capture_on_commit_callbacks: Capture,
) -> None:
    there = settings.HEADWORKS
    away = type(there)(state_url=f"unix://{tmp_path}/nobody.sock?db=0")
    monkeypatch.setattr(settings, "HEADWORKS", away)
    with django_capture_on_commit_callbacks(execute=True) as callbacks:
        create_organisation(actor, name="Second")
    assert len(callbacks) == 1
    assert publish() is Publication.UNAVAILABLE
    monkeypatch.setattr(settings, "HEADWORKS", there)
    assert republish() == "published"
    names = {one.name for one in published_snapshot(state_store).organisations.values()}
    assert names == {"Home", "Second"}


def test_sections_of_old_versions_are_given_a_last_while(
    edit: Callable[[], ConfigRevision], state_store: Redis
) -> None:
    revisions = []
    for _ in range(publisher.KEPT_VERSIONS + 2):
        revisions.append(edit())
        publish()
    assert collect_task() == 2
    lives = [
        state_store.ttl(wire.section_key(revision.manifest["pools"])) for revision in revisions
    ]
    assert all(0 < life <= GRACE_S for life in lives[:2])
    assert lives[2:] == [-1] * publisher.KEPT_VERSIONS
    assert collect_sections() == 0


def test_a_section_that_is_named_again_stays(
    edit: Callable[[], ConfigRevision], actor: Actor, state_store: Redis
) -> None:
    revision = edit()
    publish()
    key = wire.section_key(revision.manifest["pools"])
    state_store.expire(key, 5)
    publish()
    assert state_store.ttl(key) == -1


def test_an_empty_database_publishes_nothing(db: None, state_store: Redis) -> None:
    assert publish() is Publication.NOTHING
    assert not Installation.objects.exists()
