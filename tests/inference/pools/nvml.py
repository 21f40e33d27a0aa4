"""An NVML of GPUs that are not there."""

from dataclasses import dataclass, field
from types import SimpleNamespace


class Trouble(Exception):
    """What the library raises."""


@dataclass
class Library:
    """An NVML of two GPUs. What is None is refused, as some drivers do."""

    processes: dict[int, dict[int, int | None] | None]
    rates: dict[int, int | None]
    is_missing: bool = False
    NVMLError: type[Exception] = Trouble
    starts: list[None] = field(default_factory=list)

    def nvmlInit(self) -> None:
        if self.is_missing:
            raise Trouble("NVML Shared Library Not Found")
        self.starts.append(None)

    def nvmlDeviceGetCount(self) -> int:
        return len(self.rates)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[SimpleNamespace]:
        found = self.processes[handle]
        if found is None:
            raise Trouble("Not Supported")
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in found.items()]

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:
        rate = self.rates[handle]
        if rate is None:
            raise Trouble("Not Supported")
        return SimpleNamespace(gpu=rate, memory=1)
