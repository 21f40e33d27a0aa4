"""What three thousand tests in one process would do again and again, done once."""

import fcntl
import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage
from django.db import connection
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from pytest_django import DjangoDbBlocker
from servestatic.middleware import ServeStaticMiddleware

from tests.services import migrated_note
from tests.stock import MIGRATED

_ALLOCATIONS_A_LOOK = 10_000
"""How many objects are made before the collector looks; Python's own 700 suit small programs."""

# The objects of collected tests live as long as the run, and looking through them for garbage takes
# longer than making them.
gc.disable()

# A busy machine is no fault of a test's.
hypothesis_settings.register_profile("whole", suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("whole")
# by --hypothesis-profile, as make check does
hypothesis_settings.register_profile(
    "quick", hypothesis_settings.get_profile("whole"), max_examples=25
)


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_A_LOOK)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Look for garbage no more: pytest just did, and would again, and then Python."""
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _static_files_are_found_once() -> Iterator[None]:
    """Let clients share the list of static files.

    A console makes it when it starts. Every client of a test is a console to Django and would make
    one of its own, which takes longer than most of what a test asks of it.
    """
    find = ServeStaticMiddleware.add_files_from_manifest
    found: dict[tuple[str, str], dict[str, Any]] = {}

    def find_once(self: ServeStaticMiddleware) -> None:
        manifest = (staticfiles_storage.location, staticfiles_storage.manifest_hash)
        if manifest not in found:
            find(self)
            found[manifest] = dict(self.files)
        self.files.update(found[manifest])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServeStaticMiddleware, "add_files_from_manifest", find_once)
        yield


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """Copy a migrated database: the one in stock, or what a parallel run's first worker makes."""
    note = migrated_note(settings.STATIC_ROOT.resolve().parent)
    with note.open("a") as made, django_db_blocker.unblock():
        fcntl.flock(made, fcntl.LOCK_EX)
        if not note.stat().st_size:
            if "PYTEST_XDIST_WORKER" not in os.environ:
                return
            _make_database(MIGRATED)
            made.write("made")
    connection.settings_dict["TEST"]["TEMPLATE"] = MIGRATED


def _make_database(name: str) -> None:
    told = connection.settings_dict
    names = (told["NAME"], told["TEST"]["NAME"])
    told["TEST"]["NAME"] = name
    connection.creation.create_test_db(verbosity=0, serialize=False)
    connection.close()
    connection.close_pool()
    told["NAME"], told["TEST"]["NAME"] = names
    settings.DATABASES[connection.alias]["NAME"] = names[0]
