"""Servers that are not ours: what they are asked, and what their answers mean."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from inference.contract.kinds import Backend, Provisioner, Task
from inference.contract.sealing import encrypt
from inference.contract.snapshot import PoolRecord
from inference.pools.probes import ProbeClient
from inference.pools.provisioners.static import StaticProvisioner, trouble_of
from tests.inference.pools.engines import DATA_KEY, POOL, host_for, seen, started
from tests.inference.stores import until

STATIC = replace(POOL, provisioner=Provisioner.STATIC, backend=Backend.OPENAI)


@pytest.fixture
async def static(tmp_path: Path) -> AsyncIterator[StaticProvisioner]:
    made = StaticProvisioner(
        probes=host_for(tmp_path).probes, data_key=DATA_KEY, probe_every_s=0.02
    )
    yield made
    await made.close()


def pool_at(address: str, **fields: object) -> PoolRecord:
    return replace(STATIC, addresses=(address,), **fields)  # type: ignore[arg-type]


@dataclass
class Provider:
    """A server that is well and keeps the head of each request."""

    port: int = 0
    heads: list[str] = field(default_factory=list)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
            await writer.drain()


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    made = Provider()
    async with await asyncio.start_server(made.answer, "127.0.0.1", 0) as server:
        made.port = server.sockets[0].getsockname()[1]
        yield made


@pytest.mark.parametrize(
    ("backend", "first_line"),
    [(Backend.OPENAI, "GET /v1/models HTTP/1.1"), (Backend.VLLM, "GET /health HTTP/1.1")],
)
async def test_a_server_is_asked_for_models_or_health_and_never_for_a_completion(
    static: StaticProvisioner, provider: Provider, backend: Backend, first_line: str
) -> None:
    await started(static, pool_at(f"{provider.base_url}/", backend=backend))
    await until(lambda: len(provider.heads) >= 3, "three probes")
    assert {head.partition("\r\n")[0] for head in provider.heads} == {first_line}
    assert static.sight("pool_a-0").failed_probes == 0


async def test_the_pools_credential_is_sent(static: StaticProvisioner, provider: Provider) -> None:
    sealed = encrypt(DATA_KEY, "provider-secret")
    await started(static, pool_at(provider.base_url, credential=sealed))
    await until(lambda: len(provider.heads) >= 1, "a probe")
    assert "authorization: Bearer provider-secret\r\n" in provider.heads[0]


async def test_a_changed_address_credential_or_kind_of_server_is_a_change() -> None:
    static = StaticProvisioner(probes=ProbeClient(), data_key=DATA_KEY)
    pools = (
        pool_at("http://127.0.0.1:1/v1"),
        pool_at("http://127.0.0.1:2/v1"),
        pool_at("http://127.0.0.1:1/v1", credential="c2VhbGVk"),
        pool_at("http://127.0.0.1:1/v1", backend=Backend.VLLM),
    )
    assert len({static.specs(pool, Task.GENERATE)[0].digest for pool in pools}) == 4


@pytest.mark.slow
async def test_a_server_that_is_not_there_is_seen_failing_and_still_there_to_be_asked(
    static: StaticProvisioner,
) -> None:
    spec = static.specs(pool_at("http://127.0.0.1:1/v1"), Task.GENERATE)[0]
    assert await static.start(spec) == "http://127.0.0.1:1/v1"
    sighting = await seen(static, spec.id, lambda one: one.failed_probes >= 3, "three failures")
    assert sighting.is_ready
    assert sighting.detail == "the connection is refused"


async def test_a_credential_that_cannot_be_opened_is_told(static: StaticProvisioner) -> None:
    spec = static.specs(pool_at("http://127.0.0.1:1/v1", credential="junk"), Task.GENERATE)[0]
    await static.start(spec)
    sighting = await seen(static, spec.id, lambda one: one.failed_probes >= 1, "a failure")
    assert sighting.detail == "the pool's credential cannot be opened with this host's data key"


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (200, None),
        (403, None),
        (404, None),
        (429, None),
        (401, "the pool's credential is refused (401)"),
        (500, "it answers 500"),
        (503, "it answers 503"),
    ],
)
def test_only_a_refused_credential_and_server_errors_are_trouble(
    status: int, trouble: str | None
) -> None:
    assert trouble_of(status) == trouble
