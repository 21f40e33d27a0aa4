"""This project's gateway as it is installed: a parent, one serving process, store and snapshot."""

import base64
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Thread
from types import MappingProxyType
from typing import Any

from redis import Redis
from redis.exceptions import RedisError

from benchmarks.gateway.processes import free_ports, pinned, wait_for
from controlplane.local.valkey import DATA, find_binary, state_rules
from inference.contract import wire
from inference.contract.codec import decode_end, encode_manifest, encode_section
from inference.contract.kinds import (
    Backend,
    BudgetPeriod,
    BudgetSubject,
    Enforcement,
    LimitSubject,
    LimitUnit,
    LimitWindow,
    Provisioner,
    Strategy,
)
from inference.contract.sealing import content_digest, key_bucket, seal, token_digest
from inference.contract.snapshot import (
    BudgetRecord,
    BudgetScope,
    KeyDigest,
    KeyRecord,
    LimitRecord,
    Manifest,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    PriceRecord,
    RouteRecord,
    TargetRecord,
)

ROOT = Path(__file__).parents[2]
MODEL = "my-alias"
KEYS = 1_000
ACCEPTING = b"accepting requests"

DATA_KEY = os.urandom(32)
_PEPPER = os.urandom(32)
_PASSWORD = "benchmark"
_RECORD_S = 0.2


Changes = Mapping[str, tuple[object, ...]]
"""Whole sections of the configuration that take the place of others."""

NO_CHANGES: Changes = MappingProxyType({})

_AMPLE = 10**15
_BUDGETED = (
    BudgetSubject.ORGANISATION,
    BudgetSubject.TEAM,
    BudgetSubject.PROJECT,
    BudgetSubject.KEY,
    BudgetSubject.MODEL,
)
RESERVING: Changes = {
    "budgets": tuple(
        BudgetRecord(
            f"bud_{subject.value}", "org_a", subject.value, (BudgetScope(subject),), _AMPLE,
            BudgetPeriod.MONTH,
        )
        for subject in _BUDGETED
    ),
    "limits": (
        LimitRecord(
            "lim_requests", "org_a", "requests", LimitSubject.KEY, LimitUnit.REQUESTS, _AMPLE,
            window=LimitWindow.MINUTE, enforcement=Enforcement.STRICT,
        ),
        LimitRecord(
            "lim_tokens", "org_a", "tokens", LimitSubject.KEY, LimitUnit.TOTAL_TOKENS, _AMPLE,
            window=LimitWindow.MINUTE,
        ),
        LimitRecord(
            "lim_parallel", "org_a", "parallel", LimitSubject.ORGANISATION, LimitUnit.PARALLEL,
            100_000,
        ),
    ),
}  # fmt: skip
"""Five budgets that block and three limits, all with room for every request, bear on each."""


def tokens_of(count: int) -> tuple[str, ...]:
    """So many keys, of which `TOKEN` is one."""
    return tuple(f"hw_{number:026d}.secret-of-a-key" for number in range(count))


_TOKENS = tokens_of(KEYS)

TOKEN = _TOKENS[KEYS // 2]


@contextmanager
def gateway(
    port: int,
    workers: Sequence[int],
    folder: Path,
    *,
    core: str,
    store_core: str,
    root: Path = ROOT,
    processes: int = 1,
    changes: Changes = NO_CHANGES,
) -> Iterator[int]:
    """Run it from the tree at `root`; yields the parent's process id."""
    folder.mkdir()
    with store(folder, core=store_core) as path, recording(path) as admin:
        publish(admin, workers, changes=changes)
        with running(port, path, folder, core=core, root=root, processes=processes) as pid:
            log = folder / "gateway.log"
            wait_for(lambda: log.read_bytes().count(ACCEPTING) == processes, "the gateway")
            if "budgets" in changes:
                seed_budgets(admin)
            yield pid


def seed_budgets(admin: "Redis[bytes]") -> None:
    """Say that nothing was spent yet, as the jobs would: until then a budget can't be checked."""
    wait_for(lambda: admin.get(wire.LIMITS_EPOCH) is not None, "the store's epoch")
    admin.set(wire.BUDGETS_SEEDED, admin.get(wire.LIMITS_EPOCH) or b"")


def running(
    port: int, store: Path, folder: Path, *, core: str, root: Path = ROOT, processes: int = 1
) -> AbstractContextManager[int]:
    """A gateway on a store; it logs `ACCEPTING` once a process to `gateway.log`."""
    command = (sys.executable, "-m", "inference", "gateway")
    environment = _environment(folder, store, port, processes)
    log = folder / "gateway.log"
    return pinned(command, core=core, log=log, environment=environment, folder=root)


@contextmanager
def store(folder: Path, *, core: str) -> Iterator[Path]:
    """A state store of its own; yields its socket."""
    path = folder / "store.sock"
    command = (find_binary(), "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder)
    with pinned(command, core=core, log=folder / "store.log"):
        with Redis.from_url(f"unix://{path}?db=0") as admin:
            wait_for(lambda: _has_user(admin), "the state store")
        yield path


@contextmanager
def recording(path: Path) -> Iterator["Redis[bytes]"]:
    """Take events out of the stream like a recorder, which would go without a database here.

    Without one, the gateway would stop feeding the stream once it is full, and look faster.
    """
    is_over = Event()

    def follow() -> None:
        with Redis.from_url(f"unix://{path}?db=0") as own:
            while not is_over.wait(_RECORD_S):
                for _, fields in own.xrevrange(wire.USAGE_STREAM, count=1):
                    end = decode_end(fields[wire.USAGE_FIELD.encode()])
                    own.hset(wire.JOURNAL_MARKS, end.journal, end.seq)
                own.xtrim(wire.USAGE_STREAM, maxlen=0, approximate=False)

    recorder = Thread(target=follow)
    with Redis.from_url(f"unix://{path}?db=0") as admin:
        recorder.start()
        try:
            yield admin
        finally:
            is_over.set()
            recorder.join()


def publish(
    admin: "Redis[bytes]",
    workers: Sequence[int],
    *,
    version: int = 1,
    tokens: Sequence[str] = _TOKENS,
    routes: int = 1,
    changes: Changes = NO_CHANGES,
) -> None:
    """Write a configuration of routes over one pool of these ports, and keys to choose from.

    In each version every route and every key is another; `changes` are whole sections in place of
    these. Who runs hears of it at once.
    """
    admin.mset({wire.LINEAGE: "L1", wire.SEEDED_AT: "1"})
    digests = {}
    for name, records in {**_records(workers, version, tokens, routes), **changes}.items():
        payload = encode_section(records)
        digests[name] = content_digest(payload)
        admin.set(wire.section_key(digests[name]), seal(DATA_KEY, payload))
    manifest = Manifest("L1", version, digests, 0.0)
    sealed = seal(DATA_KEY, encode_manifest(manifest))
    fields: Mapping[Any, Any] = {"lineage": "L1", "version": version, "sealed": sealed}
    admin.hset(wire.MANIFEST, mapping=fields)
    admin.publish(wire.SNAPSHOT_CHANGED, str(version))


def routes_over(workers: Sequence[int]) -> Sequence[RouteRecord]:
    """The routes of a configuration that is published, to be changed."""
    return _records(workers, 1, (), 1)["routes"]  # type: ignore[return-value]


def _records(
    workers: Sequence[int], version: int, tokens: Sequence[str], routes: int
) -> dict[str, tuple[object, ...]]:
    addresses = tuple(f"http://127.0.0.1:{port}/v1" for port in workers)
    pool = PoolRecord(
        "pool_a", "org_a", "a", "mdl_a", Provisioner.STATIC, Backend.VLLM, "real-model",
        addresses=addresses,
    )  # fmt: skip
    target = TargetRecord("tgt_a", "pool_a", 1)
    route = RouteRecord(
        "rt_a",
        "org_a",
        MODEL,
        (target,),
        strategy=Strategy.LEAST_WORK,
        total_timeout_ms=600_000 + version,
    )
    others = [replace(route, id=f"rt_{one}", name=f"{MODEL}-{one}") for one in range(1, routes)]
    sections: dict[str, tuple[object, ...]] = {
        "organisations": (OrganisationRecord("org_a", "Water"),),
        "models": (ModelRecord("mdl_a", "org_a", "real-model", max_context_tokens=32_768),),
        "prices": (PriceRecord("prc_a", "org_a", "mdl_a", 300_000_000, 900_000_000),),
        "pools": (pool,),
        "routes": (route, *others),
    }
    for token in tokens:
        key_id = token.removeprefix("hw_").partition(".")[0]
        digest = KeyDigest(1, token_digest(_PEPPER, token))
        tags = (f"v{version}",)
        record = KeyRecord(key_id, "org_a", "team_a", "proj_a", (digest,), tags=tags)
        section = wire.key_section(key_bucket(key_id))
        sections[section] = (*sections.get(section, ()), record)
    return sections


def _environment(folder: Path, socket: Path, port: int, processes: int) -> dict[str, str]:
    def text(key: bytes) -> str:
        return base64.urlsafe_b64encode(key).decode()

    return {
        **os.environ,
        "HEADWORKS_VAR": str(folder / "var"),
        "HEADWORKS_STATE_URL": f"unix://{DATA}:{_PASSWORD}@{socket}?db=0",
        "HEADWORKS_DATA_KEY": text(DATA_KEY),
        "HEADWORKS_KEY_PEPPERS": f"1:{text(_PEPPER)}",
        "HEADWORKS_GATEWAY_PORT": str(port),
        "HEADWORKS_GATEWAY_ADMIN_PORT": str(free_ports(1)),
        "HEADWORKS_GATEWAY_ID": "benchmark",
        "HEADWORKS_GATEWAY_PROCESSES": str(processes),
        "HEADWORKS_OWN_PORTS": "",
    }


def _has_user(admin: "Redis[bytes]") -> bool:
    rules = state_rules(DATA).split()
    try:
        admin.execute_command("ACL", "SETUSER", DATA, "on", f">{_PASSWORD}", *rules)
    except RedisError:
        return False
    return True
