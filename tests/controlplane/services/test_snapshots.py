"""Versions: one for each edit the data plane would see, the later one containing the earlier."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest
from django.conf import settings
from django.db import connection, transaction
from redis import Redis
from structlog.testing import capture_logs

from controlplane.bridge.store import open_store
from controlplane.errors import Conflict, InUse, Invalid, ProblemsFound
from controlplane.models import (
    AuditEntry,
    CatalogueModel,
    ConfigRevision,
    ConfigSection,
    Installation,
    Organisation,
    Pool,
    Route,
)
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation, update_organisation
from controlplane.services.pools import create_pool, delete_pool, update_pool
from controlplane.services.routes import TargetChoice, create_route, update_route
from controlplane.services.snapshots import (
    CONFIGURATION_LOCK,
    stage,
    stage_current,
    staged_once,
)
from controlplane.services.teams import create_team, update_team
from inference.contract.snapshot import ConfigSnapshot
from tests.controlplane.snapshots import newest_revision, staged_snapshot

pytestmark = pytest.mark.slow


@pytest.fixture
def home(db: None, actor: Actor) -> Organisation:
    return create_organisation(actor, name="Home")


def make_pool(actor: Actor, home: Organisation, name: str = "mine") -> Pool:
    return create_pool(
        actor,
        organisation=home,
        name=name,
        model="m",
        provisioner="static",
        addresses=["http://127.0.0.1:9000/v1"],
    )


def test_versions_count_up_in_one_lineage(actor: Actor, home: Organisation) -> None:
    pool = make_pool(actor, home)
    update_pool(actor, pool_id=pool.pk, changes={"replicas": 2})
    revisions = list(ConfigRevision.objects.order_by("id"))
    assert [revision.version for revision in revisions] == [1, 2, 3]
    assert {revision.lineage for revision in revisions} == {Installation.objects.get().lineage}


def test_an_edit_no_gateway_would_see_makes_no_version(actor: Actor, home: Organisation) -> None:
    before = ConfigRevision.objects.count()
    team = create_team(actor, organisation=home, name="Research")
    update_team(actor, team_id=team.pk, changes={"name": "Development"})
    assert ConfigRevision.objects.count() == before
    assert AuditEntry.objects.filter(noun="teams", action="update").count() == 1


def test_schedules_of_rules_go_by_the_organisations_zone(actor: Actor, home: Organisation) -> None:
    update_organisation(actor, organisation_id=home.pk, changes={"time_zone": "Asia/Kolkata"})
    assert staged_snapshot(newest_revision()).organisations[home.pk].time_zone == "Asia/Kolkata"


def test_contents_are_stored_once_however_many_versions_name_them(
    actor: Actor, home: Organisation
) -> None:
    pool = make_pool(actor, home)
    sections = ConfigSection.objects.count()
    update_pool(actor, pool_id=pool.pk, changes={"replicas": 2})
    update_pool(actor, pool_id=pool.pk, changes={"replicas": 1})
    assert ConfigSection.objects.count() == sections + 1
    assert newest_revision().manifest == ConfigRevision.objects.get(version=2).manifest


def test_problems_roll_everything_back(actor: Actor, home: Organisation) -> None:
    counts = (ConfigRevision.objects.count(), AuditEntry.objects.count())
    with pytest.raises(ProblemsFound) as caught:
        create_pool(
            actor, organisation=home, name="mine", model="new", provisioner="static", addresses=[]
        )
    assert caught.value.fields == {"addresses": ["A static pool needs at least one address."]}
    assert (ConfigRevision.objects.count(), AuditEntry.objects.count()) == counts
    assert not Pool.objects.exists()
    assert not CatalogueModel.objects.exists()


def test_problems_of_other_records_say_whose_they_are(actor: Actor, home: Organisation) -> None:
    pool, other = make_pool(actor, home), make_pool(actor, home, "other")
    Pool.objects.filter(pk=other.pk).update(addresses=["ftp://127.0.0.1/v1"])
    with pytest.raises(ProblemsFound) as caught:
        update_pool(actor, pool_id=pool.pk, changes={"replicas": 2})
    assert list(caught.value.fields) == [f"pools.{other.pk}.addresses.0"]


def test_a_strangers_problem_stops_the_edit_and_stays_the_strangers(
    actor: Actor, home: Organisation
) -> None:
    stranger = create_organisation(actor, name="Stranger")
    make_pool(actor, stranger)
    Pool.objects.update(addresses=[])
    with pytest.raises(Conflict) as caught:
        make_pool(actor, home)
    assert caught.value.fields == {}
    assert "Stranger" not in caught.value.detail


def test_a_host_setting_decides_what_is_allowed(
    actor: Actor, home: Organisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remote_code() -> Pool:
        return create_pool(
            actor,
            organisation=home,
            name="engine",
            model="m",
            provisioner="process",
            model_source="smollm2-135m-instruct",
            engine_arguments={"trust_remote_code": True},
        )

    with pytest.raises(ProblemsFound) as caught:
        remote_code()
    assert list(caught.value.fields) == ["engine_arguments.trust_remote_code"]
    allowing = settings.HEADWORKS.model_copy(update={"allow_remote_code": True})
    monkeypatch.setattr(settings, "HEADWORKS", allowing)
    assert remote_code().engine_arguments == {"trust_remote_code": True}


def test_what_no_gateway_could_read_is_never_published(actor: Actor, home: Organisation) -> None:
    pool = make_pool(actor, home)
    Pool.objects.update(engine_arguments={"nested": [1]})
    with pytest.raises(Invalid):
        update_pool(actor, pool_id=pool.pk, changes={"replicas": 2})


def test_staging_outside_a_transaction_is_a_mistake(transactional_db: None, actor: Actor) -> None:
    with pytest.raises(RuntimeError):
        stage(actor, "nothing")


def test_an_empty_installation_gets_a_first_version_once(db: None, actor: Actor) -> None:
    first = stage_current(actor)
    assert (first.version, stage_current(actor).pk) == (1, first.pk)
    snapshot = staged_snapshot(first)
    assert snapshot == ConfigSnapshot(first.lineage, 1, {}, {}, {}, {}, {}, {})


def test_rows_that_a_release_changed_become_a_version_at_its_start(
    db: None, actor: Actor, home: Organisation
) -> None:
    pool = make_pool(actor, home)
    before = newest_revision()
    # as a migration does
    Pool.objects.update(replicas=7)
    now = stage_current(actor)
    assert now is not None
    assert (now.version, now.reason) == (before.version + 1, "brought up to this release")
    assert staged_snapshot(now).pools[pool.pk].replicas == 7
    assert stage_current(actor) == now


def test_rows_no_gateway_may_be_given_do_not_hold_a_start_up(
    db: None, actor: Actor, home: Organisation
) -> None:
    make_pool(actor, home)
    before = newest_revision()
    Pool.objects.update(addresses=["ftp://127.0.0.1"])
    with capture_logs() as logs:
        assert stage_current(actor) == before
    assert [entry["event"] for entry in logs] == ["configuration not staged"]
    assert newest_revision() == before


def run_together(*calls: Callable[[], object]) -> list[object]:
    """Run calls in threads that start at once, each on a connection of its own."""
    barrier = threading.Barrier(len(calls))

    def run(call: Callable[[], object]) -> object:
        barrier.wait(10)
        try:
            return call()
        except (InUse, Invalid, Conflict) as error:
            return error
        finally:
            connection.close()

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(run, calls))


def test_of_two_edits_at_once_the_later_version_has_both(
    transactional_db: None, actor: Actor
) -> None:
    home = create_organisation(actor, name="Home")
    first, second = make_pool(actor, home, "first"), make_pool(actor, home, "second")
    for number in range(2, 12):
        run_together(
            partial(update_pool, actor, pool_id=first.pk, changes={"replicas": number}),
            partial(update_pool, actor, pool_id=second.pk, changes={"replicas": number}),
        )
        pools = staged_snapshot().pools
        assert (pools[first.pk].replicas, pools[second.pk].replicas) == (number, number)
    versions = list(ConfigRevision.objects.order_by("id").values_list("version", flat=True))
    assert versions == list(range(1, len(versions) + 1))


def test_of_two_patches_at_once_on_different_fields_both_stay(
    transactional_db: None, actor: Actor
) -> None:
    pool = make_pool(actor, create_organisation(actor, name="Home"))
    for number in range(2, 12):
        run_together(
            partial(update_pool, actor, pool_id=pool.pk, changes={"replicas": number}),
            partial(update_pool, actor, pool_id=pool.pk, changes={"drain_timeout_s": number}),
        )
        pool.refresh_from_db()
        assert (pool.replicas, pool.drain_timeout_s) == (number, number)


def test_a_pool_removed_while_a_route_is_made_leaves_nothing_dangling(
    transactional_db: None, actor: Actor
) -> None:
    home = create_organisation(actor, name="Home")
    for number in range(6):
        pool = make_pool(actor, home, f"pool-{number}")
        targets = [TargetChoice(pool.pk, 1)]
        outcomes = run_together(
            partial(delete_pool, actor, pool_id=pool.pk),
            partial(create_route, actor, organisation=home, name=f"r{number}", targets=targets),
        )
        removed = not Pool.objects.filter(pk=pool.pk).exists()
        routed = Route.objects.filter(name=f"r{number}").exists()
        assert removed != routed
        refused = outcomes[1] if removed else outcomes[0]
        assert isinstance(refused, Invalid if removed else InUse)


def test_a_version_cannot_be_rewritten(actor: Actor, home: Organisation) -> None:
    revision = newest_revision()
    for write in (
        lambda: ConfigRevision.objects.filter(pk=revision.pk).update(reason="other"),
        lambda: ConfigSection.objects.update(content=b""),
    ):
        with pytest.raises(Exception, match="never changed"), transaction.atomic():
            write()


def test_route_targets_are_ordered_as_asked(actor: Actor, home: Organisation) -> None:
    first, second = make_pool(actor, home, "first"), make_pool(actor, home, "second")
    targets = [TargetChoice(second, 1), TargetChoice("first", 2)]
    route = create_route(actor, organisation=home, name="r", targets=targets)
    staged = staged_snapshot().routes[home.pk, "r"]
    assert [target.pool_id for target in staged.targets] == [second.pk, first.pk]
    update_route(actor, route_id=route.pk, changes={"targets": targets[::-1]})
    turned = staged_snapshot().routes[home.pk, "r"]
    assert turned == replace(staged, targets=staged.targets[::-1])


def test_the_store_is_asked_once_an_edit_and_before_the_lock(
    transactional_db: None, actor: Actor, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = create_organisation(actor, name="Home")
    asked: list[bool] = []

    def ask() -> Redis:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s"
                " AND pid = pg_backend_pid()",
                [CONFIGURATION_LOCK],
            )
            asked.append(cursor.fetchone()[0] > 0)
        return open_store()

    monkeypatch.setattr("controlplane.bridge.epochs.open_store", ask)
    make_pool(actor, home)
    assert asked == [False]
    with staged_once(actor, "two at once"):
        make_pool(actor, home, "second")
        make_pool(actor, home, "third")
    assert asked == [False, False]
