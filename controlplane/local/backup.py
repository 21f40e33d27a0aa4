"""Making a back-up: one file with the database, while the installation runs or while it doesn't.

State store and journals are not in it. They hold what is on its way, and every part of them is made
again from the database, the gateways' disks and the running processes.
"""

import json
import time
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from zipfile import ZipFile

from controlplane import __version__
from controlplane.local.access import read_pairs
from controlplane.local.archive import (
    FORMAT,
    Manifest,
    dump_writer,
    fingerprint,
    pepper_fingerprints,
    write_manifest,
    write_secrets,
    written_whole,
)
from controlplane.local.databases import TOOLS_MAJOR, Database, open_database
from controlplane.local.keys import Keys, load_keys
from controlplane.local.launcher_lock import only_launcher, running_launcher
from controlplane.local.places import Places, find_places, make_places
from controlplane.local.problems import LocalProblem
from controlplane.local.settings import load_local_settings
from controlplane.local.terminal import Terminal

_SAID_EVERY_S = 2.0
_MIB = 1 << 20


class Progress:
    """Says now and then how far a long copy is."""

    def __init__(self, terminal: Terminal, what: str) -> None:
        self._terminal = terminal
        self._what = what
        self._next_at = time.monotonic() + _SAID_EVERY_S

    def __call__(self, size: int) -> None:
        if time.monotonic() >= self._next_at:
            self._next_at = time.monotonic() + _SAID_EVERY_S
            self._terminal.say(f"{self._what}: {size / _MIB:,.0f} MiB so far")


def back_up(environ: Mapping[str, str], file: Path | None, *, with_secrets: bool) -> int:
    """Back the installation's database up into a file, and say where it is."""
    settings = load_local_settings(environ)
    places = find_places(settings.var)
    if not places.secrets.is_dir() or not (settings.database_url or places.postgres.is_dir()):
        raise LocalProblem(f"there is no installation in {settings.var} (HEADWORKS_VAR)")
    terminal = Terminal()
    target = (file or _default_name(places)).absolute()
    make_places(settings.var)
    is_running = running_launcher(places) is not None
    is_ours = not settings.database_url and not is_running
    with only_launcher(places) if is_ours else nullcontext():
        keys = load_keys(places.secrets, environ)
        with open_database(settings, places, is_running=is_running) as database:
            write_back_up(database, places, keys, target, terminal, with_secrets=with_secrets)
    return 0


def write_back_up(
    database: Database,
    places: Places,
    keys: Keys,
    target: Path,
    terminal: Terminal,
    *,
    with_secrets: bool = False,
) -> None:
    """Write a back-up to a place where nothing is yet. Raises LocalProblem."""
    terminal.say(f"back-up of {places.var} to {target}")
    with written_whole(target) as archive:
        manifest = _describe(database, keys, with_secrets=with_secrets)
        terminal.say(f"PostgreSQL {manifest.postgres}, configuration {manifest.configuration}")
        write_manifest(archive, manifest)
        if with_secrets:
            write_secrets(archive, secrets_of(places, keys))
        _dump(archive, database, terminal)
    size = target.stat().st_size / _MIB
    terminal.say(f"done: {target}, {size:,.1f} MiB, readable by its owner alone")
    if with_secrets:
        terminal.say("it holds the installation's secrets: whoever has it can read everything")
    else:
        terminal.say(f"keep a copy of {places.secrets} as well, apart from it")


def _default_name(places: Places) -> Path:
    return places.backups / f"headworks-{stamp()}.zip"


def stamp() -> str:
    """Now, as part of a name."""
    return datetime.now(UTC).strftime("%Y%m%d-%H%M%S")


def _describe(database: Database, keys: Keys, *, with_secrets: bool) -> Manifest:
    if database.major > TOOLS_MAJOR:
        raise LocalProblem(
            f"the server is PostgreSQL {database.version} and our pg_dump is {TOOLS_MAJOR}; "
            "back it up with its own tools"
        )
    if not database.has_table("django_migrations"):
        raise LocalProblem("the database holds no installation")
    return Manifest(
        format=FORMAT,
        headworks=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        postgres=database.version,
        migrations=_migrations_of(database),
        configuration=_configuration_of(database),
        data_key=fingerprint(keys.data_key),
        peppers=pepper_fingerprints(keys.peppers),
        has_secrets=with_secrets,
    )


def _migrations_of(database: Database) -> tuple[str, ...]:
    told = database.ask(
        "SELECT json_agg(name ORDER BY name) FROM django_migrations WHERE app = 'controlplane'"
    )
    return tuple(json.loads(told or "[]"))


def _configuration_of(database: Database) -> str:
    return database.ask(
        "SELECT coalesce((SELECT 'version ' || version || ' of ' || lineage "
        "FROM controlplane_configrevision ORDER BY id DESC LIMIT 1), 'none')"
    )


def secrets_of(places: Places, keys: Keys) -> Mapping[str, str]:
    """All that an empty folder needs to go on as this installation."""
    return {
        "secret_key": keys.secret_key,
        "data_key": keys.data_key,
        "peppers": keys.peppers,
        "demo": json.dumps(dict(read_pairs(places.demo))),
    }


def _dump(archive: ZipFile, database: Database, terminal: Terminal) -> None:
    with dump_writer(archive) as sink:
        size = database.dump(sink, Progress(terminal, "dumping"))
    terminal.say(f"dumped {size / _MIB:,.1f} MiB")
