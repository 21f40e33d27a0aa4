"""Organisations with people who watch, on the real stores."""

from tests.controlplane.conftest import (
    _quick_passwords,
    actor,
    collected_files,
    folder,
    state_store,
)

__all__ = ["_quick_passwords", "actor", "collected_files", "folder", "state_store"]
