"""What the person at the terminal sees: plain lines with the time since the start."""

import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from controlplane.local.places import size_of, tail_of

_FIRST_NOTICE_S = 5.0
_LONGEST_GAP_S = 30.0


class Terminal:
    """Prints lines; a terminal that has gone away does not stop anything."""

    def __init__(self, out: TextIO = sys.stdout) -> None:
        self._out = out
        self._began = time.monotonic()

    def say(self, text: str) -> None:
        """Print one event with the seconds since the start."""
        self.show(f"[{time.monotonic() - self._began:6.1f} s] {text}")

    def show(self, text: str) -> None:
        """Print as it is."""
        with suppress(OSError, ValueError):
            print(text, file=self._out, flush=True)


class Waiting:
    """One wait: says now and then, ever less often, that it goes on and for what."""

    def __init__(self, terminal: Terminal, what: str, log: Path | None) -> None:
        self._terminal = terminal
        self._text = what if log is None else f"{what} (log: {log})"
        self._began = time.monotonic()
        self._gap_s = _FIRST_NOTICE_S
        self._notice_at = self._began + self._gap_s

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self._began

    def tick(self) -> None:
        """Call often; prints only when a notice is due."""
        if time.monotonic() >= self._notice_at:
            self._terminal.say(f"still waiting for {self._text}, {self.elapsed_s:.0f} s")
            self._gap_s = min(self._gap_s * 2, _LONGEST_GAP_S)
            self._notice_at = time.monotonic() + self._gap_s


@dataclass(slots=True)
class Tail:
    """What a log gained since it was last shown; the same lines are not shown twice."""

    log: Path
    size: int = field(init=False)
    shown: str = ""

    def __post_init__(self) -> None:
        self.size = size_of(self.log)

    def take_new(self) -> str:
        text = tail_of(self.log, since=self.size)
        self.size = size_of(self.log)
        return text

    def show_new(self, terminal: Terminal) -> None:
        """Show what is meant for people; structured lines are for the file."""
        text = plain(self.take_new())
        if text and text != self.shown:
            terminal.show(text)
            self.shown = text


def plain(text: str) -> str:
    """The lines of a log that are no structured ones."""
    return "\n".join(line for line in text.splitlines() if not line.startswith("{"))
