"""A websocket client of an ASGI application, without a network between them."""

import json
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from asgiref.testing import ApplicationCommunicator

SOON_S = 30.0
QUIET_S = 0.3


class Socket:
    """One socket; what it waits for must come within SOON_S."""

    def __init__(self, application: Any, path: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
        address = urlsplit(path)
        self.scope = {
            "type": "websocket",
            "path": address.path,
            "query_string": address.query.encode(),
            "headers": list(headers),
            "subprotocols": [],
        }
        self._inner = ApplicationCommunicator(application, self.scope)

    async def connect(self) -> int | None:
        """Open it: None if it was accepted, else the code it was refused with."""
        await self._inner.send_input({"type": "websocket.connect"})
        answer = await self._inner.receive_output(SOON_S)
        return None if answer["type"] == "websocket.accept" else answer.get("code", 1000)

    async def hear(self) -> Any:
        """The next message."""
        answer = await self._inner.receive_output(SOON_S)
        assert answer["type"] == "websocket.send", answer
        return json.loads(answer["text"])

    async def next(self) -> dict[str, Any]:
        """What comes next, a message or the end."""
        return dict(await self._inner.receive_output(SOON_S))

    async def hears_nothing(self) -> bool:
        return bool(await self._inner.receive_nothing(QUIET_S))

    async def closed_with(self) -> int:
        """The code the other side closes it with, whatever it says before."""
        while True:
            answer = await self._inner.receive_output(SOON_S)
            if answer["type"] == "websocket.close":
                await self.leave()
                return int(answer["code"])

    async def leave(self) -> None:
        """Go away, and wait until that was noticed."""
        await self._inner.send_input({"type": "websocket.disconnect", "code": 1000})
        await self._inner.wait(SOON_S)
