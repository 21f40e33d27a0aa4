"""What each process is told by its environment: its role's store user, and no secret it can do
without."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.local.engine import WEIGHTS, EnginePlaces
from controlplane.local.keys import Keys
from controlplane.local.places import Places
from controlplane.local.postgres import Postgres
from controlplane.local.problems import LocalProblem
from controlplane.local.processes import Start
from controlplane.local.semantic_model import find_semantic_model
from controlplane.local.settings import LocalSettings
from controlplane.local.valkey import (
    BROKER,
    CACHE,
    CONTROL,
    DATA,
    HELPER,
    STATE,
    Store,
    StoreUser,
    cache_rules,
    state_rules,
)

ROOT = Path(__file__).parents[2]
_OTLP_HEADERS = "HEADWORKS_OTLP_HEADERS"
_SMTP_URL = "HEADWORKS_SMTP_URL"
_SECRET_NAMES = frozenset(
    f"HEADWORKS_{name}"
    for name in (
        *("DATABASE_URL", "STATE_URL", "CACHE_URL", "BROKER_URL", "SECRET_KEY", "DATA_KEY"),
        *("KEY_PEPPERS", "DEMO_UPSTREAM_KEY", "DEMO_UPSTREAM_URL", "OTLP_HEADERS"),
        "SMTP_URL",
    )
)


@dataclass(frozen=True, slots=True)
class Installation:
    """All that children's start lines and environments are made of."""

    settings: LocalSettings
    places: Places
    keys: Keys = field(repr=False)
    state: Store | None
    cache: Store | None
    engine: EnginePlaces | None

    @property
    def stores(self) -> tuple[Store, ...]:
        """The stores that are ours to start."""
        return tuple(store for store in (self.state, self.cache) if store is not None)

    @property
    def engine_python(self) -> Path | None:
        """The engine's Python: the user's, or the demo engine's."""
        return self.settings.engine_python or (self.engine.python if self.engine else None)

    @property
    def models(self) -> Path | None:
        """The folder pools may take weights from: the user's, or the demo's."""
        return self.settings.models or (self.engine.models if self.engine else None)

    @property
    def needs_build(self) -> bool:
        """Whether the demo engine lacks something that the user didn't give either."""
        is_given = self.settings.engine_python is not None and self.settings.models is not None
        return self.engine is not None and not is_given and not self.engine.is_complete()


def check_given_models(settings: LocalSettings) -> None:
    """Raise LocalProblem if the demo engine could not serve from the user's own folder."""
    if settings.has_engine and settings.models is not None:
        wanted = WEIGHTS[0].name
        if not (settings.models / wanted).is_dir():
            raise LocalProblem(
                f"HEADWORKS_MODELS={settings.models} has no {wanted}, which the demo serves; "
                "unset HEADWORKS_MODELS, or set HEADWORKS_DEMO_ENGINE=none"
            )


def plan_stores(
    settings: LocalSettings, places: Places, keys: Keys
) -> tuple[Store | None, Store | None]:
    """State and cache store with a user for each role; None where an address was given."""
    state, cache = (
        Store(
            name,
            places,
            tuple(StoreUser(role, keys.password(f"{name}-{role}"), rules(role)) for role in roles),
        )
        for name, roles, rules in (
            (STATE, (CONTROL, DATA, BROKER), state_rules),
            (CACHE, (CONTROL, DATA, HELPER), cache_rules),
        )
    )
    return None if settings.state_url else state, None if settings.cache_url else cache


def common_environment(installation: Installation) -> dict[str, str]:
    """What every child may know: the caller's environment without secrets, and our settings."""
    settings = installation.settings
    inherited = {
        name: value for name, value in settings.environ.items() if name not in _SECRET_NAMES
    }
    return inherited | {
        "HEADWORKS_VAR": str(installation.places.var),
        "HEADWORKS_CONSOLE_HOST": settings.console_host,
        "HEADWORKS_CONSOLE_PORT": str(settings.console_port),
        "HEADWORKS_GATEWAY_HOST": settings.gateway_host,
        "HEADWORKS_GATEWAY_PORT": str(settings.gateway_port),
        "HEADWORKS_GATEWAY_ADMIN_PORT": str(settings.gateway_admin_port),
        "HEADWORKS_OWN_PORTS": settings.own_ports,
        "PYTHONUNBUFFERED": "1",
    }


def data_environment(installation: Installation) -> Mapping[str, str]:
    """Gateways and pools: no database, no broker, no session secret."""
    told = {
        "HEADWORKS_ENGINE_PYTHON": installation.engine_python,
        "HEADWORKS_MODELS": installation.models,
    }
    return (
        common_environment(installation)
        | _shared_secrets(installation, DATA)
        | {name: str(value) for name, value in told.items() if value}
    )


def gateway_environment(installation: Installation) -> Mapping[str, str]:
    """Gateways, which alone keep answers, and send spans to a receiver that wants a secret."""
    settings, cache = installation.settings, installation.cache
    told = {
        _OTLP_HEADERS: settings.environ.get(_OTLP_HEADERS),
        "HEADWORKS_CACHE_URL": settings.cache_url or (cache.url(DATA) if cache else None),
        "HEADWORKS_HELPER_SOCKET": str(installation.places.helper_socket),
    }
    given = {name: value for name, value in told.items() if value}
    return {**data_environment(installation), **given}


def helper_environment(installation: Installation) -> Mapping[str, str]:
    """The helper, which keeps questions: no state store, no database, no peppers."""
    settings, cache = installation.settings, installation.cache
    told = {
        "HEADWORKS_CACHE_URL": settings.cache_url or (cache.url(HELPER) if cache else None),
        "HEADWORKS_DATA_KEY": installation.keys.data_key,
        "HEADWORKS_HELPER_MODEL": str(find_semantic_model(settings.environ)),
        "HEADWORKS_HELPER_SOCKET": str(installation.places.helper_socket),
    }
    given = {name: value for name, value in told.items() if value}
    return {**common_environment(installation), **given}


def control_environment(installation: Installation, postgres: Postgres | None) -> Mapping[str, str]:
    """Console, jobs, recorder, feed and management commands."""
    settings, state = installation.settings, installation.state
    database_url = postgres.url if postgres else settings.database_url
    broker_url = state.broker_url(BROKER) if state else settings.broker_url
    cache_url = installation.cache.url(CONTROL) if installation.cache else None
    told = {
        "HEADWORKS_CACHE_URL": settings.cache_url or cache_url,
        "HEADWORKS_DATABASE_URL": database_url,
        "HEADWORKS_BROKER_URL": settings.broker_url or broker_url,
        "HEADWORKS_SECRET_KEY": installation.keys.secret_key,
        # of mail, which the jobs send
        _SMTP_URL: settings.environ.get(_SMTP_URL),
    }
    if installation.models is not None:
        told["HEADWORKS_MODELS"] = str(installation.models)
    return (
        common_environment(installation)
        | _shared_secrets(installation, CONTROL)
        | {name: value for name, value in told.items() if value}
    )


def seed_environment(installation: Installation, postgres: Postgres | None) -> Mapping[str, str]:
    """The one command that is told of the demo's upstream and its key."""
    environ = installation.settings.environ
    names = ("HEADWORKS_DEMO_UPSTREAM_URL", "HEADWORKS_DEMO_UPSTREAM_KEY")
    upstream = {name: environ[name] for name in names if environ.get(name)}
    engine = {"HEADWORKS_DEMO_ENGINE": "vllm" if installation.engine else "none"}
    return dict(control_environment(installation, postgres)) | upstream | engine


def _shared_secrets(installation: Installation, role: str) -> dict[str, str]:
    keys, state = installation.keys, installation.state
    state_url = installation.settings.state_url or (state.url(role) if state else "")
    return {
        "HEADWORKS_DATA_KEY": keys.data_key,
        "HEADWORKS_KEY_PEPPERS": keys.peppers,
        "HEADWORKS_STATE_URL": state_url,
    }


def start_of(
    installation: Installation,
    name: str,
    kind: str,
    arguments: tuple[str, ...],
    environment: Mapping[str, str],
) -> Start:
    """A start line of our own Python in the checkout's folder."""
    return Start(
        name=name,
        kind=kind,
        command=(sys.executable, *arguments),
        environment=environment,
        log=installation.places.log(name),
        folder=ROOT,
    )
