"""The installation's database by PostgreSQL's own tools, embedded or somebody else's.

The tools come with the embedded server. They connect as applications do: over the socket, or to the
address that was given, whose password goes to them by environment and never on a command line.
"""

import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, BinaryIO
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from controlplane.local.places import Places, tail_of
from controlplane.local.postgres import (
    Postgres,
    find_binaries,
    find_postgres,
    prepare_postgres,
    start_postgres,
)
from controlplane.local.postgres import is_answering as is_postgres_answering
from controlplane.local.problems import LocalProblem
from controlplane.local.processes import end_groups, read_record, remove_record
from controlplane.local.settings import LocalSettings
from controlplane.local.valkey import Store, start_store
from controlplane.local.valkey import is_answering as is_store_answering

TOOLS_MAJOR = 18
"""The newest server that the tools understand."""

_CHUNK = 1 << 20
_START_S = 60.0
_STOP_S = 10.0
_POLL_S = 0.05
# Servers before 17 don't know it, and no restored row depends on it.
_NEW_PARAMETER = b"SET transaction_timeout = 0;\n"
_KNOWS_PARAMETER = 17
_HEAD_BYTES = 64 * 1024
# What a former installation left in the database: all that is ours and of no extension.
_CLEAR = """
SET LOCAL client_min_messages = warning;
DO $clear$
DECLARE
  names text[];  -- all of them before the first goes, which may take others with it
  one text;
BEGIN
  SELECT array_agg(format('DROP %s IF EXISTS %s CASCADE',
                  CASE c.relkind WHEN 'v' THEN 'VIEW' WHEN 'm' THEN 'MATERIALIZED VIEW'
                                 WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                  c.oid::regclass)) INTO names
    FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'public' AND c.relkind IN ('r', 'p', 'v', 'm', 'S')
      AND NOT c.relispartition
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid
                      AND d.classid = 'pg_class'::regclass
                      AND (d.deptype = 'e' OR (c.relkind = 'S' AND d.deptype IN ('i', 'a'))));
  FOREACH one IN ARRAY COALESCE(names, '{}') LOOP EXECUTE one; END LOOP;
  SELECT array_agg(format('DROP FUNCTION IF EXISTS %s CASCADE', p.oid::regprocedure)) INTO names
    FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
    WHERE n.nspname = 'public' AND p.prokind = 'f'
      AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid
                      AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e');
  FOREACH one IN ARRAY COALESCE(names, '{}') LOOP EXECUTE one; END LOOP;
END
$clear$
"""


# How many locks the server has room for by its settings.
_LOCKS = """
SELECT sum(setting::bigint) FILTER (WHERE name <> 'max_locks_per_transaction')
     * max(setting::bigint) FILTER (WHERE name = 'max_locks_per_transaction')
FROM pg_settings WHERE name IN ('max_locks_per_transaction', 'max_connections',
  'max_prepared_transactions', 'max_worker_processes', 'max_wal_senders',
  'autovacuum_worker_slots')
"""
# What it has over that, which is shared with other things: a restore in between may fail, and then
# changes nothing.
_SLACK = 1.25
# What a former installation left, each part of which is locked to be dropped.
_HELD = """
WITH ours AS (
  SELECT oid, reltoastrelid FROM pg_class WHERE relnamespace = 'public'::regnamespace
)
SELECT (SELECT count(*) + 2 * count(*) FILTER (WHERE reltoastrelid <> 0) FROM ours)
  + (SELECT count(*) FROM pg_type WHERE typnamespace = 'public'::regnamespace)
  + (SELECT count(*) FROM pg_constraint WHERE connamespace = 'public'::regnamespace)
  + (SELECT count(*) FROM pg_attrdef WHERE adrelid IN (SELECT oid FROM ours))
  + (SELECT count(*) FROM pg_trigger WHERE tgrelid IN (SELECT oid FROM ours))
"""
# What is locked for each entry of a dump.
_LOCKED_KINDS: Mapping[str, int] = {
    "TABLE": 4,  # its type, what holds its long values, and that one's index
    "CONSTRAINT": 2,  # its index
    "CHECK": 1,
    "FK": 1,
    "INDEX": 1,
    "SEQUENCE": 1,
}


@dataclass(frozen=True, slots=True)
class Database:
    """One reachable database, and who serves it if that is us."""

    url: str = field(repr=False)
    binaries: Path
    server: Postgres | None

    def ask(self, statement: str) -> str:
        """The one value a statement answers with, as text."""
        command = (*self._tool("psql"), "--no-psqlrc", "--tuples-only", "--no-align")
        done = subprocess.run(
            (*command, "--command", statement),
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise LocalProblem(f"the database did not answer: {done.stderr.strip()}")
        return done.stdout.strip()

    @property
    def version(self) -> str:
        return self.ask("SELECT current_setting('server_version')")

    @property
    def major(self) -> int:
        """The server's major version."""
        return int(self.ask("SELECT current_setting('server_version_num')")) // 10_000

    def has_table(self, name: str) -> bool:
        return self.ask(f"SELECT to_regclass('public.{name}') IS NOT NULL") == "t"

    def other_sessions(self) -> int:
        """How many others are connected to it."""
        return int(
            self.ask(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
        )

    def dump(self, sink: BinaryIO, progress: Callable[[int], None]) -> int:
        """Write one consistent copy of it, while it is used, and return its size."""
        options = ("--format=custom", "--no-owner", "--no-privileges", "--no-comments")
        # extensions are the server's: to make one takes its superuser, and ours are there already
        bare = (*options, "--exclude-extension=*")
        size = 0
        with self._running("pg_dump", bare, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            while chunk := process.stdout.read(_CHUNK):
                sink.write(chunk)
                size += len(chunk)
                progress(size)
        return size

    def check_locks(self, dump: Path) -> None:
        """Raise LocalProblem if the server can't lock all that `fill` drops and makes at once."""
        needed = self.needed_locks(dump)
        room = int(int(self.ask(_LOCKS)) * _SLACK)
        if needed > room:
            held = int(self.ask("SELECT current_setting('max_locks_per_transaction')"))
            wanted = math.ceil(held * needed / room / 64 + 1) * 64
            raise LocalProblem(
                f"the restore takes {needed:,} locks in one transaction and the server has room "
                f"for {room:,}: set its max_locks_per_transaction to {wanted} and start it again"
            )

    def needed_locks(self, dump: Path) -> int:
        """How many locks `fill` takes."""
        return int(self.ask(_HELD)) + self._made_by(dump)

    def _made_by(self, dump: Path) -> int:
        """How many locks a dump takes that is restored."""
        command = (str(self.binaries / "pg_restore"), "--list", str(dump))
        done = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise LocalProblem(f"pg_restore failed: {done.stderr.strip()}")
        # "1234; 1259 16384 TABLE public name owner"; "TABLE DATA" and the like make nothing
        words = [line.split()[3:5] for line in done.stdout.splitlines() if line[:1].isdigit()]
        return sum(
            _LOCKED_KINDS.get(kind, 0) for kind, place in words if place not in ("DATA", "ATTACH")
        )

    def fill(self, dump: Path, progress: Callable[[int], None]) -> None:
        """Put a dump's contents in place of all that is there, in one transaction."""
        drops = b"" if self.major >= _KNOWS_PARAMETER else _NEW_PARAMETER
        options = ("--no-psqlrc", "--quiet", "--single-transaction", "--output=/dev/null")
        stops = ("--set=ON_ERROR_STOP=1", f"--command={_CLEAR}", "--file=-")
        reading = ("--no-owner", "--no-privileges", "--no-comments", "--file=-", str(dump))
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(
                (str(self.binaries / "pg_restore"), *reading),
                stdout=subprocess.PIPE,
                stderr=errors,
                env=self._environment(),
            ) as reader,
        ):
            assert reader.stdout is not None
            with self._running("psql", (*options, *stops), stdin=subprocess.PIPE) as process:
                assert process.stdin is not None
                _relay(reader.stdout, process.stdin, drops, progress)
                if reader.wait() != 0:
                    # psql must not commit half a dump
                    process.kill()
                    errors.seek(0)
                    text = errors.read().decode(errors="replace").strip()
                    raise LocalProblem(f"pg_restore failed: {text}")

    @contextmanager
    def _running(
        self, tool: str, options: tuple[str, ...], **pipes: int
    ) -> Iterator[subprocess.Popen[bytes]]:
        """A tool at work; raises LocalProblem with what it said if it fails."""
        with tempfile.TemporaryFile() as errors:
            command = (*self._tool(tool), *options)
            with subprocess.Popen(
                command, env=self._environment(), stderr=errors, **pipes
            ) as process:
                is_done = False
                try:
                    with suppress(BrokenPipeError):
                        yield process
                    _close(process.stdin)
                    code = process.wait()
                    is_done = True
                finally:
                    if not is_done:
                        process.kill()
                    _close(process.stdin)
            if code != 0:
                errors.seek(0)
                text = errors.read().decode(errors="replace").strip()
                raise LocalProblem(f"{tool} failed ({code}): {text[-2_000:]}")

    def _tool(self, name: str) -> tuple[str, ...]:
        return str(self.binaries / name), f"--dbname={split_password(self.url)[0]}"

    def _environment(self) -> Mapping[str, str]:
        kept = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
        password = split_password(self.url)[1]
        told = {"PGPASSWORD": password} if password is not None else {}
        return {**kept, **told, "LC_ALL": "C.UTF-8", "PGAPPNAME": "headworks back-up"}


def _close(pipe: IO[bytes] | None) -> None:
    """Give a pipe back; what its reader no longer took is lost, and its exit code says so."""
    if pipe is not None:
        with suppress(BrokenPipeError):
            pipe.close()


def _relay(
    source: BinaryIO, sink: BinaryIO, dropped: bytes, progress: Callable[[int], None]
) -> None:
    """Pass statements on, without one that an older server doesn't know."""
    head = b""
    while len(head) < _HEAD_BYTES and (chunk := source.read(_HEAD_BYTES)):
        head += chunk
    sink.write(head.replace(dropped, b"", 1) if dropped else head)
    size = len(head)
    while chunk := source.read(_CHUNK):
        sink.write(chunk)
        size += len(chunk)
        progress(size)


def split_password(url: str) -> tuple[str, str | None]:
    """A database's address without its password, and the password."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    password = query.pop("password", None)
    credentials, at, place = parts.netloc.rpartition("@")
    user, colon, text = credentials.partition(":")
    if colon:
        password = unquote(text)
    safe = parts._replace(
        netloc=f"{user}{at}{place}", query=urlencode(query, quote_via=quote, safe="/")
    )
    return urlunsplit(safe), password


@contextmanager
def open_database(
    settings: LocalSettings, places: Places, *, is_running: bool
) -> Iterator[Database]:
    """The database of an installation: somebody else's, the running one's, or started meanwhile."""
    if settings.database_url:
        yield Database(settings.database_url, find_binaries(), None)
    elif is_running:
        server = find_postgres(places)
        yield Database(server.url, server.binaries, server)
    else:
        server = prepare_postgres(places)
        with served(server):
            yield Database(server.url, find_binaries(), server)


@contextmanager
def served(server: Postgres, *, is_for_restore: bool = False) -> Iterator[None]:
    """Run an embedded PostgreSQL inside the block."""
    start = partial(start_postgres, server, is_for_restore=is_for_restore)
    with _started(server.places, "postgres", start):
        _wait(lambda: is_postgres_answering(server), "PostgreSQL", server.places.log("postgres"))
        yield


@contextmanager
def served_store(store: Store | None) -> Iterator[None]:
    """Run an embedded store inside the block; None is somebody else's, which is left alone."""
    if store is None:
        yield
        return
    name = f"valkey-{store.name}"
    with _started(store.places, name, lambda: start_store(store)):
        _wait(lambda: is_store_answering(store), f"the {store.name} store", store.places.log(name))
        yield


@contextmanager
def _started(
    places: Places, name: str, start: Callable[[], subprocess.Popen[bytes]]
) -> Iterator[None]:
    process = start()
    try:
        yield
    finally:
        record = read_record(places.groups, name)
        if record is not None and not end_groups((record,), grace_s=_STOP_S):
            remove_record(record, places.groups)
        process.wait(_STOP_S)


def _wait(is_up: Callable[[], bool], what: str, log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while not is_up():
        if time.monotonic() > deadline:
            raise LocalProblem(f"{what} did not start; {log} ends:\n{tail_of(log)}")
        time.sleep(_POLL_S)
