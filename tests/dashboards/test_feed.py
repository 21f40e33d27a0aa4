"""The feed: one that leads, numbers without a gap, outages told once and waited out."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError, connection
from psycopg.conninfo import make_conninfo
from redis import Redis
from redis.exceptions import ConnectionError as StoreFailure
from structlog.testing import capture_logs

from controlplane.errors import NotFound
from controlplane.models import Organisation
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation
from dashboards.base import Scene
from dashboards.feed import Feed, Work
from dashboards.kinds import Page
from dashboards.lead import Lead
from dashboards.scopes import LiveScope
from tests.controlplane.bridge.conftest import MANAGE, environment_of_process, wait_until
from tests.dashboards.factory import NOW, scene
from tests.dashboards.living import LivingFleet

ONE, OTHER = (LiveScope(name, Page.OVERVIEW, "", "15m") for name in ("org_1", "org_2"))


@dataclass
class Script:
    """A world for one feed: what is watched, and what fails."""

    watched: Sequence[LiveScope] = (ONE,)
    is_leader: bool = True
    failure: Exception | None = None
    gone: frozenset[LiveScope] = frozenset()
    sent: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    read: list[LiveScope] = field(default_factory=list)
    samples: int = 0
    tidied: int = 0

    async def group_send(self, group: str, message: dict[str, Any]) -> None:
        self.sent.append((group, message))

    def sample(self, now: datetime) -> None:
        if self.failure is not None:
            raise self.failure
        self.samples += 1

    def tidy(self, now: datetime) -> bool:
        self.tidied += 1
        return False

    def read_scene(self, now: datetime) -> Callable[[LiveScope], Scene]:
        def read(scope: LiveScope) -> Scene:
            self.read.append(scope)
            if scope in self.gone:
                raise NotFound
            return scene()

        return read

    def feed(self) -> Feed:
        work = Work(
            holds_lead=lambda: self.is_leader,
            sample=self.sample,
            tidy=self.tidy,
            list_watched=lambda: self.watched,
            read_scene=self.read_scene,
            release=lambda: None,
        )
        return Feed(work, self, now=lambda: NOW, epoch="e1")


async def test_each_watched_scope_is_computed_once_and_numbered_alone() -> None:
    world = Script(watched=(ONE, OTHER))
    feed = world.feed()
    assert [await feed.tick() for _ in range(2)] == [2, 2]
    assert [group for group, _ in world.sent] == [ONE.name, OTHER.name] * 2
    assert world.read == [ONE, OTHER] * 2
    assert [message["type"] for _, message in world.sent] == ["live.message"] * 4
    assert ['"seq":1' in message["text"] for _, message in world.sent] == [True, True, False, False]
    assert (world.samples, world.tidied) == (2, 1)


async def test_scopes_that_a_tick_has_no_time_for_come_first_in_the_next() -> None:
    world = Script(watched=(ONE, OTHER))
    feed = world.feed()
    feed.stopwatch = iter(range(100)).__next__
    assert [await feed.tick() for _ in range(3)] == [1, 1, 1]
    assert world.read == [ONE, OTHER, ONE]


async def test_what_nobody_watches_is_not_computed_and_begins_anew_later() -> None:
    world = Script()
    feed = world.feed()
    await feed.tick()
    world.watched = ()
    assert await feed.tick() == 0
    assert world.read == [ONE]
    world.watched = (ONE,)
    await feed.tick()
    assert '"seq":1' in world.sent[-1][1]["text"]


async def test_a_scope_whose_pool_is_gone_is_passed_over() -> None:
    world = Script(watched=(ONE, OTHER), gone=frozenset((ONE,)))
    assert await world.feed().tick() == 1
    assert [group for group, _ in world.sent] == [OTHER.name]


async def test_one_that_does_not_lead_does_nothing() -> None:
    world = Script(is_leader=False)
    assert await world.feed().tick() == 0
    assert (world.samples, world.read) == (0, [])


@pytest.mark.parametrize("failure", [StoreFailure("away"), OperationalError("away")])
async def test_an_outage_is_told_once_and_waited_out(failure: Exception) -> None:
    world = Script(failure=failure)
    feed = world.feed()
    with capture_logs() as logs:
        assert [await feed.tick() for _ in range(3)] == [0, 0, 0]
        world.failure = None
        assert await feed.tick() == 1
    told = [one["event"] for one in logs]
    assert told.count("live figures stand still") == 1
    assert told.count("live figures go on") == 1


async def test_it_stops_when_told_between_two_ticks() -> None:
    world = Script()
    stopping = asyncio.Event()
    running = asyncio.create_task(world.feed().run(stopping))
    async with asyncio.timeout(5):
        while not world.sent:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        stopping.set()
        await running


def conninfo() -> str:
    name = connection.settings_dict["NAME"]
    return make_conninfo(**{**settings.HEADWORKS.connection, "dbname": name})


@pytest.mark.django_db
def test_of_two_feeds_one_leads_and_the_other_follows_its_end() -> None:
    first, second = Lead(conninfo()), Lead(conninfo())
    try:
        assert (first.holds(), second.holds()) == (True, False)
        assert (first.holds(), second.holds()) == (True, False)
        first.release()
        wait_until(second.holds, "the other feed leads")
        assert first.holds() is False
    finally:
        first.release()
        second.release()


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_process_samples_and_ends_cleanly(state_store: Redis, actor: Actor) -> None:
    organisation: Organisation = create_organisation(actor, name="Nordhavn")
    fleet = LivingFleet(state_store, organisation.pk, ["pool_1"])
    process = subprocess.Popen(
        [sys.executable, str(MANAGE), "run_feed"],
        env=environment_of_process(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        with fleet.living():
            wait_until(lambda: sampled() > 0, "a sample")
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 0


def sampled() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM controlplane_livetraffic")
        return int(cursor.fetchone()[0])
