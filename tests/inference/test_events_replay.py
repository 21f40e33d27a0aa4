"""Journals of dead processes: open requests are closed once, all is fed, then all is gone."""

import asyncio
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from structlog.testing import capture_logs

from inference.contract.events import Charge, End, Usage
from inference.contract.kinds import ChargeKind, Outcome
from inference.events.reader import Remains, read_remains
from inference.events.replay import Replay, lost_end
from inference.journal import Journal, segments_of
from tests.contract.samples import OPENING, ORIGIN, PRICE_USED
from tests.inference.facts import end, ids_of, opening
from tests.inference.ledger import numbers, record, running, seed, streamed
from tests.inference.stores import OwnStore, until

PERIOD_S = 0.05


def replay(root: Path, client: Redis) -> Replay:
    return Replay(root, client, scan_period_s=PERIOD_S, step_period_s=PERIOD_S)


async def abandoned(root: Path) -> Path:
    """A journal with two ends and two open requests, whose owner is gone."""
    journal = Journal.create(root)
    for number in (1, 2, 3):
        await journal.open(opening(number))
    await journal.close(end(2))
    await journal.close(end(9))
    journal.release()
    return journal.folder


def test_a_lost_request_may_have_cost_nothing_or_all_it_was_allowed() -> None:
    charge = Charge(
        attempt=2,
        target_id="tgt_1",
        pool_id="pool_p",
        model_id="mdl_a",
        worker_id="pool_p-0",
        kind=ChargeKind.ESTIMATED,
        usage=Usage(None, None, None, None),
        started_at_ms=1_764_500_000_123,
        duration_ms=0.0,
        price=PRICE_USED,
        cost_nanousd=0,
        cost_max_nanousd=2948,
    )
    assert lost_end((OPENING,)) == End(
        event_id="req_01kb7",
        at_ms=1_764_500_000_123,
        received_at_ms=1_764_500_000_123,
        origin=ORIGIN,
        outcome=Outcome.LOST_GATEWAY,
        http_status=0,
        charges=(charge,),
        total_ms=0.0,
        output_tokens_max=1024,
        client_request_id="client-1",
        exposures=OPENING.exposures,
    )


def test_an_unknown_price_stays_unknown() -> None:
    [charge] = lost_end((opening(1, price=None, cost_max_nanousd=None),)).charges
    assert (charge.cost_nanousd, charge.cost_max_nanousd, charge.price) == (None, None, None)


async def test_what_remains_is_the_count_and_the_open_requests(tmp_path: Path) -> None:
    folder = await abandoned(tmp_path)
    assert read_remains(folder) == Remains(2, ((opening(1),), (opening(3),)))


async def test_each_attempt_of_a_lost_request_is_charged_once_though_segments_repeat_openings(
    tmp_path: Path,
) -> None:
    first, second = (
        opening(1, attempt=1),
        opening(1, attempt=2, target_id="tgt_2", cost_max_nanousd=7),
    )
    journal = Journal.create(tmp_path, segment_bytes=1)
    for one in (first, second, opening(2)):
        await journal.open(one)
    await journal.close(end(2))
    journal.release()
    assert len(segments_of(journal.folder)) > 2
    remains = read_remains(journal.folder)
    assert remains == Remains(1, ((first, second),))
    charges = lost_end(remains.unended[0]).charges
    assert [(one.attempt, one.target_id, one.cost_max_nanousd) for one in charges] == [
        (1, first.target_id, first.cost_max_nanousd),
        (2, "tgt_2", 7),
    ]


async def test_torn_and_unreadable_lines_are_passed_over(tmp_path: Path) -> None:
    folder = await abandoned(tmp_path)
    with segments_of(folder)[0].open("ab") as file:
        file.write(
            b'O {"v":1,"d":{"event_id":"req_4"}}\nO {{{\n?? \n\nE {"v":1,"d":{"event_id":"req_1'
        )
    with capture_logs() as logs:
        assert read_remains(folder) == Remains(2, ((opening(1),), (opening(3),)))
    assert {entry["event"] for entry in logs} == {"journal line unreadable", "opening unreadable"}


async def test_open_requests_are_closed_with_the_next_numbers(
    client: Redis, admin: Redis, tmp_path: Path
) -> None:
    await seed(admin)
    folder = await abandoned(tmp_path)
    async with running(replay(tmp_path, client)):

        async def is_fed() -> bool:
            return await numbers(admin) == [1, 2, 3, 4]

        await until(is_fed, "four ends")
        ends = await streamed(admin)
        assert [(one.event_id, one.outcome.value) for one in ends] == [
            ("req_2", "ok"),
            ("req_9", "ok"),
            ("req_1", "lost_gateway"),
            ("req_3", "lost_gateway"),
        ]
        assert {one.journal for one in ends} == {folder.name}
        assert folder.exists()
        await record(admin)
        await until(lambda: not folder.exists(), "the journal to go")
    assert await numbers(admin) == []


async def test_a_journal_without_anything_is_removed_without_a_store(
    own_store: OwnStore, client: Redis, tmp_path: Path
) -> None:
    own_store.stop()
    root = tmp_path / "journals"
    Journal.create(root).release()
    async with running(replay(root, client)):
        await until(lambda: not os.listdir(root), "the journal to go")


async def test_living_and_half_made_journals_are_left_alone(
    client: Redis, admin: Redis, tmp_path: Path
) -> None:
    await seed(admin)
    root = tmp_path / "journals"
    living = Journal.create(root)
    await living.open(opening(1))
    (root / ".jnl_draft").mkdir()
    (root / "notes.txt").write_text("not a journal")
    one = replay(root, client)
    await one.adopt()
    await one.step()
    assert ids_of(living.folder) == ["S 0", "O req_1"]
    assert await living.close(end(1)) == 1
    assert sorted(os.listdir(root)) == sorted([".jnl_draft", living.journal_id, "notes.txt"])
    living.release()


async def test_an_adopter_that_dies_midway_closes_nothing_twice(
    client: Redis, admin: Redis, tmp_path: Path
) -> None:
    await seed(admin)
    folder = await abandoned(tmp_path)
    first = Journal.adopt(folder)
    first.seq = read_remains(folder).seq
    await first.close(lost_end((opening(1),)))
    first.release()
    one = replay(tmp_path, client)
    await one.adopt()
    await one.step()
    assert Counter(end.event_id for end in await streamed(admin)) == Counter(
        ["req_1", "req_2", "req_3", "req_9"]
    )
    assert await numbers(admin) == [1, 2, 3, 4]
    await record(admin)
    await one.step()
    assert not folder.exists()


async def test_of_two_adopters_one_gets_it(client: Redis, admin: Redis, tmp_path: Path) -> None:
    await seed(admin)
    folder = await abandoned(tmp_path)
    one, two = replay(tmp_path, client), replay(tmp_path, client)
    await asyncio.gather(one.adopt(), two.adopt())
    await asyncio.gather(one.step(), two.step())
    assert await numbers(admin) == [1, 2, 3, 4]
    await record(admin)
    await asyncio.gather(one.step(), two.step())
    assert not folder.exists()


async def test_whoever_stops_before_it_is_recorded_leaves_it_to_the_next(
    client: Redis, admin: Redis, tmp_path: Path
) -> None:
    await seed(admin)
    folder = await abandoned(tmp_path)

    async def is_fed() -> bool:
        return len(await numbers(admin)) >= 4

    async with running(replay(tmp_path, client)):
        await until(is_fed, "four ends")
    assert len(await record(admin)) == 4
    async with running(replay(tmp_path, client)):
        await until(lambda: not folder.exists(), "the journal to go")
    assert await numbers(admin) == []


async def test_a_frozen_or_unseeded_store_only_delays(
    own_store: OwnStore, client: Redis, admin: Redis, tmp_path: Path
) -> None:
    await admin.ping()
    folder = await abandoned(tmp_path)
    own_store.freeze()

    async def is_fed() -> bool:
        return set(await numbers(admin)) == {1, 2, 3, 4}

    with capture_logs() as logs:
        async with running(replay(tmp_path, client)):
            await until(lambda: "state store unavailable" in str(logs), "the outage")
            own_store.thaw()
            await seed(admin)
            await until(is_fed, "four ends")
            await record(admin)
            await until(lambda: not folder.exists(), "the journal to go")


GATEWAY = """
import asyncio, sys
from pathlib import Path
from inference.journal import Journal
from tests.inference.facts import end, opening

async def main():
    journal = Journal.create(Path(sys.argv[1]), segment_bytes=20_000)
    number = 0
    while True:
        await asyncio.gather(*(journal.open(opening(number + n)) for n in range(5)))
        await asyncio.gather(*(journal.close(end(number + n)) for n in range(4)))
        number += 5
        print(number, flush=True)

asyncio.run(main())
"""

ADOPTER = """
import asyncio, sys
from pathlib import Path
from inference.events.replay import Replay
from inference.store import connect_store

async def main():
    client = connect_store(sys.argv[2])
    print("ready", flush=True)
    sys.stdin.readline()
    await Replay(Path(sys.argv[1]), client, scan_period_s=0.05, step_period_s=0.05).run()

asyncio.run(main())
"""


def killed_gateway(root: Path, after: int) -> None:
    """Kill a process in the middle of journalling."""
    command = (sys.executable, "-c", GATEWAY, str(root))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        while int(process.stdout.readline()) < after:
            pass
        process.send_signal(signal.SIGKILL)


@contextmanager
def racing_adopters(root: Path, url: str) -> Iterator[None]:
    """Two processes that adopt what they find, set off together."""
    command = (sys.executable, "-c", ADOPTER, str(root), url)
    with ExitStack() as stack:
        racers = []
        for _ in range(2):
            racer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            stack.enter_context(racer)
            stack.callback(racer.kill)
            racers.append(racer)
        for racer in racers:
            assert racer.stdout is not None
            assert racer.stdout.readline() == b"ready\n"
        for racer in racers:
            assert racer.stdin is not None
            racer.stdin.write(b"go\n")
            racer.stdin.flush()
        yield


@pytest.mark.fault
async def test_requests_of_a_killed_gateway_end_once_though_two_processes_race_for_them(
    own_store: OwnStore, admin: Redis, tmp_path: Path
) -> None:
    await seed(admin)
    root = tmp_path / "journals"
    killed_gateway(root, 200)
    [name] = os.listdir(root)
    remains = read_remains(root / name)
    assert len(remains.unended) >= 40
    ends: list[End] = []

    async def is_gone() -> bool:
        ends.extend(await record(admin))
        return os.listdir(root) == []

    with racing_adopters(root, own_store.url):
        await until(is_gone, "the journal to go")
    by_seq = {one.seq: one for one in ends}
    assert sorted(by_seq) == list(range(1, remains.seq + len(remains.unended) + 1))
    assert max(Counter(one.event_id for one in by_seq.values()).values()) == 1
    lost = {one.event_id for one in by_seq.values() if one.outcome is Outcome.LOST_GATEWAY}
    assert lost == {one[0].event_id for one in remains.unended}
    assert all(by_seq[one.seq] == one for one in ends)
