"""The viewers of `benchmarks.viewers`: started by it, with the services' addresses about it."""

import asyncio
import json
import logging
import os
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
django.setup()

from django.conf import settings  # noqa: E402
from django.test import Client  # noqa: E402
from redis import Redis  # noqa: E402
from websockets.asyncio.client import connect  # noqa: E402
from websockets.exceptions import ConnectionClosed, InvalidHandshake  # noqa: E402

from controlplane.models import Organisation, Role  # noqa: E402
from controlplane.services.actors import Via, system_actor  # noqa: E402
from controlplane.services.organisations import create_organisation  # noqa: E402
from controlplane.services.pools import create_pool  # noqa: E402
from controlplane.services.users import create_user, grant_role  # noqa: E402
from tests.dashboards.living import LivingFleet  # noqa: E402

_TICKS = os.sysconf("SC_CLK_TCK")
_POOLS = 3
_SETTLE_S = 5.0
_OPENED_A_SECOND = 10
_AGAIN_S = 0.5


@dataclass
class Viewer:
    """One open page: what it heard, what it missed, and how old the figures were on arrival."""

    page: str
    query: str
    cookie: str
    last: tuple[str, int] | None = None
    messages: int = 0
    gaps: int = 0
    rereads: int = 0
    closes: int = 0
    size: int = 0
    ages_ms: list[float] = field(default_factory=list)


def cpu_s(pid: int) -> float:
    """Seconds of CPU a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def make_world(viewers: int) -> tuple[Organisation, Sequence[str], Sequence[Viewer]]:
    """An organisation with pools, and signed-in viewers of it."""
    actor = system_actor("benchmark", via=Via.COMMAND)
    organisation = create_organisation(actor, name="Nordhavn")
    pools = [
        create_pool(
            actor,
            organisation=organisation,
            name=f"pool-{number}",
            model=f"model-{number}",
            provisioner="static",
            addresses=[f"http://127.0.0.1:{9_000 + number}/v1"],
        ).pk
        for number in range(_POOLS)
    ]
    user = create_user(actor, username="mira", password="a-long-enough-passphrase-4")
    grant_role(actor, subject=user, organisation=organisation, role=Role.VIEWER)
    made = []
    for number in range(viewers):
        client = Client()
        client.force_login(user)
        name = settings.SESSION_COOKIE_NAME
        cookie = f"{name}={client.cookies[name].value}"
        query = {"organisation": organisation.pk, "window": "15m"}
        page = "overview" if number % 2 else "pool"
        if page == "pool":
            query["pool"] = pools[number // 2 % _POOLS]
        made.append(Viewer(page, urlencode(query), cookie))
    return organisation, pools, made


def read_document(viewer: Viewer, port: int) -> None:
    address = f"http://127.0.0.1:{port}/live/{viewer.page}/?{viewer.query}"
    with urlopen(Request(address, headers={"Cookie": viewer.cookie}), timeout=30) as answer:
        assert json.loads(answer.read())["panels"]


async def hear(viewer: Viewer, text: str, port: int, *, is_counted: bool) -> None:
    """Take one message; read the document again if one before it is missing."""
    arrived, message = time.time(), json.loads(text)
    number = (message["epoch"], message["seq"])
    is_gap = viewer.last is not None and number != (viewer.last[0], viewer.last[1] + 1)
    viewer.last = number
    if is_counted:
        viewer.messages += 1
        viewer.size += len(text)
        viewer.ages_ms.append((arrived - message["as_of"]) * 1_000)
    if is_gap:
        viewer.gaps += 1
        await asyncio.to_thread(read_document, viewer, port)
        viewer.rereads += 1


async def watch(viewer: Viewer, port: int, since: float, until: float) -> None:
    """Keep one page open until the end, and open it again if its socket closes."""
    address = f"ws://127.0.0.1:{port}/ws/live/{viewer.page}/?{viewer.query}"
    while time.time() < until:
        await asyncio.to_thread(read_document, viewer, port)
        headers = {"Cookie": viewer.cookie}
        try:
            async with connect(
                address, origin=f"http://127.0.0.1:{port}", additional_headers=headers
            ) as opened:
                while (left := until - time.time()) > 0:
                    text = await asyncio.wait_for(opened.recv(), left)
                    await hear(viewer, str(text), port, is_counted=time.time() >= since)
        except TimeoutError:
            return
        except (ConnectionClosed, InvalidHandshake, OSError):
            viewer.closes += 1 if time.time() >= since else 0
            viewer.last = None
            await asyncio.sleep(_AGAIN_S)


async def run(
    viewers: Sequence[Viewer], port: int, seconds: int, pids: Mapping[str, int]
) -> Mapping[str, float]:
    """All viewers at once; the CPU each process used while they were counted, in cores."""
    settle_s = _SETTLE_S + 2 * len(viewers) / _OPENED_A_SECOND
    since = time.time() + settle_s
    async with asyncio.TaskGroup() as group:
        for viewer in viewers:
            group.create_task(watch(viewer, port, since, since + seconds))
            await asyncio.sleep(1 / _OPENED_A_SECOND)
        await asyncio.sleep(since - time.time())
        before = {name: cpu_s(pid) for name, pid in pids.items()}
        await asyncio.sleep(seconds)
        used = {name: cpu_s(pid) - before[name] for name, pid in pids.items()}
    return {name: value / seconds for name, value in used.items()}


def report(viewers: Sequence[Viewer], seconds: int, cores: Mapping[str, float]) -> None:
    ages = sorted(age for viewer in viewers for age in viewer.ages_ms)
    messages = sum(viewer.messages for viewer in viewers)
    cuts = statistics.quantiles(ages, n=100)
    print(f"{len(viewers)} viewers, {seconds} s")
    print(f"messages {messages:,} of {len(viewers) * seconds:,}")
    print(f"gaps {sum(one.gaps for one in viewers)}, re-reads {sum(v.rereads for v in viewers)}")
    print(f"sockets closed early {sum(viewer.closes for viewer in viewers)}")
    print(f"from sample to viewer: p50 {cuts[49]:.0f} ms, p99 {cuts[98]:.0f} ms")
    print(f"message {sum(viewer.size for viewer in viewers) / messages / 1_000:.1f} kB")
    print(", ".join(f"{name} {value:.2f} cores" for name, value in cores.items()))


def main() -> None:
    count, seconds, port, console, feed = map(int, sys.argv[1:])
    logging.disable(logging.INFO)
    organisation, pools, viewers = make_world(count)
    with Redis.from_url(os.environ["HEADWORKS_STATE_URL"]) as store:
        fleet = LivingFleet(store, organisation.pk, pools)
        fleet.remember(900)
        with fleet.living():
            pids = {"console": console, "feed": feed}
            cores = asyncio.run(run(viewers, port, seconds, pids))
    report(viewers, seconds, cores)


if __name__ == "__main__":
    main()
