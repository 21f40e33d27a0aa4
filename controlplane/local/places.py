"""Where everything lies under HEADWORKS_VAR, made with the modes it needs."""

import hashlib
import os
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path

from controlplane.local.problems import LocalProblem

# A socket's path has 108 bytes, the closing zero among them.
_SOCKET_PATH_BYTES = 107
_LONGEST_SOCKET_NAME = ".s.PGSQL.5432"
_LOG_ROTATE_BYTES = 8 * 1024 * 1024
_TAIL_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of one installation; nothing outside them is written, but for short sockets."""

    var: Path
    sockets: Path
    database: str = "postgres"

    @property
    def postgres(self) -> Path:
        return self.var / self.database

    @property
    def backups(self) -> Path:
        return self.var / "backups"

    @property
    def secrets(self) -> Path:
        return self.var / "secrets"

    @property
    def run(self) -> Path:
        return self.var / "run"

    @property
    def groups(self) -> Path:
        return self.run / "groups"

    @property
    def logs(self) -> Path:
        return self.var / "logs"

    @property
    def postgres_socket(self) -> Path:
        """The folder of PostgreSQL's socket: its own, since the server may run as another user."""
        return self.sockets / "postgres"

    @property
    def demo(self) -> Path:
        return self.var / "demo.env"

    @property
    def helper_socket(self) -> Path:
        return self.sockets / "helper.sock"

    def store(self, name: str) -> Path:
        return self.var / f"valkey-{name}"

    def log(self, name: str) -> Path:
        return self.logs / f"{name}.log"

    def store_socket(self, name: str) -> Path:
        return self.sockets / f"{name}.sock"


def find_places(var: Path) -> Places:
    """Where the folders of an installation are, made or not."""
    return Places(var=var, sockets=_sockets_folder(var))


def make_places(var: Path) -> Places:
    """Make the folders of an installation, private to us. Raises LocalProblem if that fails."""
    places = find_places(var)
    try:
        for folder in (places.var, places.secrets, places.run, places.groups, places.logs):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _private_folder(places.sockets)
    except OSError as error:
        message = f"cannot write to {error.filename or var}: {error.strerror} (HEADWORKS_VAR={var})"
        raise LocalProblem(message) from error
    return places


def _sockets_folder(var: Path) -> Path:
    inside = var / "run"
    longest = inside / "postgres" / _LONGEST_SOCKET_NAME
    if len(os.fsencode(longest)) <= _SOCKET_PATH_BYTES:
        return inside
    digest = hashlib.sha256(os.fsencode(var)).hexdigest()[:16]
    return Path(tempfile.gettempdir()) / f"headworks-{os.geteuid()}-{digest}"


def _private_folder(folder: Path) -> None:
    """Make a folder 700, or check that the one that is there is ours alone."""
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    is_ours = stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    if not is_ours or stat.S_IMODE(found.st_mode) & 0o077:
        raise LocalProblem(f"{folder} is not a private folder of ours; remove it and start again")


def rotate_log(log: Path) -> None:
    """Set a log that has grown large aside, in place of the one set aside before."""
    try:
        if log.stat().st_size > _LOG_ROTATE_BYTES:
            log.replace(log.with_suffix(".log.1"))
    except FileNotFoundError:
        return


def size_of(log: Path) -> int:
    """How long a log is now, 0 if there is none: what `tail_of` may leave out."""
    try:
        return log.stat().st_size
    except FileNotFoundError:
        return 0


def tail_of(log: Path, lines: int = 12, *, since: int = 0) -> str:
    """The last lines of a log that were written after its size was `since`, or nothing."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, size_of(log) - _TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
