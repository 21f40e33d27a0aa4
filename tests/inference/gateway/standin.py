"""A serving process that serves nothing: it speaks to its parent as its mood file says.

Run as a program. Words of the mood: `mute` never accepts, `die` ends at once, `stubborn` ignores
SIGTERM, `wants=N` reads restart generation N in its configuration. Each line of the diary is what
happened to which slot.
"""

import json
import os
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path
from socket import socket
from types import FrameType


def main() -> None:
    parser = ArgumentParser()
    parser.add_argument("folder", type=Path)
    for name in ("--fd", "--control-fd", "--slot"):
        parser.add_argument(name, type=int, required=True)
    parser.add_argument("--generation")
    given = parser.parse_args()
    mood = (given.folder / "mood").read_text().split()

    def note(what: str) -> None:
        with (given.folder / "diary").open("a") as diary:
            diary.write(f"{what} {given.slot}\n")

    def on_term(_number: int, _frame: FrameType | None) -> None:
        note("told")
        if "stubborn" not in mood:
            os._exit(0)

    signal.signal(signal.SIGTERM, on_term)
    note("started" if given.generation is None else f"started for {given.generation}")
    if "die" in mood:
        sys.exit(3)
    parent = socket(fileno=given.control_fd)

    def say(**message: object) -> None:
        parent.sendall(json.dumps(message).encode() + b"\n")

    for word in mood:
        if word.startswith("wants="):
            wanted = int(word.partition("=")[2])
            say(type="wanted", restart_generation=wanted, is_drained=False)
    if "mute" not in mood:
        note("accepts")
        say(type="accepting")
    while asked := parent.recv(100):
        for _ in range(asked.count(b"\n")):
            note("asked")


main()
