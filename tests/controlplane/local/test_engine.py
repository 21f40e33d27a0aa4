"""The engine's environment: found again by its pins, never taken for whole when it is not."""

import fcntl
import threading
import zipfile
from pathlib import Path

import pytest

from controlplane.local.engine import (
    EnginePlaces,
    Step,
    Weights,
    build_engine,
    cache_folder,
    find_engine,
    steps_of,
)
from controlplane.local.problems import LocalProblem


def write_wheel(folder: Path, name: str, files: dict[str, str]) -> Path:
    """A wheel as pip takes it, of a package that ships these files."""
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(f"{name}/{path}", text)
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


@pytest.fixture
def places(tmp_path: Path) -> EnginePlaces:
    """An environment of one small package, and a model that another one ships."""
    engine = write_wheel(tmp_path / "wheels", "toyengine", {"__init__.py": "NAME = 'toy'\n"})
    model = write_wheel(tmp_path / "wheels", "toymodel", {"weights/model.safetensors": "w"})
    requirements = tmp_path / "requirements-cpu.txt"
    requirements.write_text(f"# step: engine (no dependencies)\n{engine}\n")
    weights = (Weights("toy", str(model), "*.safetensors", is_converted=False),)
    return EnginePlaces(requirements, tmp_path / "engines" / "e1", tmp_path / "models", weights)


def test_steps_are_cut_at_their_marks_and_keep_their_pins_apart() -> None:
    text = (
        "# pins\n# step: torch\ntorch==1\n\n# step: engine (no dependencies)\n# why\na==1\nb==2\n"
    )
    assert steps_of(text) == (
        Step("torch", "torch==1\n"),
        Step("engine (no dependencies)", "a==1\nb==2\n"),
    )
    assert [step.options for step in steps_of(text)] == [(), ("--no-deps",)]


def test_requirements_without_steps_are_refused() -> None:
    with pytest.raises(LocalProblem, match="no `# step:` line"):
        steps_of("torch==1\n")


def test_the_place_follows_the_pins_and_the_machine() -> None:
    environ = {"HEADWORKS_ENGINE_CACHE": "/cache"}
    cpu, cuda = (find_engine(environ, has_cuda=has_cuda) for has_cuda in (False, True))
    assert cpu.requirements.name == "requirements-cpu.txt"
    assert cuda.requirements.name == "requirements-cuda.txt"
    assert cpu.environment.parent == cuda.environment.parent == Path("/cache/engines")
    assert cpu.environment != cuda.environment
    assert find_engine(environ, has_cuda=False) == cpu


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"HEADWORKS_ENGINE_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, "/a"),
        ({"XDG_CACHE_HOME": "/b"}, "/b/headworks"),
        ({}, str(Path.home() / ".cache" / "headworks")),
    ],
)
def test_the_cache_is_the_users_unless_told(environ: dict[str, str], folder: str) -> None:
    assert cache_folder(environ) == Path(folder)


@pytest.mark.fault
def test_builds_take_turns_and_make_what_was_left_half_made_again(places: EnginePlaces) -> None:
    (places.environment / "bin").mkdir(parents=True)
    (places.environment / "bin" / "python").write_text("")
    (places.models / ".toy.partial" / "made").mkdir(parents=True)
    assert not places.is_complete()
    said: list[str] = []
    is_waiting = threading.Event()

    def tell(line: str) -> None:
        said.append(line)
        is_waiting.set()

    with (places.environment.parent / "build.lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        build = threading.Thread(target=build_engine, args=(places, tell))
        build.start()
        assert is_waiting.wait(10)
        assert said == ["waiting for another build of the engine's environment"]
        assert (places.environment / "bin" / "python").read_text() == ""
        fcntl.flock(lock, fcntl.LOCK_UN)
        build.join(60)
    assert places.is_complete()
    assert (places.models / "toy" / "model.safetensors").read_text() == "w"
    assert [path.name for path in places.models.iterdir()] == ["toy"]
    installed = next(places.environment.glob("lib/python*/site-packages/toyengine"))
    assert (installed / "__init__.py").is_file()
    assert any(line.startswith("environment complete in") for line in said)
    said.clear()
    build_engine(places, said.append)
    assert said == []


@pytest.mark.fault
def test_a_failed_step_leaves_no_complete_environment_and_shows_the_log(
    places: EnginePlaces,
) -> None:
    places.requirements.write_text("# step: engine\n/nowhere/absent-1.0-py3-none-any.whl\n")
    with pytest.raises(LocalProblem, match=r"(?s)1 of 1, engine failed \(1\);.*absent") as caught:
        build_engine(places, lambda _: None)
    assert str(places.log) in str(caught.value)
    assert not places.is_environment_complete()


def test_too_little_disk_is_said_before_anything_is_fetched(
    places: EnginePlaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _: FewBytes())
    with pytest.raises(LocalProblem, match=r"needs 5 GB in .*, and 1\.0 GB are free"):
        build_engine(places, lambda _: None)
    assert not places.log.exists()


class FewBytes:
    """A disk with a gigabyte to spare."""

    free = 1000**3
