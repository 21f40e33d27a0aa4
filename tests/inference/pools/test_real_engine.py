"""vLLM itself, under the supervisor as in production: minutes, and 4 GB of memory."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from redis.asyncio import Redis

from controlplane.local.engine import find_engine
from inference.contract.fleet import WorkerEntry
from inference.contract.kinds import PoolPower, Task, WorkerState
from inference.contract.params import ENGINE_ARGUMENTS
from inference.contract.sealing import worker_key
from inference.contract.snapshot import ModelRecord
from inference.decisions.lifecycle import Presence
from inference.pools.groups import members_of, presence_of
from inference.pools.supervisor import read_vitals
from tests.inference.pools.engines import DATA_KEY, POOL, records_of
from tests.inference.pools.processes import WORKER, PoolsProcesses
from tests.inference.stores import OwnStore, until

pytestmark = pytest.mark.engine

START_S = 400.0
TOKENS = 200
ENGINE_BYTES = 1 << 30
"""Server and engine together hold at least this."""
REAL = replace(
    POOL,
    engine_arguments={
        "dtype": "bfloat16",
        "enforce_eager": True,
        "max_model_len": 2048,
        "max_num_seqs": 64,
    },
)
LIST_FLAGS = """
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
print(*(option for action in parser._actions for option in action.option_strings))
"""


@pytest.fixture
def engine_python() -> Path:
    """The engine's Python: the one the settings name, or what `make engine-environment` built."""
    given = os.environ.get("HEADWORKS_ENGINE_PYTHON")
    return Path(given) if given else find_engine(os.environ).python


@pytest.fixture
def models() -> Path:
    given = os.environ.get("HEADWORKS_MODELS")
    return Path(given) if given else find_engine(os.environ).models


@pytest.fixture
def pools(
    own_store: OwnStore, admin: Redis, tmp_path: Path, engine_python: Path, models: Path
) -> Iterator[PoolsProcesses]:
    made = PoolsProcesses(
        own_store, admin, tmp_path / "var", engine_python, models, patience_s=START_S
    )
    made.start()
    yield made
    made.end_all()


def client_of(entry: WorkerEntry) -> httpx.AsyncClient:
    key = worker_key(DATA_KEY, WORKER)
    headers = {"authorization": f"Bearer {key}"}
    return httpx.AsyncClient(base_url=entry.base_url, headers=headers, timeout=60, trust_env=False)


def chat(**fields: object) -> dict[str, object]:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    return {"model": "smol", "messages": messages, "temperature": 0, **fields}


def listening_addresses(pids: tuple[int, ...]) -> set[str]:
    """Local addresses, in the kernel's hexadecimal, of TCP sockets these processes listen on."""
    inodes = {
        os.readlink(link)
        for pid in pids
        for link in Path(f"/proc/{pid}/fd").iterdir()
        if link.is_symlink()
    }
    tables = (Path("/proc/net", name).read_text() for name in ("tcp", "tcp6"))
    rows = [line.split() for table in tables for line in table.splitlines()]
    return {
        row[1].partition(":")[0]
        for row in rows
        if row[3] == "0A" and f"socket:[{row[9]}]" in inodes
    }


async def test_a_real_engine_serves_and_is_adopted_and_drained(pools: PoolsProcesses) -> None:
    await pools.want(REAL)
    entry = await pools.wait_ready()
    first = pools.record
    async with client_of(entry) as client:
        answer = (await client.post("/chat/completions", json=chat(max_tokens=20))).json()
        assert "Paris" in answer["choices"][0]["message"]["content"]
        refused = await client.get("/models", headers={"authorization": "Bearer wrong"})
        assert refused.status_code == 401
    members = members_of(first.pid)
    assert len(members) > 1
    assert listening_addresses(members) == {"0100007F"}
    assert worker_key(DATA_KEY, WORKER) not in command_lines(members)
    await check_gauges(pools, entry)

    pools.end(signal.SIGKILL)
    pools.start()
    await until(lambda: has_new_leader(pools), "the next leader")
    adopted = await pools.entry()
    assert adopted is not None
    assert (adopted.state, adopted.restarts) == (WorkerState.READY, 0)
    assert pools.record == first
    await check_drain(pools, adopted)


async def check_gauges(pools: PoolsProcesses, entry: WorkerEntry) -> None:
    """While a stream runs, the supervisor's vitals say how busy the engine is."""
    body = chat(max_tokens=1_500, stream=True, ignore_eos=True)
    async with (
        client_of(entry) as client,
        client.stream("POST", "/chat/completions", json=body) as answer,
    ):
        assert answer.status_code == 200
        await until(lambda: shows_work(pools), "a busy engine in the vitals", within_s=60)


async def shows_work(pools: PoolsProcesses) -> bool:
    gauges = [one for vitals in await read_vitals(pools.admin) for one in vitals.workers]
    return any(
        one.running is not None
        and one.running >= 1
        and one.waiting is not None
        and one.kv_used is not None
        and one.utilisation is not None
        and one.utilisation > 0
        and one.memory_bytes is not None
        and one.memory_bytes > ENGINE_BYTES
        for one in gauges
    )


async def test_a_real_embedding_engine_proves_itself_with_an_embedding(
    pools: PoolsProcesses,
) -> None:
    pool = replace(REAL, model_source="all-minilm-l6-v2", engine_arguments={"max_model_len": 256})
    await pools.want(pool, model=ModelRecord("mdl_a", "org_a", "minilm", Task.EMBED))
    entry = await pools.wait_ready()
    async with client_of(entry) as client:
        answer = await client.post("/embeddings", json={"model": "smol", "input": "water"})
    assert len(answer.json()["data"][0]["embedding"]) == 384


async def has_new_leader(pools: PoolsProcesses) -> bool:
    return await pools.fencing_token() > 1


async def check_drain(pools: PoolsProcesses, entry: WorkerEntry) -> None:
    """A pool that is stopped lets its running stream finish, then nothing is left."""
    group = pools.record
    body = chat(max_tokens=TOKENS, stream=True, ignore_eos=True)
    lines = []
    async with client_of(entry) as client:
        async with client.stream("POST", "/chat/completions", json=body) as answer:
            async for line in answer.aiter_lines():
                if not lines:
                    await pools.want(replace(REAL, power=PoolPower.STOPPED))
                lines.append(line)
    frames = [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
    assert "data: [DONE]" in lines
    assert len([one for one in frames if one["choices"][0]["delta"].get("content")]) > TOKENS / 2
    await pools.wait_for(lambda one: one is None, "no worker")
    assert presence_of(group) is Presence.GONE
    assert records_of(pools.var) == ()


def command_lines(pids: tuple[int, ...]) -> str:
    return "".join(Path(f"/proc/{pid}/cmdline").read_text() for pid in pids)


def test_the_engine_knows_every_argument_that_may_be_set(engine_python: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    listed = subprocess.run(
        [engine_python, "-c", LIST_FLAGS],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=START_S,
    )
    flags = {argument.flag for argument in ENGINE_ARGUMENTS.values()}
    others = {"--shutdown-timeout", "--allowed-media-domains", "--served-model-name", "--model"}
    assert (flags | others) - set(listed.stdout.split()) == set()
