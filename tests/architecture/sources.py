"""The project's own sources, parsed once for every architecture check."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLANES = ("inference", "controlplane", "dashboards")


@dataclass(frozen=True, slots=True)
class Source:
    """One module: its path from the root, its text and its tree."""

    path: Path
    text: str
    tree: ast.Module

    @property
    def name(self) -> str:
        return self.path.as_posix()


@cache
def sources(*tops: str) -> tuple[Source, ...]:
    """Every module below these top-level folders, migrations left out."""
    return tuple(_read(tops or (*PLANES, "tests", "benchmarks")))


def _read(tops: tuple[str, ...]) -> Iterator[Source]:
    for top in tops:
        for path in sorted((ROOT / top).rglob("*.py")):
            if "migrations" in path.parts:
                continue
            text = path.read_text()
            yield Source(path.relative_to(ROOT), text, ast.parse(text))
