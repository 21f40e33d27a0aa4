"""Sizes, names and charters: what keeps the tree readable as it grows."""

import ast
import subprocess

import pytest

from tests.architecture.sources import PLANES, ROOT, Source, sources

MODULE_LINES = 400
FUNCTION_LINES = 60
FORBIDDEN_NAMES = {"core", "common", "utils", "helpers", "extras", "lib"}
TOP_LEVEL = {
    *("manage.py", "controlplane", "inference", "dashboards", "templates", "tests"),
    *("requirements.txt", "README.md", "Makefile", "pyproject.toml", "docs", "benchmarks"),
}


def too_large(source: Source) -> list[str]:
    """Names of what is over the limits: the module itself or functions in it."""
    found = [source.name] if len(source.text.splitlines()) > MODULE_LINES else []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            if node.end_lineno - node.lineno + 1 > FUNCTION_LINES:
                found.append(f"{source.name}::{node.name}")
    return found


@pytest.mark.slow
def test_modules_and_functions_are_small_but_for_the_listed_ones() -> None:
    listed = (ROOT / "tests/architecture/size_exceptions.txt").read_text().split()
    found = [name for source in sources() for name in too_large(source)]
    assert sorted(found) == sorted(listed), "mend the new ones, strike out those mended"


def test_nothing_is_named_for_having_no_better_place() -> None:
    names = {part.removesuffix(".py") for source in sources() for part in source.path.parts}
    assert names & FORBIDDEN_NAMES == set()


def test_every_package_has_a_charter() -> None:
    bare = [
        source.name
        for source in sources(*PLANES)
        if source.path.name == "__init__.py" and not (ast.get_docstring(source.tree) or "").strip()
    ]
    assert bare == []


def test_the_top_level_is_the_agreed_one() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    tops = {name.split("/")[0] for name in tracked}
    assert {top for top in tops if not top.startswith(".")} <= TOP_LEVEL


@pytest.mark.parametrize("kind", [ast.Global])
def test_no_state_is_kept_behind_the_back_of_a_function(kind: type[ast.stmt]) -> None:
    found = [
        f"{source.name}:{node.lineno}"
        for source in sources(*PLANES)
        for node in ast.walk(source.tree)
        if isinstance(node, kind)
    ]
    assert found == []


def test_nothing_is_left_to_be_done() -> None:
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
    found = [
        f"{source.name}:{number}"
        for source in sources()
        for number, line in enumerate(source.text.splitlines(), start=1)
        if any(word in line for word in words)
    ]
    assert found == []
