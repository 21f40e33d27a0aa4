"""A pytest plugin that notes why tests failed, for `tests.stages`.

Tests whose setup fails at the same place have one cause: what they share. Every other failure is a
cause of its own.
"""

import re
from collections import defaultdict

import pytest

NOTED = "headworks/causes"
# What `--dist loadgroup` adds to the name of a test.
_GROUP = re.compile(r"@[\w-]+$")


class Causes:
    """The names of tests that failed, by cause."""

    def __init__(self) -> None:
        self.found = defaultdict[str, list[str]](list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            name = _GROUP.sub("", report.nodeid)
            tests = self.found[_cause(report) or name]
            if name not in tests:
                tests.append(name)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        assert session.config.cache is not None
        session.config.cache.set(NOTED, self.found)


def _cause(report: pytest.TestReport) -> str | None:
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{crash.path}:{crash.lineno}" if crash and report.when == "setup" else None


def pytest_configure(config: pytest.Config) -> None:
    """Note what all processes tell; they themselves note nothing."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Causes())
