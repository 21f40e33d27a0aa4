"""The project's own sources: read once for all architecture checks, parsed for those who ask."""

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLANES = ("inference", "controlplane", "dashboards")


@dataclass(frozen=True)
class Source:
    """One module: its path from the root, its text and its tree."""

    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return _parsed(self.text)

    @property
    def name(self) -> str:
        return self.path.as_posix()


def sources(*tops: str) -> Iterator[Source]:
    """Every module below these top-level folders, migrations left out."""
    for top in tops or (*PLANES, "tests", "benchmarks"):
        yield from _below(top)


@cache
def _below(top: str) -> tuple[Source, ...]:
    return tuple(_read(top))


def _read(top: str) -> Iterator[Source]:
    for path in sorted((ROOT / top).rglob("*.py")):
        if "migrations" not in path.parts:
            yield Source(path.relative_to(ROOT), path.read_text())


def _parsed(text: str) -> ast.Module:
    """Parse, and collect no garbage meanwhile.

    Python 3.11 counts depth wrongly when a finalizer that does much runs in the middle of it, and
    gives up.
    """
    gc.disable()
    try:
        return ast.parse(text)
    finally:
        gc.enable()
