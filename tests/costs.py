"""A pytest plugin that tells what tests cost: `pytest -p tests.costs …`.

Seconds of processor time by file, of the tests' own process and of the children it has waited for,
which on a machine that does more say more than the clock.
"""

import resource
import time
from collections import Counter
from collections.abc import Generator

import pytest

_NAME = "processor_s"
_MOST = 25
_BEGAN = pytest.StashKey[float]()

_spent = Counter[str]()


def _processor_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Note when a test begins."""
    item.stash[_BEGAN] = _processor_s()
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Have the last report of a test carry what it cost, from whichever process it ran in."""
    report = yield
    if call.when == "teardown":
        report.user_properties.append((_NAME, _processor_s() - item.stash[_BEGAN]))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "teardown":
        file = report.nodeid.partition("::")[0]
        _spent[file] += sum(value for name, value in report.user_properties if name == _NAME)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section(f"processor time of tests: {sum(_spent.values()):.0f} s")
    for file, spent_s in _spent.most_common(_MOST):
        terminalreporter.line(f"{spent_s:8.1f} s  {file}")
