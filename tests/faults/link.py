"""The way of one gateway to the state store, as a process: stop it and the store never answers,
kill it and the store is out of reach."""

import asyncio
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.installation import ROOT, SOON_S, wait_until


@dataclass
class Link:
    """A socket at `path` from which all goes on to the one at `target`."""

    path: Path
    target: Path
    process: subprocess.Popen[bytes] = field(init=False)

    def __post_init__(self) -> None:
        self.mend()

    def mend(self) -> None:
        """Have it pass everything on."""
        command = (sys.executable, "-m", "tests.faults.link", str(self.path), str(self.target))
        self.process = subprocess.Popen(command, cwd=ROOT)
        wait_until(self.path.exists, SOON_S, "the link")

    def cut(self) -> None:
        """End all connections and refuse others, until `mend`."""
        self.process.kill()
        self.process.wait()
        self.path.unlink(missing_ok=True)


async def serve(path: str, target: str) -> None:
    """Pass on for ever."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_unix_connection(target)
            await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        writer.close()

    server = await asyncio.start_unix_server(pass_on, path)
    await server.serve_forever()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
