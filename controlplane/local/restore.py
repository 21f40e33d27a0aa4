"""Putting a back-up in an installation's place: checked first, whole or not at all, old data kept.

The new database is filled beside the old one, brought up to this release and adopted, and only then
changes places with it.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from zipfile import ZipFile

from controlplane.local.access import write_pairs
from controlplane.local.archive import (
    Manifest,
    fingerprint,
    opened,
    pepper_fingerprints,
    read_manifest,
    read_secrets,
    unpack_dump,
)
from controlplane.local.backup import Progress, stamp, write_back_up
from controlplane.local.databases import Database, open_database, served, served_store
from controlplane.local.keys import held_keys, load_keys, save_key
from controlplane.local.launcher_lock import only_launcher
from controlplane.local.places import Places, make_places
from controlplane.local.postgres import ASIDE, RESTORING, prepare_postgres
from controlplane.local.problems import LocalProblem
from controlplane.local.processes import is_leader_alive, read_records
from controlplane.local.roles import ROOT, Installation, control_environment, plan_stores
from controlplane.local.settings import LocalSettings, load_local_settings
from controlplane.local.terminal import Terminal

_MIGRATIONS = ROOT / "controlplane" / "migrations"
_MIB = 1 << 20
ADOPT = "adopt_configuration"


@dataclass(frozen=True, slots=True)
class Allowed:
    """What the person at the terminal said to do all the same."""

    other_keys: bool = False
    other_version: bool = False


def restore(environ: Mapping[str, str], file: Path, allowed: Allowed) -> int:
    """Put a back-up in the place of this installation's database, and adopt its configuration."""
    settings = load_local_settings(environ)
    terminal = Terminal()
    with opened(file) as archive:
        manifest = read_manifest(archive)
        terminal.say(f"back-up of {manifest.created_at}, configuration {manifest.configuration}")
        _check_release(manifest, allowed)
        places = make_places(settings.var)
        with only_launcher(places):
            _check_stopped(places)
            _settle_keys(archive, manifest, places, environ, allowed, terminal)
            installation = _installation(settings, places, environ)
            with _unpacked(archive, places, terminal) as dump:
                _restore(installation, manifest, dump, allowed, terminal)
    terminal.say("restored; `make run` starts it")
    return 0


def _check_release(manifest: Manifest, allowed: Allowed) -> None:
    """Raise LocalProblem if the back-up knows migrations that this release doesn't."""
    unknown = [name for name in manifest.migrations if not (_MIGRATIONS / f"{name}.py").exists()]
    if unknown and not allowed.other_version:
        raise LocalProblem(
            f"the back-up was made by Headworks {manifest.headworks}, whose migrations "
            f"{', '.join(unknown)} this release doesn't have; restore it with that release, or add "
            "--other-version"
        )


def _check_stopped(places: Places) -> None:
    """The launcher is gone, or we would not be here; what it left behind may still run."""
    left = [record.name for record in read_records(places.groups) if is_leader_alive(record)]
    if left:
        raise LocalProblem(
            f"processes of {places.var} still run: {', '.join(left)}; start and stop Headworks "
            "once, which ends them"
        )


def _settle_keys(
    archive: ZipFile,
    manifest: Manifest,
    places: Places,
    environ: Mapping[str, str],
    allowed: Allowed,
    terminal: Terminal,
) -> None:
    """See that the keys here are those of the back-up, taking them from it where there are none."""
    carried = read_secrets(archive)
    held = held_keys(places.secrets, environ)
    for name in ("secret_key", "data_key", "peppers"):
        if held[name] is None and name in carried:
            save_key(places.secrets, name, carried[name])
            terminal.say(f"{name.replace('_', ' ')} taken from the back-up")
    held = held_keys(places.secrets, environ)
    is_same = held["data_key"] is not None and fingerprint(held["data_key"]) == manifest.data_key
    peppers = {} if held["peppers"] is None else pepper_fingerprints(held["peppers"])
    wanted = manifest.peppers.items()
    if not (is_same and wanted <= peppers.items()) and not allowed.other_keys:
        raise LocalProblem(_about_keys(places, is_same=is_same, carried=bool(carried)))
    if not places.demo.exists() and (pairs := json.loads(carried.get("demo", "{}"))):
        write_pairs(places.demo, pairs)


def _about_keys(places: Places, *, is_same: bool, carried: bool) -> str:
    which = "peppers" if is_same else "data key"
    lost = (
        "no API key, token or program could sign in"
        if is_same
        else "the credentials of pools could not be opened, nor the snapshots on gateways' disks"
    )
    source = f"those in {places.secrets}" if carried else "the installation's"
    remedy = (
        f"move {source} away to take the back-up's"
        if carried
        else f"put the installation's secrets into {places.secrets} first"
    )
    return (
        f"the back-up was made with another {which}: with the one here, {lost}; {remedy}, or "
        "add --other-keys"
    )


def _installation(
    settings: LocalSettings, places: Places, environ: Mapping[str, str]
) -> Installation:
    keys = load_keys(places.secrets, environ)
    state, cache = plan_stores(settings, places, keys)
    return Installation(settings, places, keys, state, cache, None)


@contextmanager
def _unpacked(archive: ZipFile, places: Places, terminal: Terminal) -> Iterator[Path]:
    """The dump as a file, its checksum compared."""
    dump = places.var / "restoring.dump"
    try:
        size = unpack_dump(archive, dump)
        terminal.say(f"unpacked {size / _MIB:,.1f} MiB; the checksum is right")
        yield dump
    finally:
        dump.unlink(missing_ok=True)


def _restore(
    installation: Installation,
    manifest: Manifest,
    dump: Path,
    allowed: Allowed,
    terminal: Terminal,
) -> None:
    if installation.settings.database_url:
        _restore_external(installation, manifest, dump, allowed, terminal)
    else:
        _restore_embedded(installation, manifest, dump, allowed, terminal)


def _restore_external(
    installation: Installation,
    manifest: Manifest,
    dump: Path,
    allowed: Allowed,
    terminal: Terminal,
) -> None:
    settings, places = installation.settings, installation.places
    with open_database(settings, places, is_running=False) as database:
        if others := database.other_sessions():
            raise LocalProblem(
                f"{others} other sessions use the database; stop console, jobs, recorder and feed "
                "on every machine first"
            )
        database.check_locks(dump)
        if database.has_table("django_migrations"):
            aside = places.backups / f"before-restore-{stamp()}.zip"
            write_back_up(database, places, installation.keys, aside, terminal)
        _fill(installation, database, manifest, dump, allowed, terminal)


def _restore_embedded(
    installation: Installation,
    manifest: Manifest,
    dump: Path,
    allowed: Allowed,
    terminal: Terminal,
) -> None:
    place = installation.places.postgres
    beside = replace(installation.places, database=f"{place.name}{RESTORING}")
    shutil.rmtree(beside.postgres, ignore_errors=True)
    is_whole = False
    try:
        server = prepare_postgres(beside)
        with served(server, is_for_restore=True):
            database = Database(server.url, server.binaries, server)
            _fill(installation, database, manifest, dump, allowed, terminal)
        is_whole = True
    finally:
        if not is_whole:
            shutil.rmtree(beside.postgres, ignore_errors=True)
    if place.exists():
        aside = place.with_name(f"{place.name}{ASIDE}{stamp()}")
        # between the two renames there is none: a start then refuses and says which to take
        place.rename(aside)
        terminal.say(f"the database that was here is kept in {aside}; remove it when you like")
    beside.postgres.rename(place)


def _fill(
    installation: Installation,
    database: Database,
    manifest: Manifest,
    dump: Path,
    allowed: Allowed,
    terminal: Terminal,
) -> None:
    """Fill the database, bring it up to this release, and have everybody take its configuration."""
    made_by = int(manifest.postgres.split(".")[0])
    if made_by > database.major and not allowed.other_version:
        raise LocalProblem(
            f"the back-up comes from PostgreSQL {manifest.postgres} and the server is "
            f"{database.version}; take a newer server, or add --other-version"
        )
    terminal.say("restoring")
    database.fill(dump, Progress(terminal, "restored"))
    environment = dict(control_environment(installation, database.server))
    _manage(environment, terminal, "migrate_safely", "--verbosity=0")
    terminal.say("the schema is up to date")
    with served_store(installation.state):
        reason = f"restored from the back-up of {manifest.created_at}"
        _manage(environment, terminal, ADOPT, "--yes", "--force", f"--reason={reason}")


def _manage(environment: Mapping[str, str], terminal: Terminal, *arguments: str) -> None:
    """Run a management command and pass on what it says; raises LocalProblem if it fails."""
    done = subprocess.run(
        (sys.executable, "manage.py", *arguments),
        cwd=ROOT,
        env=dict(environment),
        capture_output=True,
        text=True,
        check=False,
    )
    for line in done.stdout.splitlines():
        terminal.say(line)
    if done.returncode != 0:
        raise LocalProblem(f"manage.py {arguments[0]} failed: {done.stderr.strip()[-2_000:]}")
