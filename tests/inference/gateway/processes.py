"""A gateway of real processes for tests: a parent, its children and a store of their own."""

import asyncio
import base64
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.codec import decode_end, decode_vitals
from inference.contract.events import End
from inference.contract.snapshot import GatewayRecord
from inference.contract.vitals import Vitals
from tests.inference.gateway.client import BASE, Call, Reply, request_bytes, send
from tests.inference.gateway.rig import PEPPERS, PRICE, TOKEN, key_record, pool_record
from tests.inference.publishing import DATA_KEY, KEYS_SECTION, ROUTE, build, publish
from tests.inference.stores import OwnStore, until
from tests.installation import free_port
from tests.upstream.fixtures import Upstream

SEEDED = {wire.LINEAGE: "L1", wire.SEEDED_AT: "1"}


@dataclass
class Running:
    """A parent under test; `lines` is what it and its children logged."""

    process: asyncio.subprocess.Process
    port: int
    admin_port: int
    lines: list[str] = field(default_factory=list)

    async def read_log(self) -> None:
        assert self.process.stderr is not None
        while line := await self.process.stderr.readline():
            self.lines.append(line.decode())

    def says(self, text: str, times: int = 1) -> bool:
        return sum(text in line for line in self.lines) >= times

    @property
    def children(self) -> list[int]:
        return list(map(int, _children_of(self.process.pid)))


def _children_of(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be reaped."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def environment(store: OwnStore, var: Path, port: int, admin_port: int) -> Mapping[str, str]:
    def text(key: bytes) -> str:
        return base64.urlsafe_b64encode(key).decode()

    return {
        **os.environ,
        "HEADWORKS_VAR": str(var),
        "HEADWORKS_STATE_URL": store.url,
        "HEADWORKS_DATA_KEY": text(DATA_KEY),
        "HEADWORKS_KEY_PEPPERS": ",".join(f"{n}:{text(key)}" for n, key in PEPPERS.items()),
        "HEADWORKS_GATEWAY_PORT": str(port),
        "HEADWORKS_GATEWAY_ADMIN_PORT": str(admin_port),
        "HEADWORKS_GATEWAY_ID": "gw-1",
        "HEADWORKS_OWN_PORTS": "",
    }


@asynccontextmanager
async def running_parent(store: OwnStore, var: Path) -> AsyncIterator[Running]:
    """A parent with two children, all gone at the end of the block."""
    port, admin_port = free_port(), free_port()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "inference", "gateway"),
        env=environment(store, var, port, admin_port),
        stderr=asyncio.subprocess.PIPE,
    )
    running = Running(process, port, admin_port)
    reader = asyncio.create_task(running.read_log())
    children: list[int] = []
    try:
        is_up = partial(running.says, "waiting for a configuration", 2)
        await until(is_up, "both children to run", within_s=60)
        children = running.children
        yield running
    finally:
        if process.returncode is None:
            children = running.children
            process.kill()
            await process.wait()
        for pid in filter(is_running, children):
            os.kill(pid, signal.SIGKILL)
        await reader
        sys.stderr.writelines(running.lines)


async def publish_route(
    admin: Redis, upstream: Upstream, version: int = 1, *gateways: GatewayRecord
) -> None:
    await admin.mset(SEEDED)
    changes: dict[str, Iterable[Any]] = {
        "prices": (PRICE,),
        "pools": (pool_record("a", upstream.base_url),),
        "routes": (replace(ROUTE, name="m"),),
        "gateways": gateways,
        KEYS_SECTION: (key_record(TOKEN),),
    }
    await publish(admin, build(version, **changes))


async def vitals_of(admin: Redis) -> list[Vitals]:
    keys = [key async for key in admin.scan_iter(match=f"{wire.VITALS_PREFIX}*")]
    records = await admin.mget(keys) if keys else []
    return sorted((decode_vitals(one) for one in records if one), key=lambda one: one.process)


async def ends_in(admin: Redis) -> list[End]:
    entries = await admin.xrange(wire.USAGE_STREAM)
    return [decode_end(fields[wire.USAGE_FIELD.encode()]) for _, fields in entries]


async def have_applied(admin: Redis, version: int, processes: int = 2) -> bool:
    vitals = await vitals_of(admin)
    return [one.applied.version for one in vitals] == [version] * processes


async def is_accepting(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except ConnectionRefusedError:
        return False
    writer.transport.abort()
    return True


async def asked_of_admin(gateway: Running, path: str) -> Reply:
    """What the parent's own port answers."""
    host = f"localhost:{gateway.admin_port}"
    request = request_bytes(None, path=path, method="GET", token=None, host=host)
    return await send(gateway.admin_port, request)


def counted(metrics: bytes, name: str) -> int:
    """All series of one counter, added up."""
    lines = (line.rpartition(" ") for line in metrics.decode().splitlines())
    return round(sum(float(value) for key, _, value in lines if key.partition("{")[0] == name))


@dataclass
class Caller:
    """Asks again and again until it is told to stop or the port is closed.

    One that `keeps` its connection uses it until an answer says that it was the last.
    """

    port: int
    keeps: bool
    answers: int = 0
    failures: list[str] = field(default_factory=list)
    is_refused: bool = False
    is_done: bool = False

    async def run(self) -> None:
        while not (self.is_done or self.is_refused):
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            except OSError:
                self.is_refused = True
                return
            try:
                await self._ask_on(Call(reader, writer))
            except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
                self.failures.append(f"{'kept' if self.keeps else 'new'}: {error!r}")
            finally:
                writer.transport.abort()

    async def _ask_on(self, call: Call) -> None:
        request = request_bytes(json.dumps(BASE).encode())
        while not self.is_done:
            call.writer.write(request)
            call.body = b""
            await call.read_head()
            reply = await call.read_rest()
            if not (reply.is_whole and reply.status == 200):
                self.failures.append(f"{reply.status} {reply.body!r}")
            self.answers += 1
            if not self.keeps or reply.headers.get("connection") == "close":
                return


@asynccontextmanager
async def calling(gateway: Running) -> AsyncIterator[list[Caller]]:
    """Callers of both habits; all have ended after the block."""
    callers = [Caller(gateway.port, keeps) for keeps in (True, False) for _ in range(3)]
    tasks = [asyncio.create_task(caller.run()) for caller in callers]
    try:
        yield callers
    finally:
        for caller in callers:
            caller.is_done = True
        await asyncio.gather(*tasks)
