"""Servers at given addresses: never started or ended by us, only asked whether they are well."""

from pathlib import Path

import msgspec

from inference.contract.kinds import Backend, Task
from inference.contract.sealing import SealError, content_digest, decrypt
from inference.contract.snapshot import PoolRecord
from inference.decisions.lifecycle import Presence, Sighting, Worker, WorkerSpec, make_spec
from inference.pools.base import Host, Source, metrics_call
from inference.pools.probes import ProbeCall, ProbeClient, ProbeFailed, Prober

PROBE_TIMEOUT_S = 5.0
"""A far provider's TLS handshake and list of models fit in; an outage is seen in three of them."""

FAILING_PROBE_S = 1.0
"""Three refusals in a row are seen in three seconds, and a server that is back within one."""
PROBE_EVERY_S = 5.0

_CREDENTIAL_REFUSED = 401
_SERVER_ERRORS = 500


class StaticProvisioner:
    """Watches the addresses of static pools. It asks for health or models, never for a completion:
    whoever runs the server may charge for those.
    """

    owns_processes = False
    uses_derived_key = False

    def __init__(
        self, *, probes: ProbeClient, data_key: bytes, probe_every_s: float = PROBE_EVERY_S
    ) -> None:
        self._probes = probes
        self._data_key = data_key
        self._probe_every_s = probe_every_s
        self._probers: dict[str, Prober] = {}
        self._sources: dict[str, Source | None] = {}

    def specs(self, pool: PoolRecord, task: Task) -> tuple[WorkerSpec, ...]:
        return tuple(
            make_spec(pool, ordinal, task=task, digest=_digest(pool, address))
            for ordinal, address in enumerate(pool.addresses)
        )

    async def recover(self) -> tuple[Worker, ...]:
        return ()

    async def start(self, spec: WorkerSpec) -> str:
        self.forget(spec.id)
        address = spec.pool.addresses[spec.ordinal]
        watch = _Watch(self._probes, spec.pool, address, self._data_key)
        self._probers[spec.id] = Prober(
            watch.check, proof=None, eager_s=FAILING_PROBE_S, calm_s=self._probe_every_s
        )
        self._sources[spec.id] = watch.source()
        return address

    def sight(self, worker_id: str) -> Sighting:
        prober = self._probers.get(worker_id)
        if prober is None:
            return Sighting(Presence.GONE)
        return prober.sighting(Presence.RUNNING)

    def terminate(self, worker_id: str) -> None:
        self.forget(worker_id)

    def kill(self, worker_id: str) -> None:
        self.forget(worker_id)

    def forget(self, worker_id: str) -> None:
        self._sources.pop(worker_id, None)
        prober = self._probers.pop(worker_id, None)
        if prober is not None:
            prober.stop()

    def source_of(self, worker_id: str) -> Source | None:
        return self._sources.get(worker_id)

    def log_of(self, worker_id: str) -> Path | None:
        return None

    async def close(self) -> None:
        self._sources.clear()
        probers, self._probers = list(self._probers.values()), {}
        for prober in probers:
            await prober.closed()


class _Watch:
    """What one address is asked."""

    def __init__(
        self, probes: ProbeClient, pool: PoolRecord, address: str, data_key: bytes
    ) -> None:
        self._probes = probes
        self._credential = pool.credential
        self._data_key = data_key
        self._base = address.rstrip("/")
        self._root = self._base.removesuffix("/v1")
        self._is_vllm = pool.backend is Backend.VLLM
        self._url = f"{self._root}/health" if self._is_vllm else f"{self._base}/models"

    def source(self) -> Source | None:
        """Where it is measured: vLLM has its metrics beside its API, others may have none."""
        if not self._is_vllm:
            return None
        try:
            bearer = self._bearer()
        except SealError:
            bearer = None
        return Source(metrics_call(f"{self._root}/metrics", bearer=bearer))

    def _bearer(self) -> str | None:
        return decrypt(self._data_key, self._credential) if self._credential else None

    async def check(self) -> str | None:
        try:
            bearer = self._bearer()
        except SealError:
            return "the pool's credential cannot be opened with this host's data key"
        call = ProbeCall(url=self._url, timeout_s=PROBE_TIMEOUT_S, bearer=bearer)
        try:
            status = await self._probes.ask(call)
        except ProbeFailed as failure:
            return str(failure)
        return trouble_of(status)


def trouble_of(status: int) -> str | None:
    """What the answer to a health probe says is wrong, in words; None if nothing.

    A server that forbids or lacks the path, or wants us to slow down, is there and well.
    """
    if status == _CREDENTIAL_REFUSED:
        return "the pool's credential is refused (401)"
    if status >= _SERVER_ERRORS:
        return f"it answers {status}"
    return None


def _digest(pool: PoolRecord, address: str) -> str:
    return content_digest(msgspec.json.encode((address, pool.backend, pool.credential)))


def build(host: Host) -> StaticProvisioner:
    """Make one for this host."""
    return StaticProvisioner(probes=host.probes, data_key=host.settings.data_key)
