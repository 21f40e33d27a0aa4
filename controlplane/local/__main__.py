"""`python -m controlplane.local COMMAND`: the installation on this machine."""

import asyncio
import os
import signal
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from controlplane.local.backup import back_up
from controlplane.local.bringup import bring_up
from controlplane.local.engine import build_engine, find_engine
from controlplane.local.keys import load_keys
from controlplane.local.launcher import launch
from controlplane.local.launcher_lock import only_launcher, running_launcher
from controlplane.local.places import find_places, make_places
from controlplane.local.postgres import find_postgres
from controlplane.local.problems import LocalProblem
from controlplane.local.restore import Allowed, restore
from controlplane.local.roles import (
    ROOT,
    Installation,
    check_given_models,
    control_environment,
    plan_stores,
)
from controlplane.local.semantic_model import fetch_semantic_model
from controlplane.local.settings import load_local_settings
from controlplane.local.status import show_status
from controlplane.local.terminal import Terminal


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Do one of the commands; what stops it is said in a sentence, with exit code 1."""
    told = _parser().parse_args(arguments)
    try:
        return _do(told, environ)
    except (LocalProblem, OSError) as problem:
        print(f"headworks: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> ArgumentParser:
    parser = ArgumentParser(prog="python -m controlplane.local", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("run", help="start everything and keep it")
    commands.add_parser("engine", help="build the engine's environment")
    commands.add_parser("semantic-model", help="fetch the semantic cache's embedder")
    commands.add_parser("status", help="what is on record, and whether it lives")
    backup = commands.add_parser("backup", help="back the database up, while it runs or not")
    backup.add_argument("file", nargs="?", type=Path, help="default: a new one in VAR/backups")
    backup.add_argument("--with-secrets", action="store_true", help="put the secrets in as well")
    again = commands.add_parser("restore", help="put a back-up in the database's place")
    again.add_argument("file", type=Path)
    again.add_argument("--other-keys", action="store_true", help="also if the keys here are others")
    again.add_argument("--other-version", action="store_true", help="also from a newer release")
    manage = commands.add_parser("manage", help="run manage.py with the installation's settings")
    manage.add_argument("arguments", nargs=REMAINDER)
    return parser


def _do(told: Namespace, environ: Mapping[str, str]) -> int:
    if told.command == "run":
        return run(environ)
    if told.command == "backup":
        return back_up(environ, told.file, with_secrets=told.with_secrets)
    if told.command == "restore":
        allowed = Allowed(other_keys=told.other_keys, other_version=told.other_version)
        return restore(environ, told.file, allowed)
    if told.command == "manage":
        return manage(environ, told.arguments)
    simple = {"engine": build, "semantic-model": semantic_model, "status": status}
    return simple[told.command](environ)


def run(environ: Mapping[str, str]) -> int:
    """Start everything and keep it until a signal."""
    settings = load_local_settings(environ)
    check_given_models(settings)
    places = make_places(settings.var)
    terminal = Terminal()
    with only_launcher(places):
        terminal.show(f"Headworks in {places.var}")
        keys = load_keys(places.secrets, environ)
        state, cache = plan_stores(settings, places, keys)
        engine = find_engine(environ) if settings.has_engine else None
        installation = Installation(settings, places, keys, state, cache, engine)
        return asyncio.run(launch(places, terminal, partial(bring_up, installation)))


def build(environ: Mapping[str, str]) -> int:
    """Build the engine's environment and the demo's weights, and print where they are."""
    engine = find_engine(environ)
    build_engine(engine, partial(print, flush=True))
    print(f"python {engine.python}\nmodels {engine.models}", flush=True)
    return 0


def semantic_model(environ: Mapping[str, str]) -> int:
    """Fetch the semantic cache's embedder, and print where it is."""
    folder = fetch_semantic_model(environ, partial(print, flush=True))
    print(f"embedder {folder}", flush=True)
    return 0


def manage(environ: Mapping[str, str], arguments: Sequence[str]) -> int:
    """Become `manage.py` with what the console of this installation is told."""
    settings = load_local_settings(environ)
    places = find_places(settings.var)
    if not running_launcher(places):
        raise LocalProblem(f"Headworks does not run on {places.var}; start it first")
    keys = load_keys(places.secrets, environ)
    state, cache = plan_stores(settings, places, keys)
    installation = Installation(settings, places, keys, state, cache, None)
    server = None if settings.database_url else find_postgres(places)
    line = (sys.executable, str(ROOT / "manage.py"), *arguments)
    os.execve(sys.executable, line, dict(control_environment(installation, server)))


def status(environ: Mapping[str, str]) -> int:
    """Print what is on record and whether it lives; 0 if a launcher runs."""
    settings = load_local_settings(environ)
    try:
        code = show_status(find_places(settings.var), settings)
        sys.stdout.flush()
    except BrokenPipeError:
        # `status | head -1` has what it wanted; what is left in the buffer is for nobody
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    return code


if __name__ == "__main__":
    # what is told to end cleans up like after Ctrl-C; `run` hears signals its own way
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:], os.environ))
