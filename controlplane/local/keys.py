"""The installation's secrets: made at random at the first start, one file each, never constants."""

import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.local.problems import LocalProblem

_KEY_BYTES = 32
_GIVEN_NAMES = ("SECRET_KEY", "DATA_KEY", "KEY_PEPPERS")


@dataclass(frozen=True, slots=True)
class Keys:
    """What children sign, seal and log in with."""

    secret_key: str = field(repr=False)
    data_key: str = field(repr=False)
    peppers: str = field(repr=False)
    folder: Path

    def password(self, name: str) -> str:
        """The password of one store user, made when it is first asked for."""
        return _load(self.folder, f"password-{name}", _random_hex)


def load_keys(folder: Path, environ: Mapping[str, str]) -> Keys:
    """Read the keys, making those that are neither given nor there. Raises LocalProblem."""
    given = {name: environ.get(f"HEADWORKS_{name}") for name in _GIVEN_NAMES}
    try:
        return Keys(
            secret_key=given["SECRET_KEY"] or _load(folder, "secret", _random_hex),
            data_key=given["DATA_KEY"] or _load(folder, "data", _random_base64),
            peppers=given["KEY_PEPPERS"] or f"1:{_load(folder, 'pepper-1', _random_base64)}",
            folder=folder,
        )
    except OSError as error:
        raise LocalProblem(f"cannot keep secrets in {folder}: {error}") from error


def held_keys(folder: Path, environ: Mapping[str, str]) -> dict[str, str | None]:
    """The keys that are given or there, by their names in `Keys`; none is made."""

    def held(name: str) -> str | None:
        path = _path_of(folder, name)
        return path.read_text().strip() if path.exists() else None

    pepper = held("pepper-1")
    return {
        "secret_key": environ.get("HEADWORKS_SECRET_KEY") or held("secret"),
        "data_key": environ.get("HEADWORKS_DATA_KEY") or held("data"),
        "peppers": environ.get("HEADWORKS_KEY_PEPPERS") or (pepper and f"1:{pepper}"),
    }


def save_key(folder: Path, name: str, key: str) -> None:
    """Keep a key that was made elsewhere, by its name in `Keys`; none may be there.

    Raises LocalProblem for peppers that a file can't hold: more than the first version.
    """
    if name == "peppers":
        version, _, pepper = key.partition(":")
        if version != "1" or "," in pepper:
            raise LocalProblem(
                "the peppers have several versions, which no file keeps: give them by "
                "HEADWORKS_KEY_PEPPERS, as they were given before"
            )
        _write(_path_of(folder, "pepper-1"), pepper)
    else:
        _write(_path_of(folder, name.removesuffix("_key")), key)


def _path_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.key"


def _random_hex() -> str:
    return os.urandom(_KEY_BYTES).hex()


def _random_base64() -> str:
    return base64.urlsafe_b64encode(os.urandom(_KEY_BYTES)).decode()


def _load(folder: Path, name: str, make: Callable[[], str]) -> str:
    path = _path_of(folder, name)
    if path.exists():
        key = path.read_text().strip()
        if not key:
            raise LocalProblem(f"{path} is empty; restore it, or remove it to make a new one")
        return key
    key = make()
    _write(path, key)
    return key


def _write(path: Path, key: str) -> None:
    partial = path.with_suffix(".partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(key + "\n")
        file.flush()
        os.fsync(descriptor)
    partial.replace(path)
