"""The file of a back-up: a zip of a manifest, the database's dump and, if asked for, the secrets.

Nothing in it is compressed twice; each part carries a checksum. It is written beside its place and
moved there whole, readable by its owner alone, because a dump holds people's names and digests.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from controlplane.local.problems import LocalProblem

FORMAT = 1
DUMP = "database.dump"
_MANIFEST = "manifest.json"
_SECRETS = "secrets.json"
_FINGERPRINT_CHARACTERS = 16
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a back-up holds, told without opening it. Fingerprints tell keys apart, no more."""

    format: int
    headworks: str
    created_at: str
    postgres: str
    migrations: tuple[str, ...]
    configuration: str
    data_key: str
    peppers: Mapping[str, str]
    has_secrets: bool


def fingerprint(key: str) -> str:
    """A short name of a key, from which it can't be found: keys have 256 bits of chance."""
    digest = hashlib.sha256(b"headworks back-up:" + key.encode()).hexdigest()
    return digest[:_FINGERPRINT_CHARACTERS]


def pepper_fingerprints(peppers: str) -> Mapping[str, str]:
    """The fingerprint of each pepper by its version."""
    pairs = (part.strip().partition(":") for part in peppers.split(","))
    return {version: fingerprint(key) for version, _, key in pairs}


@contextmanager
def written_whole(path: Path) -> Iterator[zipfile.ZipFile]:
    """Write an archive that appears at `path` when the block is done, and not at all if it fails.

    Raises LocalProblem if something is there already.
    """
    if path.exists():
        raise LocalProblem(f"{path} is there already; name another file")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                yield archive
            file.flush()
            os.fsync(file.fileno())
        partial.rename(path)
        _sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def dump_writer(archive: zipfile.ZipFile) -> Iterator[BinaryIO]:
    """Where the dump goes, of whatever size."""
    with archive.open(DUMP, "w", force_zip64=True) as sink:
        yield sink  # type: ignore[misc]


def write_manifest(archive: zipfile.ZipFile, manifest: Manifest) -> None:
    archive.writestr(_MANIFEST, json.dumps(asdict(manifest), indent=2))


def write_secrets(archive: zipfile.ZipFile, secrets: Mapping[str, str]) -> None:
    archive.writestr(_SECRETS, json.dumps(dict(secrets), indent=2))


@contextmanager
def opened(path: Path) -> Iterator[zipfile.ZipFile]:
    """A back-up open for reading. Raises LocalProblem if it is none."""
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except FileNotFoundError as error:
        raise LocalProblem(f"there is no file {path}") from error
    except (zipfile.BadZipFile, EOFError) as error:
        raise LocalProblem(f"{path} is damaged, or is no back-up: {error}") from error


def read_manifest(archive: zipfile.ZipFile) -> Manifest:
    """What the back-up says of itself. Raises LocalProblem if this release can't read it."""
    try:
        told = json.loads(archive.read(_MANIFEST))
        if told["format"] != FORMAT:
            raise LocalProblem(
                f"the back-up has format {told['format']}, and this release reads {FORMAT}"
            )
        return Manifest(**{**told, "migrations": tuple(told["migrations"])})
    except (KeyError, ValueError, TypeError) as error:
        raise LocalProblem(f"the back-up's manifest can't be read: {error!r}") from error


def read_secrets(archive: zipfile.ZipFile) -> Mapping[str, str]:
    """The secrets in it; empty if it was made without."""
    if _SECRETS not in archive.namelist():
        return {}
    told: dict[str, str] = json.loads(archive.read(_SECRETS))
    return told


def unpack_dump(archive: zipfile.ZipFile, target: Path) -> int:
    """Write the dump to a file of its own and return its size; a wrong checksum raises."""
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    size = 0
    with archive.open(DUMP) as source, os.fdopen(descriptor, "wb") as sink:
        while chunk := source.read(_CHUNK):
            sink.write(chunk)
            size += len(chunk)
    return size
