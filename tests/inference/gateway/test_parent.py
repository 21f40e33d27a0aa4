"""How a parent keeps and replaces its children, which are stand-ins here."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from inference.gateway.admin import Standing
from inference.gateway.listener import CannotListen
from inference.gateway.parent import GatewayParent
from inference.gateway.processes import ServingProcess, start_process
from tests.inference.gateway.client import request_bytes, send
from tests.inference.stores import until
from tests.installation import free_port

pytestmark = pytest.mark.slow

STANDIN = Path(__file__).with_name("standin.py")


@dataclass
class Rig:
    """A parent of stand-ins, and what they wrote into their diary."""

    folder: Path
    processes: int = 2
    parent: GatewayParent = field(init=False)

    def __post_init__(self) -> None:
        self.feel("")
        (self.folder / "diary").touch()
        self.parent = GatewayParent(
            host="127.0.0.1",
            port=free_port(),
            admin_port=free_port(),
            processes=self.processes,
            command=(sys.executable, str(STANDIN), str(self.folder)),
        )

    def feel(self, *words: str) -> None:
        """Give children that start from now on this mood."""
        (self.folder / "mood").write_text(" ".join(words))

    @property
    def diary(self) -> list[str]:
        return (self.folder / "diary").read_text().splitlines()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[GatewayParent]:
        """The parent, with all its children accepting; stopped at the end of the block."""
        task = asyncio.create_task(self.parent.run())
        try:
            await self.until_accepting()
            yield self.parent
        finally:
            self.parent.stop()
            await task

    async def until_accepting(self) -> None:
        def is_whole() -> bool:
            children = self.parent.children
            return len(children) == self.processes and all(
                one.accepting.is_set() and not one.superseded.is_set() for one in children
            )

        await until(is_whole, "all children to accept")


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


async def test_children_are_replaced_one_after_another_and_the_new_one_accepts_first(
    rig: Rig,
) -> None:
    async with rig.running() as parent:
        assert sorted(rig.diary) == ["accepts 0", "accepts 1", "started 0", "started 1"]
        begun = len(rig.diary)
        parent.replace_all()
        await rig.until_accepting()
        assert rig.diary[begun : begun + 4] == ["started 2", "accepts 2", "told 0", "started 0"]
        assert rig.diary[begun + 4 :] == ["accepts 0", "told 1"]
        assert [one.slot for one in parent.children] == [0, 2]


async def test_only_a_generation_higher_than_the_first_one_read_is_a_restart(rig: Rig) -> None:
    rig.feel("wants=5")
    async with rig.running() as parent:
        await until(lambda: parent.generation == 5, "the generation to be heard")
        rig.feel("wants=6")
        os.kill(parent.children[0].pid, signal.SIGKILL)
        await until(lambda: parent.generation == 6, "the new generation to be heard")
        await rig.until_accepting()
        assert sum(line.startswith("started for 6") for line in rig.diary) == 2
    assert sum("told" in line for line in rig.diary) >= 4


@pytest.mark.parametrize("mood", ["die", "mute"])
async def test_a_child_whose_successor_does_not_accept_goes_on(
    rig: Rig, mood: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.gateway.parent.TAKE_OVER_S", 0.5)
    monkeypatch.setattr("inference.gateway.parent.REPLACE_AGAIN_S", 0.05)
    async with rig.running() as parent:
        before = {one.pid for one in parent.children}
        rig.feel(mood)
        parent.replace_all()
        await until(lambda: rig.diary.count("started 2") >= 2, "two attempts")
        assert before <= {one.pid for one in parent.children}
        assert not any("told" in line for line in rig.diary)
        assert parent.standing is Standing.READY
        monkeypatch.setattr("inference.gateway.parent.TAKE_OVER_S", 60.0)
        rig.feel("")
        await rig.until_accepting()
        assert not before & {one.pid for one in parent.children}


async def test_a_child_that_will_not_end_is_killed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.gateway.parent.STOP_S", 0.2)
    rig.feel("stubborn")
    async with rig.running() as parent:
        rig.feel("")
        parent.replace_all()
        await rig.until_accepting()
    assert rig.parent.standing is Standing.STOPPING
    assert rig.parent.children == []


def child_in(parent: GatewayParent, slot: int) -> ServingProcess:
    return next(one for one in parent.children if one.slot == slot)


async def test_a_successor_that_dies_while_the_old_one_drains_is_started_again_at_once(
    tmp_path: Path,
) -> None:
    rig = Rig(tmp_path, processes=1)
    rig.feel("stubborn")
    async with rig.running() as parent:
        rig.feel("")
        parent.replace_all()
        await until(lambda: "told 0" in rig.diary, "the old one to be told")
        os.kill(child_in(parent, 1).pid, signal.SIGKILL)
        await until(lambda: rig.diary.count("accepts 1") == 2, "another in its place")
        assert child_in(parent, 0).is_leaving
        await until(lambda: parent.standing is Standing.READY, "the parent to have heard of it")
        child_in(parent, 0).kill()


async def test_a_child_that_dies_before_its_turn_is_started_again_at_once(rig: Rig) -> None:
    rig.feel("stubborn")
    async with rig.running() as parent:
        rig.feel("")
        parent.replace_all()
        await until(lambda: "told 0" in rig.diary, "the first to be told")
        waiting = child_in(parent, 1)
        os.kill(waiting.pid, signal.SIGKILL)
        await until(lambda: rig.diary.count("accepts 1") == 2, "another in its place")
        assert not any(line in rig.diary for line in ("told 1", "started 3"))
        child_in(parent, 0).kill()
        await rig.until_accepting()
        assert [one.slot for one in parent.children] == [1, 2]
    assert rig.diary.count("started 1") == 2


async def test_a_child_that_dies_while_its_successor_starts_is_followed_under_its_own_number(
    rig: Rig,
) -> None:
    async with rig.running() as parent:
        rig.feel("mute")
        parent.replace_all()
        await until(lambda: "started 2" in rig.diary, "a successor that never accepts")
        rig.feel("")
        os.kill(child_in(parent, 0).pid, signal.SIGKILL)
        await until(lambda: rig.diary.count("accepts 0") == 2, "another in its place")
        await rig.until_accepting()
        assert [one.slot for one in parent.children] == [0, 2]


async def test_a_child_that_dies_is_started_again_under_its_own_number(rig: Rig) -> None:
    async with rig.running() as parent:
        parent.replace_all()
        await rig.until_accepting()
        assert [one.slot for one in parent.children] == [0, 2]
        os.kill(parent.children[1].pid, signal.SIGKILL)
        await until(lambda: rig.diary.count("started 2") == 2, "another in its place")
        await rig.until_accepting()
        assert [one.slot for one in parent.children] == [0, 2]


async def test_a_child_that_cannot_be_reached_is_ended_and_followed_by_another(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreached: list[ServingProcess] = []

    async def start(*command: object, **told: object) -> tuple[ServingProcess, socket.socket]:
        child, link = await start_process(*command, **told)  # type: ignore[arg-type]
        if not unreached:
            unreached.append(child)
            link.close()
        return child, link

    monkeypatch.setattr("inference.gateway.parent.start_process", start)
    monkeypatch.setattr("inference.gateway.parent.FIRST_BACKOFF_S", 0.05)
    async with rig.running() as parent:
        assert unreached[0].ended.is_set()
        assert unreached[0].code is not None
        assert [one.slot for one in parent.children] == [0, 1]


async def test_a_child_that_starts_during_a_stop_is_ended_too(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[ServingProcess] = []
    go_on = asyncio.Event()

    async def start(*command: object, **told: object) -> tuple[ServingProcess, socket.socket]:
        child, link = await start_process(*command, **told)  # type: ignore[arg-type]
        started.append(child)
        await go_on.wait()
        return child, link

    monkeypatch.setattr("inference.gateway.parent.STOP_S", 0.2)
    monkeypatch.setattr("inference.gateway.parent.FIRST_BACKOFF_S", 0.05)
    async with rig.running() as parent:
        monkeypatch.setattr("inference.gateway.parent.start_process", start)
        rig.feel("stubborn")
        first = child_in(parent, 0)
        first.kill()
        await until(lambda: rig.diary.count("accepts 0") == 2, "another in its place")
        parent.stop()
        await until(lambda: not parent.children, "the others to end")
        go_on.set()
    (late,) = started
    assert late.ended.is_set()
    assert late.code is not None


async def test_a_child_that_stands_still_is_asked_once_however_often_it_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.gateway.processes.ANSWER_S", 0.01)
    rig = Rig(tmp_path, processes=1)
    async with rig.running() as parent:
        (child,) = parent.children
        for _ in range(5):
            await child.ask()
        assert child.last is None
        assert child._waiting == []
        await until(lambda: "asked 0" in rig.diary, "it to read what it was asked")
    assert rig.diary.count("asked 0") == 1


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8401", 200),
        ("LocalHost", 200),
        ("rebound.example:8401", 421),
        ("localhost.rebound.example", 421),
        ("", 421),
    ],
)
async def test_the_admin_port_answers_only_to_names_of_this_machine(
    rig: Rig, host: str, status: int
) -> None:
    async with rig.running() as parent:
        asked = request_bytes(None, path="/debug", method="GET", token=None, host=host)
        reply = await send(parent.admin_port, asked)
    assert reply.status == status
    assert ("processes" in reply.json) is (status == 200)


async def test_the_admin_port_answers_a_check_that_names_no_host(rig: Rig) -> None:
    async with rig.running() as parent:
        assert (await send(parent.admin_port, b"GET /ready HTTP/1.0\r\n\r\n")).status == 200


async def test_an_admin_port_that_is_taken_is_said_by_its_setting(rig: Rig) -> None:
    async with rig.running() as parent:
        second = GatewayParent(
            host="127.0.0.1", port=free_port(), admin_port=parent.admin_port, processes=1
        )
        with pytest.raises(CannotListen, match=r"^HEADWORKS_GATEWAY_ADMIN_PORT: 127\.0\.0\.1 port"):
            await second.run()
