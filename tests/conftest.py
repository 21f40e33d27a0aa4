"""What three thousand tests in one process would do again and again, done once."""

import gc
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.staticfiles.storage import staticfiles_storage
from servestatic.middleware import ServeStaticMiddleware

_ALLOCATIONS_A_LOOK = 10_000
"""How many objects are made before the collector looks; Python's own 700 suit small programs."""

# The objects of collected tests live as long as the run, and looking through them for garbage takes
# longer than making them.
gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS_A_LOOK)
    gc.enable()


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
