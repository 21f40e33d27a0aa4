"""The order in which an installation comes up, and what each step waits for.

Gateways and pools start from the snapshot on disk, so they wait for neither the database nor the
console; an engine takes half a minute to load and is therefore asked for first.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from subprocess import Popen

from controlplane.local.access import (
    API_KEY,
    DEMO_MODEL,
    show_access,
    update_demo_file,
)
from controlplane.local.launcher import Child, Launcher
from controlplane.local.news import tell_news
from controlplane.local.places import Places
from controlplane.local.postgres import Postgres, prepare_postgres, start_postgres
from controlplane.local.postgres import is_answering as is_postgres_answering
from controlplane.local.probes import (
    check_port_is_free,
    has_ready_worker,
    is_completing,
    is_serving,
)
from controlplane.local.problems import LocalProblem
from controlplane.local.processes import (
    CONSOLE,
    FEED,
    GATEWAY,
    HELPER,
    JOBS,
    POOLS,
    RECORDER,
    TASK,
    Start,
    start_group,
)
from controlplane.local.roles import (
    Installation,
    common_environment,
    control_environment,
    data_environment,
    gateway_environment,
    helper_environment,
    seed_environment,
    start_of,
)
from controlplane.local.semantic_model import find_semantic_model
from controlplane.local.terminal import plain
from controlplane.local.valkey import Store, start_store
from controlplane.local.valkey import is_answering as is_store_answering
from inference.contract.params import GATEWAY_DRAIN_S

_COMPLETION_GAP_S = 1.0
# What the data plane's processes end with when their environment is at fault.
_BAD_SETTINGS = 2
# Gateway processes whose parent died have requests to answer, and their ends to hand over.
_DRAIN_S = GATEWAY_DRAIN_S + 15.0


async def bring_up(installation: Installation, launcher: Launcher) -> None:
    """Start everything, wait until it serves, say how to reach it.

    From then on, until cancelled, it tells which gateway process or worker ends and returns. Of the
    helper nobody waits: its model may have to be fetched first.
    """
    await asyncio.gather(
        _bring_up_rest(installation, launcher), _bring_up_helper(installation, launcher)
    )


async def _bring_up_rest(installation: Installation, launcher: Launcher) -> None:
    began = time.time()
    settings = installation.settings
    check_port_is_free(settings.console_host, settings.console_port, "CONSOLE")
    check_port_is_free(settings.gateway_host, settings.gateway_port, "GATEWAY")
    check_port_is_free("127.0.0.1", settings.gateway_admin_port, "GATEWAY_ADMIN")
    await asyncio.gather(*(_keep_store(launcher, store) for store in installation.stores))
    await launcher.keep(_gateways(installation))
    pairs, _ = await asyncio.gather(
        _bring_up_console(installation, launcher), _bring_up_pools(installation, launcher)
    )
    gateways = partial(is_serving, settings.gateway_url, "/ready")
    await _served(launcher, "gateways", gateways, "/ready of the gateways", "gateway")
    if installation.engine is not None and API_KEY in pairs:
        await _wait_for_answer(installation, launcher, pairs, began)
    has_model = installation.engine is not None or settings.has_upstream
    show_access(launcher.terminal, pairs, installation.places.demo, has_model=has_model)
    await tell_news(installation.places, launcher.terminal)


async def _keep_store(launcher: Launcher, store: Store) -> None:
    name = f"valkey-{store.name}"
    log = store.places.log(name)
    child = Child(name, partial(start_store, store), log, name, partial(is_store_answering, store))
    await launcher.keep(child)
    launcher.terminal.say(f"{store.name} store is up")


def _gateways(installation: Installation) -> Child:
    environment = gateway_environment(installation)
    arguments = ("-m", "inference", "gateway")
    start = start_of(installation, "gateway", GATEWAY, arguments, environment)
    child = _child(installation, start, bad_settings_code=_BAD_SETTINGS)
    # not by /ready: one that is drained on purpose is back as well
    is_back = partial(is_serving, installation.settings.gateway_url, "/health")
    return replace(child, drain_s=_DRAIN_S, is_back=is_back)


def _child(
    installation: Installation, start: Start, *, bad_settings_code: int | None = None
) -> Child:
    groups = installation.places.groups
    run = partial(start_group, start, groups)
    return Child(start.name, run, start.log, bad_settings_code=bad_settings_code)


async def _bring_up_pools(installation: Installation, launcher: Launcher) -> None:
    if installation.needs_build:
        await _build_engine(installation, launcher)
    environment = data_environment(installation)
    arguments = ("-m", "inference", "pools")
    start = start_of(installation, "pools", POOLS, arguments, environment)
    await launcher.keep(_child(installation, start, bad_settings_code=_BAD_SETTINGS))


async def _bring_up_helper(installation: Installation, launcher: Launcher) -> None:
    """Fetch the helper's model if need be and keep the helper; without either it is told."""
    if not installation.settings.has_helper:
        launcher.terminal.say("semantic cache: off (HEADWORKS_HELPER)")
        return
    try:
        if not find_semantic_model(installation.settings.environ).is_dir():
            await _fetch_semantic_model(installation, launcher)
        arguments = ("-m", "inference", "helper")
        environment = helper_environment(installation)
        start = start_of(installation, "helper", HELPER, arguments, environment)
        await launcher.keep(_child(installation, start))
    except LocalProblem as problem:
        launcher.terminal.say(f"semantic cache: off: {problem}")


async def _fetch_semantic_model(installation: Installation, launcher: Launcher) -> None:
    """Fetch it in a process of its own, passing on what it says."""
    arguments = ("-m", "controlplane.local", "semantic-model")
    environment = common_environment(installation)
    start = start_of(installation, "semantic-model", TASK, arguments, environment)
    start.log.unlink(missing_ok=True)
    relay = _relay(start.log, launcher.terminal.say)
    await launcher.run_once(start, "the semantic cache's model", relay)


async def _build_engine(installation: Installation, launcher: Launcher) -> None:
    """Build the engine's environment in a process of its own, passing on what it says."""
    arguments = ("-m", "controlplane.local", "engine")
    environment = common_environment(installation)
    start = start_of(installation, "engine-environment", TASK, arguments, environment)
    start.log.unlink(missing_ok=True)
    launcher.terminal.say("engine environment: building it once, 1 to 2 minutes and 3.4 GB")
    relay = _relay(start.log, launcher.terminal.say)
    await launcher.run_once(start, "the engine's environment", relay)


def _relay(log: Path, say: Callable[[str], None]) -> Callable[[], None]:
    """A function that says the lines that were added to a log since it was last called."""
    position = 0

    def relay() -> None:
        nonlocal position
        try:
            lines = log.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return
        for line in plain("\n".join(lines[position:])).splitlines():
            say(line)
        position = len(lines)

    return relay


async def _bring_up_console(installation: Installation, launcher: Launcher) -> Mapping[str, str]:
    """Database, migrations, demo, then what needs them; return how to reach them."""
    settings = installation.settings
    postgres = (
        None if settings.database_url else await _keep_postgres(launcher, installation.places)
    )
    pairs = await _prepare(installation, launcher, postgres)
    for child in _control_children(installation, postgres):
        await launcher.keep(child)
    console = partial(is_serving, settings.console_url, "/-/status")
    await _served(launcher, "console", console, "/-/status of the console", "console")
    return pairs


async def _keep_postgres(launcher: Launcher, places: Places) -> Postgres:
    server = await asyncio.to_thread(prepare_postgres, places)

    def start() -> Popen[bytes]:
        return start_postgres(prepare_postgres(places))

    probe = partial(is_postgres_answering, server)
    await launcher.keep(Child("postgres", start, places.log("postgres"), "PostgreSQL", probe))
    launcher.terminal.say("PostgreSQL is up")
    return server


async def _prepare(
    installation: Installation, launcher: Launcher, postgres: Postgres | None
) -> Mapping[str, str]:
    """Static files, migrations, demo and first version; return how to reach what will run."""
    places = installation.places
    seeded = places.run / "seeded.env"
    arguments = ("manage.py", "prepare", "--secrets-file", str(seeded))
    environment = seed_environment(installation, postgres)
    start = start_of(installation, "prepare", TASK, arguments, environment)
    start.log.unlink(missing_ok=True)
    await launcher.run_once(start, "manage.py prepare", _relay(start.log, launcher.terminal.say))
    return update_demo_file(places.demo, seeded, installation.settings)


def _control_children(installation: Installation, postgres: Postgres | None) -> tuple[Child, ...]:
    settings = installation.settings
    environment = control_environment(installation, postgres)
    schedule = str(installation.places.run / "celerybeat-schedule")
    lines = {
        CONSOLE: (
            *("-m", "uvicorn", "controlplane.asgi:application", "--no-proxy-headers"),
            *("--host", settings.console_host, "--port", str(settings.console_port)),
            *("--timeout-graceful-shutdown", "3"),
        ),
        JOBS: (
            *("-m", "celery", "-A", "controlplane.celery", "worker", "-B", "-s", schedule),
            *("--without-gossip", "--without-mingle", "--loglevel", "info"),
        ),
        RECORDER: ("manage.py", "record_usage"),
        FEED: ("manage.py", "run_feed"),
    }
    # which `prepare` just made, and which load all pages: a second, and 25 MB
    unchecked = environment | {"CELERY_SKIP_CHECKS": "1"}
    children = {
        kind: _child(
            installation,
            start_of(
                installation, kind, kind, arguments, unchecked if kind == JOBS else environment
            ),
        )
        for kind, arguments in lines.items()
    }
    is_back = partial(is_serving, settings.console_url, "/-/status")
    children[CONSOLE] = replace(children[CONSOLE], is_back=is_back)
    return tuple(children.values())


async def _served(
    launcher: Launcher, name: str, is_ready: Callable[[], bool], what: str, log: str
) -> None:
    await launcher.until(is_ready, what, launcher.places.log(log))
    launcher.terminal.say(f"{name}: up")


async def _wait_for_answer(
    installation: Installation, launcher: Launcher, pairs: Mapping[str, str], began: float
) -> None:
    """Wait for a ready worker first: a call before that would only fill the ledger."""
    places, data_key = installation.places, installation.keys.data_key
    pools = places.log("pools")
    is_loaded = partial(has_ready_worker, places.var, data_key, began)
    await launcher.until(is_loaded, "the demo engine to load its model", pools)
    url, key = installation.settings.gateway_url, pairs[API_KEY]

    def answers() -> bool:
        done = is_completing(url, key, DEMO_MODEL)
        if not done:
            time.sleep(_COMPLETION_GAP_S)
        return done

    await launcher.until(answers, "a first answer through the gateway", places.log("gateway"))
    launcher.terminal.say("engine: answers through the gateway")
