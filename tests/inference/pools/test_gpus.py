"""GPUs by NVML's own words, and quietly none where it has none."""

import pynvml
import pytest

from inference.pools.gpus import Gpus, GpuUse
from tests.inference.pools.nvml import Library


def test_a_workers_gpus_are_those_its_processes_run_on() -> None:
    library = Library({0: {11: 100, 21: 7}, 1: {12: 200}}, {0: 80, 1: 40})
    groups = {"both": (11, 12), "first": (21,), "none": (31,)}
    assert Gpus(library).use_of(groups) == {
        "both": GpuUse(utilisation=60.0, memory_bytes=300),
        "first": GpuUse(utilisation=80.0, memory_bytes=7),
    }


def test_what_a_gpu_does_not_tell_is_not_known() -> None:
    library = Library({0: {11: None}, 1: None}, {0: None, 1: 40})
    assert Gpus(library).use_of({"a": (11,)}) == {"a": GpuUse(None, None)}


@pytest.mark.parametrize("library", [Library({}, {}, is_missing=True), Library({}, {})])
def test_without_library_or_gpu_there_are_none(library: Library) -> None:
    assert Gpus(library).use_of({"a": (11,)}) == {}


def test_the_real_library_is_asked_for_what_it_knows() -> None:
    names = (
        *("nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "NVMLError"),
        *("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetUtilizationRates"),
    )
    assert all(hasattr(pynvml, name) for name in names)
    Gpus().use_of({"a": (1,)})
