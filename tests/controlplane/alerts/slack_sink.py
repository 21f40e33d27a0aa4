"""A stand-in for Slack's API on loopback: it keeps messages with their metadata, as Slack does."""

import hashlib
import hmac
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlencode

from django.test import Client
from django.utils import timezone

from controlplane.models import Channel, Episode

TOKEN = "xoxb-CANARY-of-the-bot"
CONVERSATION = "C0123456789"
SIGNING = "CANARY-signing-secret-of-slack"


@dataclass
class Fault:
    """What happens to one call in place of its answer: another answer, or none at all.

    One that is `done` took effect all the same; one that hangs is never answered.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    is_done: bool = False
    is_cut: bool = False
    is_hung: bool = False


@dataclass
class SlackSink:
    """Calls that came (method and arguments), messages by their `ts`, and faults to come."""

    url: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    messages: dict[str, dict[str, Any]] = field(default_factory=dict)
    whispers: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    ends: threading.Event = field(default_factory=threading.Event)
    refused: dict[str, str] = field(default_factory=dict)
    """By method the error that it always answers."""

    def methods(self) -> list[str]:
        return [name for name, _ in self.calls]

    def parents(self) -> list[dict[str, Any]]:
        """Messages that are in no thread, in their order."""
        return [one for one in self.messages.values() if not one.get("thread_ts")]

    def replies(self) -> list[dict[str, Any]]:
        return [one for one in self.messages.values() if one.get("thread_ts")]

    def answer(self, method: str, asked: dict[str, Any]) -> dict[str, Any]:
        if method in self.refused:
            return {"ok": False, "error": self.refused[method]}
        told = self._missing(method, asked)
        if told:
            return {"ok": False, "error": told}
        if method == "chat.postMessage":
            ts = f"{1_800_000_000 + len(self.messages)}.000100"
            self.messages[ts] = {**asked, "ts": ts}
            return {"ok": True, "ts": ts, "channel": asked["channel"]}
        if method == "chat.update":
            self.messages[asked["ts"]] |= {
                name: asked[name] for name in ("text", "blocks") if name in asked
            }
            return {"ok": True, "ts": asked["ts"]}
        if method == "chat.postEphemeral":
            self.whispers.append(asked)
            return {"ok": True}
        threads = {asked["ts"]} if method == "conversations.replies" else {None}
        found = [one for one in self.messages.values() if one.get("thread_ts") in threads]
        return {"ok": True, "messages": found[::-1]}

    def _missing(self, method: str, asked: dict[str, Any]) -> str:
        """What Slack says of a first message that isn't in that conversation, "" if it is."""
        names = {"chat.update": "ts", "chat.postMessage": "thread_ts"}
        parent = asked.get(names.get(method, "ts")) if method != "conversations.history" else None
        found = self.messages.get(parent or "", {})
        if not parent or found.get("channel") == asked["channel"]:
            return ""
        return "message_not_found" if method == "chat.update" else "thread_not_found"


def _read(handler: BaseHTTPRequestHandler) -> dict[str, Any]:
    body = handler.rfile.read(int(handler.headers.get("Content-Length", 0)))
    if "json" in handler.headers.get("Content-Type", ""):
        return dict(json.loads(body))
    told = dict(parse_qsl(body.decode()))
    return {
        name: json.loads(value) if name in ("blocks", "metadata") else value
        for name, value in told.items()
    }


@contextmanager
def slack_sink() -> Iterator[SlackSink]:
    """Slack's API, below `url`."""
    sink = SlackSink()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            method = self.path.removeprefix("/api/")
            asked = _read(self)
            sink.calls.append((method, asked))
            fault = sink.faults.pop(0) if sink.faults else Fault(is_done=True)
            answer: Mapping[str, Any] = {}
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                answer = {"ok": False, "error": "invalid_auth"}
            elif fault.is_done:
                answer = sink.answer(method, asked)
            if fault.is_hung:
                sink.ends.wait()
            if fault.is_cut or fault.is_hung:
                self.close_connection = True
                return
            body = json.dumps(answer if fault.body is None else fault.body).encode()
            self.send_response(fault.status)
            for name, value in fault.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sink.url = f"http://127.0.0.1:{server.server_port}/api/"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield sink
    finally:
        sink.ends.set()
        server.shutdown()
        thread.join()
        server.server_close()


def buttons(message: dict[str, Any]) -> list[str]:
    rows = [one for one in message["blocks"] if one["type"] == "actions"]
    return [one["action_id"] for row in rows for one in row["elements"]]


def press(
    client: Client,
    channel: Channel,
    episode: Episode,
    *,
    action: str = "headworks_acknowledge",
    member: str = "U0000001",
    age_s: float = 0,
    at_s: int | None = None,
    secret: str = SIGNING,
    body: bytes | None = None,
) -> int:
    """Call as Slack does when somebody presses a button; the status of the answer."""
    told = {
        "type": "block_actions",
        "user": {"id": member, "username": "ann"},
        "actions": [{"action_id": action, "value": episode.pk}],
    }
    body = body or urlencode({"payload": json.dumps(told)}).encode()
    at = str(at_s or int(timezone.now().timestamp() - age_s))
    signed = hmac.new(secret.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
    response = client.post(
        f"/hooks/slack/{channel.pk}/",
        body,
        content_type="application/x-www-form-urlencoded",
        headers={"X-Slack-Request-Timestamp": at, "X-Slack-Signature": f"v0={signed}"},
    )
    return response.status_code
