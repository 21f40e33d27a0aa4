"""Every extension point is a kind, a registry entry and a file, and the three agree."""

import importlib
from enum import StrEnum

import pytest

from controlplane.decisions.alert_kinds import AlertKind, ChannelKind
from dashboards.kinds import PanelKind
from inference.contract import kinds
from tests.architecture.sources import ROOT

POINTS = [
    (kinds.Strategy, "inference/decisions/routing", "strategies"),
    (kinds.DegradationStep, "inference/decisions/degradation", "steps"),
    (kinds.GuardKind, "inference/decisions/guarding", "guards"),
    (kinds.Backend, "inference/workers", "backends"),
    (kinds.Provisioner, "inference/pools", "provisioners"),
    (kinds.CacheTier, "inference/caches", "tiers"),
    (PanelKind, "dashboards", "panels"),
    (AlertKind, "controlplane/alerting", "measures"),
    (ChannelKind, "controlplane/notify", "channels"),
]


@pytest.mark.parametrize(("kind", "room", "plural"), POINTS)
def test_kinds_registry_and_files_agree(kind: type[StrEnum], room: str, plural: str) -> None:
    names = {member.value for member in kind}
    files = {path.stem for path in (ROOT / room / plural).glob("*.py")} - {"__init__"}
    registry = importlib.import_module(f"{room.replace('/', '.')}.registry").REGISTRY
    assert {key.value for key in registry} == names
    assert files == names
