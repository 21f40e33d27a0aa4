"""Two gateways of two processes each in front of one installation, and what must hold of them."""

import json
import os
import shutil
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.faults.link import Link
from tests.faults.streams import Stream
from tests.installation import ROOT, SOON_S, Installation, call, free_port, processes_of, wait_until
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

SECOND = "gw-second"
STREAMS = 20
WORDS = 20
GAP_MS = 100.0
LONG = Behaviour(text=" ".join(["one"] * WORDS), gap_ms=GAP_MS)
JOBS = ("celery", "worker")
ROLES = (
    *(("uvicorn",), JOBS, ("record_usage",), ("run_feed",)),
    *(("inference pools",), ("inference gateway ",), ("gateway-child",), ("guardian",)),
)
"""What runs for an installation, by words of its command line."""


def environment_of(pid: int) -> dict[str, str]:
    """What a process was started with."""
    pairs = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)


def parent_of(pid: int) -> int | None:
    """Who started a process, or has it now; None if it is gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return None


def descendants(pid: int) -> list[int]:
    """A process and all it started, the parents first."""
    found = [pid]
    for one in found:
        with suppress(FileNotFoundError):
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
    return found


@dataclass(frozen=True)
class Gateway:
    """One gateway: where it answers, and where it and its processes lie on disk."""

    name: str
    var: Path
    url: str
    admin_url: str
    key: str = field(repr=False)

    def debug(self) -> Any:
        """What its admin port tells of every process."""
        with urllib.request.urlopen(f"{self.admin_url}/debug", timeout=SOON_S) as answer:
            return json.load(answer)

    @property
    def children(self) -> list[int]:
        return sorted(pid for pid, line in processes_of(self.var).items() if "-child" in line)

    def held(self) -> int:
        """Requests and prompt tokens that it counts at its workers; -1 while it can't be told."""
        vitals = [one["vitals"] for one in self.debug()["processes"]]
        if not vitals or None in vitals:
            return -1
        return sum(
            sum(one["inflight"].values()) + sum(one.get("prefill_tokens", {}).values())
            for one in vitals
        )

    def lost(self) -> int:
        """Openings and ends of its requests that could not be written."""
        return sum(one["vitals"]["events_lost_total"] for one in self.debug()["processes"])

    def backlog(self) -> int:
        """Ends in its journals that the stream hasn't been given."""
        return sum(one["vitals"]["journal_backlog"] for one in self.debug()["processes"])

    def applied(self) -> set[int | None]:
        """The versions of the configuration its processes run on."""
        told = (one["vitals"] for one in self.debug()["processes"])
        return {None if one is None else one["applied"]["version"] for one in told}

    def chat(self, **fields: object) -> tuple[int, str, Any]:
        """Ask for a short answer: the status, the request's id and the document."""
        body = {"model": "chat", "messages": [{"role": "user", "content": "ping"}], **fields}
        try:
            answer = call("POST", f"{self.url}/v1/chat/completions", self.key, body)
        except urllib.error.HTTPError as refusal:
            answer = refusal
        with answer:
            return answer.status, answer.headers["x-request-id"], json.load(answer)


def have_begun(streams: Sequence[Stream]) -> bool:
    """Whether each has content."""
    return all(one.has_begun for one in streams)


@dataclass
class Fleet:
    """An installation, its own gateway and a second one with a folder and a link of its own.

    Every request a test makes is kept, and every ledger row that is there before.
    """

    installation: Installation
    upstream: Upstream
    gateways: tuple[Gateway, Gateway]
    link: Link
    known: set[str] = field(default_factory=set)

    def find(self, *words: str) -> list[int]:
        """Pids of all processes of the fleet with these words in their command line."""
        folders = {gateway.var for gateway in self.gateways}
        lines = {pid: line for var in folders for pid, line in processes_of(var).items()}
        return sorted(pid for pid, line in lines.items() if all(word in line for word in words))

    def processes(self) -> Mapping[tuple[str, ...], list[int]]:
        """The pids of every role; of the jobs' that of the worker alone.

        One of its own processes is ended, and another started, if a task was under way in it when
        the broker was lost.
        """
        found = {words: self.find(*words) for words in ROLES}
        jobs = found[JOBS]
        return found | {JOBS: [pid for pid in jobs if parent_of(pid) not in jobs]}

    def service(self, name: str) -> list[int]:
        """The pids of a database or store of the launcher: the server, then its children."""
        record = self.installation.var / "run" / "groups" / f"{name}.json"
        return descendants(json.loads(record.read_text())["pid"])

    @contextmanager
    def stopped(self, pids: Sequence[int]) -> Iterator[None]:
        """These stand still inside the block."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """The second gateway has no way to the state store inside the block."""
        self.link.cut()
        try:
            yield
        finally:
            self.link.mend()

    def kill(self, *words: str) -> list[int]:
        """Kill all processes with these words; their pids."""
        pids = self.find(*words)
        assert pids, f"nothing runs with {words}"
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        return pids

    def renew(self, gateway: Gateway) -> None:
        """Have a gateway's processes replaced, so that none remembers what was done to it.

        What they left open is in the ledger afterwards.
        """
        before = gateway.children
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not set(before) & set(gateway.children), SOON_S, "them to be gone")
        wait_until(lambda: is_ready(gateway), SOON_S, f"{gateway.name} to take requests")
        journals = gateway.var / "journals"
        wait_until(lambda: len(list(journals.glob("jnl_*"))) == len(before), SOON_S, "its books")

    def take_stock(self) -> None:
        """Wait until both gateways serve and the ledger has everything, and remember its rows."""
        self.upstream.play(Behaviour())
        for gateway in self.gateways:
            asked = wait_until(lambda one=gateway: served(one), SOON_S, f"{gateway.name} to serve")
            self.installation.wait_for_request(asked, SOON_S)
        self.known |= set(self.rows())

    def rows(self) -> dict[str, Any]:
        """The ledger's rows since the test began, by the request's id; none while it is down."""
        try:
            found = self.installation.api("GET", "/requests/?page_size=200")["results"]
        except urllib.error.HTTPError as refusal:
            refusal.close()
            return {}
        ids = Counter(str(row["id"]) for row in found)
        assert set(ids.values()) <= {1}
        return {str(row["id"]): row for row in found if row["id"] not in self.known}

    def coverage(self) -> tuple[int, int, list[str]]:
        """How many gateways report, of how many, and who does not."""
        told = self.installation.api("GET", "/live/")["coverage"]
        return told["live"], told["seen"], told["missing"]

    def change_route(self, **changes: object) -> None:
        """Edit the demo's route, which makes a new version of the configuration."""
        routes = self.installation.api("GET", "/routes/")["results"]
        (route,) = [one for one in routes if one["name"] == "chat"]
        self.installation.api("PATCH", f"/routes/{route['id']}/", changes)

    @contextmanager
    def under_load(
        self,
        *,
        restarted: Collection[tuple[str, ...]] = (),
        model: str = "chat",
        is_running: Callable[[Sequence[Stream]], bool] = have_begun,
    ) -> Iterator[Sequence[Stream]]:
        """Twenty streams run on both gateways inside the block; afterwards the fleet is well.

        The block says what is to become of the streams by looking at them once it has done its
        harm. Roles that are not named as restarted have the processes they had.
        """
        self.upstream.play(LONG)
        before = self.processes()
        urls = islice(cycle(gateway.url for gateway in self.gateways), STREAMS)
        streams = [Stream(url, self.gateways[0].key, model) for url in urls]
        wait_until(lambda: is_running(streams), SOON_S, "all streams to run")
        yield streams
        for one in streams:
            one.wait()
        self.upstream.play(Behaviour())
        self.check(before, restarted)

    def check(
        self, before: Mapping[tuple[str, ...], list[int]], restarted: Collection[tuple[str, ...]]
    ) -> None:
        """Nothing is held, nothing was lost, nothing is left over, and all that must run runs."""
        for gateway in self.gateways:
            wait_until(lambda one=gateway: one.held() == 0, SOON_S, f"{gateway.name} to let go")
        self.upstream.wait_for(lambda report: report.open_calls == 0, SOON_S)

        def is_whole() -> bool:
            now = self.processes()
            return {words: len(pids) for words, pids in now.items()} == {
                words: len(pids) for words, pids in before.items()
            }

        wait_until(is_whole, SOON_S, "as many processes of each role as before")
        now = self.processes()
        changed = {words for words in before if now[words] != before[words]}
        assert changed == set(restarted)

    def settle(self, expected: Mapping[str, str]) -> Mapping[str, Any]:
        """Wait until the ledger has these requests and no other, by id with their outcomes.

        A stream that came through in one attempt has the tokens it was sent. No journal has an end
        that the ledger misses.
        """
        wait_until(lambda: set(self.rows()) >= set(expected), SOON_S, "a row for every request")
        rows = self.rows()
        told = {name: row["outcome"] for name, row in rows.items()}
        assert told == dict(expected), dict(told.items() ^ expected.items())
        counted = {
            row["completion_tokens"]
            for row in rows.values()
            if row["is_stream"] and row["outcome"] == "ok" and row["attempts"] == 1
        }
        assert counted <= {WORDS}
        wait_until(self.has_all, SOON_S, "journals without a rest, and a ledger without a gap")
        return rows

    def has_all(self) -> bool:
        """Whether every end in a journal was fed, and the recorder knows of none it misses."""
        parts = self.installation.api("GET", "/system/")["parts"]
        (recorder,) = [part for part in parts if part["name"] == "recorder"]
        backlog = sum(gateway.backlog() for gateway in self.gateways)
        return (backlog, recorder["facts"]["missing_events"]) == (0, 0)


def served(gateway: Gateway) -> str | None:
    """The id of a short request that was answered, or None if none was."""
    with suppress(OSError):
        status, event_id, _ = gateway.chat()
        return event_id if status == 200 else None
    return None


def ask_all(fleet: Fleet) -> dict[str, str]:
    """A new request to each gateway, which is served; what the ledger is going to say of them."""
    answers = [gateway.chat() for gateway in fleet.gateways]
    assert [status for status, _, _ in answers] == [200, 200]
    return {event_id: "ok" for _, event_id, _ in answers}


def all_ok(streams: Sequence[Stream]) -> dict[str, str]:
    """What the ledger says of streams that all came through."""
    assert all(one.is_whole for one in streams)
    return {one.event_id: "ok" for one in streams}


@contextmanager
def second_gateway(
    installation: Installation, folder: Path, *, name: str = SECOND, **changes: str
) -> Iterator[tuple[Gateway, Link]]:
    """Another gateway of two processes with a folder of its own, all gone after the block."""
    told = environment_of(installation.find("inference", "gateway-child")[0])
    state = urlsplit(told["HEADWORKS_STATE_URL"])
    link = Link(folder.with_suffix(".sock"), Path(state.path))
    port, admin_port = free_port(), free_port()
    credentials = state.netloc
    environment = {
        **told,
        "HEADWORKS_VAR": str(folder),
        "HEADWORKS_STATE_URL": f"unix://{credentials}{link.path}?{state.query}",
        "HEADWORKS_GATEWAY_ID": name,
        "HEADWORKS_GATEWAY_PORT": str(port),
        "HEADWORKS_GATEWAY_ADMIN_PORT": str(admin_port),
        "HEADWORKS_GATEWAY_PROCESSES": "2",
        **changes,
    }
    folder.mkdir(exist_ok=True)
    parent = subprocess.Popen(
        [sys.executable, "-m", "inference", "gateway"],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    where = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{admin_port}"
    gateway = Gateway(name, folder, *where, installation.demo["API_KEY"])
    try:
        wait_until(lambda: is_ready(gateway), SOON_S, f"{name} to take requests")
        yield gateway, link
    finally:
        for pid in descendants(parent.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        parent.terminate()
        parent.wait(SOON_S)
        wait_until(lambda: not processes_of(folder), 10, f"{name} to end")
        link.cut()


def is_ready(gateway: Gateway) -> bool:
    """Whether two processes accept requests."""
    try:
        facts = gateway.debug()["processes"]
    except OSError:
        return False
    return sum(one["is_accepting"] for one in facts) == 2


@contextmanager
def small_disk(folder: Path, size: str = "8m") -> Iterator[Path]:
    """A folder on a disk of its own that is soon full; only root can make one."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    try:
        yield folder
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "-l", str(folder)], check=True)
        shutil.rmtree(folder, ignore_errors=True)
