"""`python -m inference <process>`: the data plane's processes, one subcommand each."""

import argparse
import asyncio
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

import structlog
import uvloop

from inference.bootstrap import (
    build_gateway,
    build_gateway_child,
    build_supervisor,
    check_settings,
)
from inference.gateway.listener import CannotListen
from inference.observability.logs import configure_logging
from inference.settings import (
    HelperSettings,
    Settings,
    SettingsError,
    load_helper_settings,
    load_settings,
)

# What a shell calls a wrong use of a command.
BAD_SETTINGS = 2
FAILED = 1
HELPER = "helper"

log = structlog.get_logger(__name__)


def main(argv: Sequence[str]) -> int:
    """Run one process to its end and return its exit status."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.process == HELPER:
            return run_helper(load_helper_settings(os.environ))
        settings = load_settings(os.environ)
        check_settings(settings)
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return BAD_SETTINGS
    slot = getattr(arguments, "slot", None)
    name = arguments.process if slot is None else f"{arguments.process}/{slot}"
    configure_logging(settings.log_level, process=name)
    return PROCESSES[arguments.process](settings, arguments)


def run_gateway(settings: Settings, _arguments: argparse.Namespace) -> int:
    try:
        asyncio.run(build_gateway(settings).run())
    except CannotListen as problem:
        log.error(
            "cannot listen",
            settings=problem.settings,
            host=problem.host,
            port=problem.port,
            error=problem.why,
        )
        return FAILED
    return 0


def run_gateway_child(settings: Settings, arguments: argparse.Namespace) -> int:
    listener = socket.socket(fileno=arguments.fd)
    parent = socket.socket(fileno=arguments.control_fd)

    async def serve() -> int:
        try:
            child = build_gateway_child(
                settings, slot=arguments.slot, parent=parent, generation=arguments.generation
            )
        except OSError as error:
            log.error("HEADWORKS_VAR cannot be written to", error=str(error))
            return FAILED
        await child.run(listener)
        return 0

    return uvloop.run(serve())


def run_pools(settings: Settings, _arguments: argparse.Namespace) -> int:
    async def supervise() -> None:
        await build_supervisor(settings).run()

    asyncio.run(supervise())
    return 0


def run_helper(settings: HelperSettings) -> int:
    configure_logging(settings.log_level, process=HELPER)
    # its libraries are loaded by this process alone, and for vectors so short threads cost time
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    build = import_module("inference.helper.process").build_helper
    try:
        helper = build(settings)
        uvloop.run(helper.run())
    except OSError as error:
        log.error("the helper cannot start", error=str(error))
        return FAILED
    return 0


PROCESSES: Mapping[str, Callable[[Settings, argparse.Namespace], int]] = {
    "gateway": run_gateway,
    "gateway-child": run_gateway_child,
    "pools": run_pools,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m inference", description=__doc__)
    processes = parser.add_subparsers(dest="process", required=True)
    processes.add_parser("gateway", help="the public socket and the processes that serve it")
    child = processes.add_parser("gateway-child", help="one of those; started by `gateway`")
    child.add_argument("--fd", type=int, required=True, help="the listening socket")
    child.add_argument("--control-fd", type=int, required=True, help="a socket to the parent")
    child.add_argument("--slot", type=int, required=True, help="which of them this is")
    child.add_argument("--generation", type=int, help="the restart this is the result of")
    processes.add_parser(HELPER, help="what the semantic tier of the caches asks; one a host")
    processes.add_parser("pools", help="the supervisor of the pools' workers")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
