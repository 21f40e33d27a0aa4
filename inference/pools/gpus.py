"""What processes take of the host's GPUs, by NVML where there is one."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pynvml
import structlog

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GpuUse:
    """`utilisation` in per cent, the mean over the GPUs used; None if none of them tells.

    `memory_bytes` is what the processes hold on them.
    """

    utilisation: float | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class _Device:
    utilisation: float | None
    memory_by_pid: Mapping[int, int | None]


class Gpus:
    """The host's GPUs; none where there is no NVML. `library` is `pynvml` or its like.

    Calls may take milliseconds, so they belong to a thread.
    """

    def __init__(self, library: Any = pynvml) -> None:
        self._nvml = library
        self._handles = self._find()

    def use_of(self, groups: Mapping[str, Sequence[int]]) -> Mapping[str, GpuUse]:
        """What these processes take, by the group's name; a group that uses no GPU is left out."""
        devices = [self._look(handle) for handle in self._handles]
        uses = {name: _use_of(frozenset(pids), devices) for name, pids in groups.items()}
        return {name: use for name, use in uses.items() if use is not None}

    def _find(self) -> tuple[Any, ...]:
        try:
            self._nvml.nvmlInit()
            count = self._nvml.nvmlDeviceGetCount()
            return tuple(self._nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count))
        except self._nvml.NVMLError as error:
            log.info("no GPUs to measure", reason=str(error))
            return ()

    def _look(self, handle: Any) -> _Device:
        processes = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses, handle) or ()
        rates = self._ask(self._nvml.nvmlDeviceGetUtilizationRates, handle)
        return _Device(
            utilisation=None if rates is None else float(rates.gpu),
            memory_by_pid={int(one.pid): one.usedGpuMemory for one in processes},
        )

    def _ask(self, question: Callable[[Any], Any], handle: Any) -> Any:
        """One fact of one GPU; None if it won't tell, as some do for some facts."""
        try:
            return question(handle)
        except self._nvml.NVMLError:
            return None


def _use_of(pids: frozenset[int], devices: Sequence[_Device]) -> GpuUse | None:
    used = [one for one in devices if not pids.isdisjoint(one.memory_by_pid)]
    if not used:
        return None
    rates = [one.utilisation for one in used if one.utilisation is not None]
    return GpuUse(
        utilisation=sum(rates) / len(rates) if rates else None,
        memory_bytes=_sum_if_all_known(
            memory for one in used for pid, memory in one.memory_by_pid.items() if pid in pids
        ),
    )


def _sum_if_all_known(amounts: Iterator[int | None]) -> int | None:
    total = 0
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total
