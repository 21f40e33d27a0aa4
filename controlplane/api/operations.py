"""One of several writes that a bulk call asks for."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_OPERATIONS = 500
"""They hold the lock of configuration edits together: some seconds at most."""


@dataclass(frozen=True, slots=True)
class Operation:
    """What to do: `id` and `if_match` (a version) of the row, `data` as in a single write."""

    action: str
    id: str | None = None
    if_match: int | None = None
    data: Mapping[str, Any] = field(default_factory=dict)
