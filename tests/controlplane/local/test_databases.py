"""A database out into a file and in again, by PostgreSQL's own tools; files appear whole or not."""

import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from django.db import connection

from controlplane.local.archive import dump_writer, fingerprint, pepper_fingerprints, written_whole
from controlplane.local.databases import _CLEAR, Database, split_password
from controlplane.local.postgres import find_binaries
from controlplane.local.problems import LocalProblem
from controlplane.models import Organisation

pytestmark = pytest.mark.slow

OTHER = f"back_up_{os.getpid()}"


def at(url: str, name: str) -> Database:
    """A database of the server of this run, as if it were somebody else's."""
    return Database(urlsplit(url)._replace(path=f"/{name}").geturl(), find_binaries(), None)


@pytest.fixture
def source(transactional_db: None, database_url: str) -> Database:
    """This test's database, with a row of its own."""
    Organisation.objects.create(name="Kept")
    return at(database_url, str(connection.settings_dict["NAME"]))


@pytest.fixture
def target(database_url: str) -> Iterator[Database]:
    """An empty database."""
    with psycopg.connect(database_url, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {OTHER}")
        yield at(database_url, OTHER)
        admin.execute(f"DROP DATABASE {OTHER} WITH (FORCE)")


def dumped(database: Database, folder: Path) -> Path:
    path = folder / "dump"
    with path.open("wb") as sink:
        assert database.dump(sink, lambda size: None) == sink.tell()
    return path


def test_what_is_restored_takes_the_place_of_all_that_was_there(
    source: Database, target: Database, tmp_path: Path
) -> None:
    dump = dumped(source, tmp_path)
    target.fill(dump, lambda size: None)
    names = "SELECT string_agg(name, ',' ORDER BY name) FROM controlplane_organisation"
    assert target.ask(names) == "Kept"
    tables = "SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace"
    whole = (target.ask(tables), target.ask("SELECT count(*) FROM django_migrations"))
    assert whole == (source.ask(tables), source.ask("SELECT count(*) FROM django_migrations"))
    for statement in (
        "CREATE TABLE later (id int)",
        "CREATE VIEW later_still AS SELECT id FROM later",
        "UPDATE controlplane_organisation SET name = 'Renamed'",
    ):
        target.ask(statement)
    target.fill(dump, lambda size: None)
    assert target.ask(names) == "Kept"
    assert (target.ask(tables), target.ask("SELECT count(*) FROM django_migrations")) == whole


def test_locks_that_a_server_has_no_room_for_are_told_before_anything_is_touched(
    source: Database, target: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = dumped(source, tmp_path)
    target.fill(dump, lambda size: None)
    needed = target.needed_locks(dump)
    assert 0.8 * needed < taken_by_filling(target, dump) <= needed
    target.check_locks(dump)
    monkeypatch.setattr("controlplane.local.databases._LOCKS", f"SELECT {needed // 2}")
    with pytest.raises(LocalProblem, match=f"takes {needed:,} locks .* to \\d+ and start it again"):
        target.check_locks(dump)


def taken_by_filling(target: Database, dump: Path) -> int:
    """How many locks a transaction has that does what `fill` does."""
    tool = str(target.binaries / "pg_restore")
    options = ("--no-owner", "--no-privileges", "--no-comments", "--file=-", str(dump))
    script = subprocess.run((tool, *options), check=True, capture_output=True, text=True).stdout
    what = "count(DISTINCT (locktype, relation, classid, objid))"
    count = f"SELECT 'locks', {what} FROM pg_locks WHERE pid = pg_backend_pid();"
    done = subprocess.run(
        (*target._tool("psql"), "--no-psqlrc", "--quiet", "--tuples-only", "--no-align"),
        input=f"BEGIN; {_CLEAR}; {script} {count} ROLLBACK;",
        check=True,
        capture_output=True,
        text=True,
    )
    return int(done.stdout.split("locks|")[1])


def test_a_dump_that_breaks_off_changes_nothing(
    source: Database, target: Database, tmp_path: Path
) -> None:
    dump = dumped(source, tmp_path)
    target.ask("CREATE TABLE before (id int)")
    torn = tmp_path / "torn"
    torn.write_bytes(dump.read_bytes()[: dump.stat().st_size // 2])
    with pytest.raises(LocalProblem, match="failed"):
        target.fill(torn, lambda size: None)
    assert target.has_table("before")
    assert not target.has_table("django_migrations")


def test_others_who_are_connected_are_counted(target: Database) -> None:
    assert target.other_sessions() == 0
    with psycopg.connect(target.url):
        assert target.other_sessions() == 1
    assert target.major >= 14


def test_a_database_that_does_not_answer_is_a_problem_in_words(tmp_path: Path) -> None:
    nowhere = Database(f"postgresql://a:secret@/b?host={tmp_path}", find_binaries(), None)
    with pytest.raises(LocalProblem, match="the database did not answer") as caught:
        nowhere.ask("SELECT 1")
    assert "secret" not in str(caught.value)
    assert "secret" not in repr(nowhere)


@pytest.mark.parametrize(
    ("url", "safe", "password"),
    [
        ("postgresql://a@/b?host=/run/pg", "postgresql://a@/b?host=/run/pg", None),
        ("postgresql://a:p%40ss@host:5433/b", "postgresql://a@host:5433/b", "p@ss"),
        (
            "postgresql://host/b?user=a&password=x%20y&sslmode=require",
            "postgresql://host/b?user=a&sslmode=require",
            "x y",
        ),
        ("postgresql://a:@host/b", "postgresql://a@host/b", ""),
    ],
)
def test_a_password_is_taken_out_of_an_address(url: str, safe: str, password: str | None) -> None:
    assert split_password(url) == (safe, password)


def test_an_archive_appears_when_it_is_whole_and_never_over_another(tmp_path: Path) -> None:
    path = tmp_path / "new" / "one.zip"

    def write(word: bytes, *, fails: bool = False) -> None:
        with written_whole(path) as archive, dump_writer(archive) as sink:
            sink.write(word)
            assert not path.exists()
            if fails:
                raise LocalProblem("broken off")

    with pytest.raises(LocalProblem, match="broken off"):
        write(b"half", fails=True)
    assert list(path.parent.iterdir()) == []
    write(b"whole")
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    with pytest.raises(LocalProblem, match="is there already"):
        write(b"another")
    with zipfile.ZipFile(path) as archive:
        assert archive.read("database.dump") == b"whole"


def test_fingerprints_tell_keys_apart_without_holding_them() -> None:
    assert fingerprint("one") == fingerprint("one") != fingerprint("two")
    assert len(fingerprint("one")) == 16
    told = pepper_fingerprints("2:bbb=,1:aaa=")
    assert told == {"2": fingerprint("bbb="), "1": fingerprint("aaa=")}
