"""vLLM itself, as far as that needs no engine to start."""

import os
import subprocess
from pathlib import Path

import pytest

from controlplane.local.engine import find_engine
from inference.contract.params import ENGINE_ARGUMENTS

pytestmark = pytest.mark.engine

LIST_S = 400.0
LIST_FLAGS = """
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
print(*(option for action in parser._actions for option in action.option_strings))
"""


@pytest.fixture
def engine_python() -> Path:
    """The engine's Python: the one the settings name, or what `make engine-environment` built."""
    given = os.environ.get("HEADWORKS_ENGINE_PYTHON")
    return Path(given) if given else find_engine(os.environ).python


def test_the_engine_knows_every_argument_that_may_be_set(engine_python: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}
    listed = subprocess.run(
        [engine_python, "-c", LIST_FLAGS],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIST_S,
    )
    flags = {argument.flag for argument in ENGINE_ARGUMENTS.values()}
    others = {"--shutdown-timeout", "--allowed-media-domains", "--served-model-name", "--model"}
    assert (flags | others) - set(listed.stdout.split()) == set()
