"""vLLM as it is installed, without starting it."""

import ast
import os
import subprocess
from pathlib import Path

import pytest

from controlplane.local.engine import find_engine
from inference.contract.params import ENGINE_ARGUMENTS

pytestmark = pytest.mark.engine

WHERE = "import importlib.util as u; print(u.find_spec('vllm').submodule_search_locations[0])"


@pytest.fixture
def engine_source() -> Path:
    """The folder of vLLM that the settings name, or that `make engine-environment` installed."""
    given = os.environ.get("HEADWORKS_ENGINE_PYTHON")
    python = Path(given) if given else find_engine(os.environ).python
    return Path(subprocess.check_output([python, "-c", WHERE], text=True, timeout=60).strip())


def added_flags(source: Path) -> set[str]:
    """The flags a module adds to a parser by name. To import it would cost as much as an engine."""
    calls = (node for node in ast.walk(ast.parse(source.read_text())) if isinstance(node, ast.Call))
    return {
        argument.value
        for call in calls
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument"
        for argument in call.args
        if isinstance(argument, ast.Constant) and str(argument.value).startswith("--")
    }


def fields_as_flags(source: Path) -> set[str]:
    """The fields of a module's `…Args` classes, each of which becomes a flag of its name."""
    tree = ast.parse(source.read_text())
    owners = (one for one in tree.body if isinstance(one, ast.ClassDef) and "Args" in one.name)
    return {
        f"--{field.target.id.replace('_', '-')}"
        for owner in owners
        for field in owner.body
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
    }


def test_the_engine_knows_every_argument_that_may_be_set(engine_source: Path) -> None:
    known = added_flags(engine_source / "engine" / "arg_utils.py")
    known |= fields_as_flags(engine_source / "entrypoints" / "launchers" / "cli_args.py")
    wanted = {argument.flag for argument in ENGINE_ARGUMENTS.values()}
    wanted |= {"--shutdown-timeout", "--allowed-media-domains", "--served-model-name", "--model"}
    assert wanted - known == set()
