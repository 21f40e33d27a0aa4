"""The browser under test, for whoever needs one."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

# the shell does without what a window needs, and takes two thirds of the processor's time
CHROMIUMS = ("chromium-headless-shell", "chromium")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

PATIENCE_MS = 90_000
"""What a page may take on a machine that does more; Playwright's own are 5 and 30 seconds."""


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """One Chromium for the block.

    Playwright's loop runs in this thread until the end of it. So Django must be told, and no test
    that has a loop of its own can run meanwhile.
    """
    found = next(path for name in CHROMIUMS if (path := shutil.which(name)))
    with pytest.MonkeyPatch.context() as patch, sync_playwright() as playwright:
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "true")
        chromium = playwright.chromium.launch(
            executable_path=found, headless=True, args=list(FLAGS)
        )
        expect.set_options(timeout=PATIENCE_MS)
        yield chromium
        chromium.close()
