"""What the documents for operators and builders say is what the code has."""

import re
from collections.abc import Mapping

from pydantic_core import PydanticUndefined

from controlplane.environment import PREFIX, ProcessSettings
from controlplane.local.settings import load_local_settings
from controlplane.local.valkey import BROKER, CONTROL, DATA, state_rules
from controlplane.management.commands.adopt_configuration import Command
from inference.settings import load_settings
from tests.architecture.sources import ROOT

NAME = re.compile(r"\bHEADWORKS_[A-Z]+(?:_[A-Z]+)*\b")
ROW = re.compile(r"^\| `(HEADWORKS_\w+)` \| ([^|]+) \|", re.MULTILINE)
PATH = re.compile(r"`((?:inference|controlplane|dashboards|templates|tests|docs)/[\w./-]*)`")
OPERATING = (ROOT / "docs" / "operating.md").read_text()
ADDING = (ROOT / "docs" / "adding.md").read_text()
KEY = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="


def settings_of_the_code() -> set[str]:
    """Every setting that some process reads."""
    texts = [
        path.read_text()
        for part in ("controlplane", "inference", "dashboards")
        for path in (ROOT / part).rglob("*.py")
    ]
    spelled = {name for text in texts for name in NAME.findall(text)}
    return spelled | {PREFIX + name.upper() for name in ProcessSettings.model_fields}


def documented() -> Mapping[str, str]:
    """The default of every setting as the table says it."""
    return {name: default.strip().strip("`") for name, default in ROW.findall(OPERATING)}


def test_every_setting_is_documented_and_every_documented_one_is_read() -> None:
    assert sorted(documented()) == sorted(settings_of_the_code())


def as_told(value: object) -> str:
    """A default of the code in the words of the table."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if value is None or value in ((), frozenset()):
        return "none"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def test_defaults_are_those_of_the_code() -> None:
    told = documented()
    own_words = {"GATEWAY_ADMIN_PORT", "CACHE_URL", "BROKER_URL"}
    control = {
        name.upper(): as_told(field.default)
        for name, field in ProcessSettings.model_fields.items()
        if field.default is not PydanticUndefined
    }
    needed = {"STATE_URL": "unix:///s", "DATA_KEY": KEY, "KEY_PEPPERS": f"1:{KEY}"}
    data = load_settings({PREFIX + name: value for name, value in needed.items()})
    local = load_local_settings({})
    others = {
        "GATEWAY_HOST": data.gateway_host,
        "GATEWAY_PROCESSES": str(data.gateway_processes),
        "BODY_LIMIT_MB": str(data.body_limit_bytes >> 20),
        "LIMIT_END_USERS": str(data.limit_end_users),
        "LOG_LEVEL": data.log_level,
        "DEMO_ENGINE": "vllm" if local.has_engine else "none",
        "CONSOLE_PORT": str(local.console_port),
    }
    expected = {
        PREFIX + name: value
        for name, value in {**control, **others}.items()
        if name not in own_words
    }
    assert {name: told[name] for name in expected} == expected
    assert (data.gateway_admin_port, local.gateway_admin_port) == (
        data.gateway_port + 1,
        local.gateway_port + 1,
    )


def test_the_rules_of_store_users_are_those_of_the_embedded_store() -> None:
    for role in (CONTROL, DATA, BROKER):
        assert f"user {role} on >… {state_rules(role)}\n" in OPERATING


def test_every_file_that_is_named_exists() -> None:
    named = {path for text in (OPERATING, ADDING) for path in PATH.findall(text)}
    assert len(named) > 60
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []


def test_the_command_that_is_named_is_there() -> None:
    assert "manage adopt_configuration --yes" in OPERATING
    assert Command.help.startswith("Begin a new history")
