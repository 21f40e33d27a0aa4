"""A pytest plugin: one PostgreSQL and two Valkeys for a run, and the settings to find them.

Loaded by `-p tests.services`, so that they run before Django's settings are read. Everything lies
in a temporary folder, in memory where that has room; a guardian ends it all and removes the folder,
also if pytest is killed.

Of a run in parallel the controller starts PostgreSQL, where each worker has a database of its own,
and each worker a pair of Valkeys, since tests empty them.
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from subprocess import Popen

import pytest

from controlplane.local.places import Places, make_places
from controlplane.local.postgres import is_answering as is_postgres_answering
from controlplane.local.postgres import prepare_postgres, start_postgres
from controlplane.local.valkey import CACHE, STATE, Store, StoreUser, start_store
from controlplane.local.valkey import is_answering as is_store_answering
from tests.stock import guarded, random_key, take, wait_until

_ROLE = "tests"
_STOP_S = 120.0
_MEMORY = Path("/dev/shm")
_MEMORY_NEEDED = 4 * 1024**3
"""More than any run writes; containers tend to have 64 MiB."""
_IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
_VAR = "HEADWORKS_VAR"
_DATABASE_URL = "HEADWORKS_DATABASE_URL"


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Start the services before any other plugin looks at the environment."""
    known = early_config.known_args_namespace
    if not known.help and not known.version:
        places = make_places(Path(tempfile.mkdtemp(prefix="headworks-tests-", dir=_memory())))
        processes = [guarded(places, "--remove")]
        early_config.add_cleanup(lambda: _end(processes))
        shares = bool(getattr(known, "numprocesses", None))
        if _IS_WORKER:
            _static_files(places.var).symlink_to(_static_files(Path(os.environ[_VAR])))
        else:
            os.environ[_DATABASE_URL] = _start_database(places, processes)
            _static_files(places.var).mkdir(exist_ok=True)
        stores = _stores(places)
        if _IS_WORKER or not shares:
            _start_stores(stores, places, processes)
        os.environ.update(_settings(places, *stores))
    return (yield)


def _memory() -> Path | None:
    """A file system in memory with room for a run, or None for the usual place of such folders."""
    has_room = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free >= _MEMORY_NEEDED
    return _MEMORY if has_room else None


def _static_files(var: Path) -> Path:
    return var / "static"


def _end(processes: Sequence[Popen[bytes]]) -> None:
    guardian = processes[0]
    assert guardian.stdin is not None
    assert guardian.stdout is not None
    guardian.stdin.close()
    guardian.stdout.close()
    for process in processes:
        process.wait(_STOP_S)


def migrated_note(var: Path) -> Path:
    """A file that isn't empty once the run's server has a migrated database to copy."""
    return var / "database.lock"


def _start_database(places: Places, processes: list[Popen[bytes]]) -> str:
    if take(places):
        migrated_note(places.var).write_text("made")
    postgres = prepare_postgres(places, is_for_tests=True)
    processes.append(start_postgres(postgres))
    wait_until(lambda: is_postgres_answering(postgres), places.log("postgres"))
    return postgres.url


def _stores(places: Places) -> tuple[Store, Store]:
    user = StoreUser(_ROLE, secrets.token_hex(16), "alldbs ~* &* +@all")
    return Store(STATE, places, (user,)), Store(CACHE, places, (user,))


def _start_stores(
    stores: tuple[Store, Store], places: Places, processes: list[Popen[bytes]]
) -> None:
    state, cache = stores
    processes.append(start_store(state, is_lasting=False))
    processes.append(start_store(cache))
    wait_until(lambda: is_store_answering(state), places.log("valkey-state"))
    wait_until(lambda: is_store_answering(cache), places.log("valkey-cache"))


def _settings(places: Places, state: Store, cache: Store) -> Mapping[str, str]:
    return {
        _VAR: str(places.var),
        "HEADWORKS_STATE_URL": state.url(_ROLE),
        "HEADWORKS_CACHE_URL": cache.url(_ROLE),
        "HEADWORKS_BROKER_URL": state.broker_url(_ROLE),
        "HEADWORKS_SECRET_KEY": secrets.token_hex(32),
        "HEADWORKS_DATA_KEY": random_key(),
        "HEADWORKS_KEY_PEPPERS": f"1:{random_key()}",
    }


@pytest.fixture(scope="session")
def database_url() -> str:
    """The PostgreSQL of this run, as a role that may make databases."""
    return os.environ[_DATABASE_URL]


@pytest.fixture(scope="session")
def state_url() -> str:
    """The state store of this run, as a user who may do everything."""
    return os.environ["HEADWORKS_STATE_URL"]


@pytest.fixture(scope="session")
def cache_url() -> str:
    """The cache store of this run, as a user who may do everything."""
    return os.environ["HEADWORKS_CACHE_URL"]
