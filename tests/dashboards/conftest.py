"""Organisations with people who watch, on the real stores."""

from tests.controlplane.conftest import (
    _quick_passwords,
    actor,
    collected_files,
    folder,
    state_store,
)
from tests.dashboards.watchers import layer, watchers, watches

__all__ = [
    "_quick_passwords",
    "actor",
    "collected_files",
    "folder",
    "layer",
    "state_store",
    "watchers",
    "watches",
]
