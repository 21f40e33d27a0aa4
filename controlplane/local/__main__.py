"""`python -m controlplane.local run | engine | status`: the installation on this machine."""

import asyncio
import os
import sys
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from functools import partial

from controlplane.local.bringup import bring_up
from controlplane.local.engine import build_engine, find_engine
from controlplane.local.keys import load_keys
from controlplane.local.launcher import launch, only_launcher
from controlplane.local.places import find_places, make_places
from controlplane.local.problems import LocalProblem
from controlplane.local.roles import Installation, check_given_models, plan_stores
from controlplane.local.settings import load_local_settings
from controlplane.local.status import show_status
from controlplane.local.terminal import Terminal


def main(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Do one of the commands; what stops it is said in a sentence, with exit code 1."""
    parser = ArgumentParser(prog="python -m controlplane.local", description=__doc__)
    commands = {"run": run, "engine": build, "status": status}
    parser.add_argument("command", choices=sorted(commands))
    command = commands[parser.parse_args(arguments).command]
    try:
        return command(environ)
    except (LocalProblem, OSError) as problem:
        print(f"headworks: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


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


def status(environ: Mapping[str, str]) -> int:
    """Print what is on record and whether it lives; 0 if a launcher runs."""
    settings = load_local_settings(environ)
    return show_status(find_places(settings.var), settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
