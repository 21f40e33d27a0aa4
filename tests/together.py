"""A pytest plugin: tests that share something dear to start run one after another on one process.

Of use with `--dist loadgroup`; the groups with most tests are begun first. They are named here, by
file, since the process that deals out the tests collects none. What takes as long as half of all
others together is two groups: the start of a second fleet is less than the wait for the last test.
"""

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

GROUPS = {
    "tests/faults/test_back_up.py": "two installations, one after the other",
    "tests/faults/test_epochs.py": "a fleet whose stores fail",
    "tests/faults/test_limits.py": "a fleet whose stores fail",
    "tests/faults/test_store.py": "a fleet whose stores fail",
    "tests/faults/": "a fleet whose parts fail",
    "tests/browser/test_configuration.py": "a console whose pages are changed",
    "tests/browser/test_drains.py": "a console whose pages are changed",
    "tests/browser/test_operations.py": "a console whose pages are changed",
    "tests/browser/test_usage.py": "a console whose pages are changed",
    "tests/browser/": "a console whose pages are read",
}
"""What the tests of a file or folder share; the first that fits."""


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Deals out groups as wholes and all other tests one by one."""

    def _split_scope(self, nodeid: str) -> str:
        return next((name for path, name in GROUPS.items() if nodeid.startswith(path)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Together | None:
    """Take the place of a scheduler that would read marks the controller hasn't got."""
    return Together(config, log) if config.getvalue("dist") == "loadgroup" else None
