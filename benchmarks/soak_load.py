"""The soak's callers and what its upstreams are told to do to them."""

import asyncio
import json
import random
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.upstream.script import Behaviour

MAX_TOKENS = 64
PATIENCE_S = 40.0
CANCEL_SHARE = 0.15
STREAM_SHARE = 0.6
ENDPOINTS = {"chat": 0.65, "completions": 0.2, "embeddings": 0.1, "tokenize": 0.05}

# What the script's own failures may come to after up to three attempts, and some room.
MOST_REFUSED = 0.05
MOST_CUT = 0.10
MOST_BROKEN_A_KILL = 100
"""A killed process takes its own requests along, not more than it can have had."""

_CHAT = "/v1/chat/completions"
_WHOLE, _CANCELLED, _BROKEN, _LOST = "whole", "cancelled", "broken off", "never answered"
_CUT = "ended by an error frame"
OVER = "over a budget"


def script(rng: random.Random) -> list[Behaviour]:
    """A few hundred behaviours, one call each, mostly good; the last one, which stays, is good."""
    return [_behaviour(rng) for _ in range(300)] + [Behaviour(text="all is well again")]


def _behaviour(rng: random.Random) -> Behaviour:
    words = " ".join(["drop"] * rng.randint(3, 40))
    good = Behaviour(
        calls=1, text=words, delay_ms=rng.randint(0, 150), gap_ms=rng.choice((0, 5, 20))
    )
    kinds = (
        (0.86, good),
        (0.02, Behaviour(calls=1, status=500)),
        (0.02, Behaviour(calls=1, status=503)),
        (0.01, Behaviour(calls=1, before_head="reset")),
        (0.01, Behaviour(calls=1, before_head="close")),
        (0.01, Behaviour(calls=1, before_head="hang")),
        (0.03, Behaviour(calls=1, text=words, cut_after=rng.randint(0, 8), ending="reset")),
        (0.02, Behaviour(calls=1, text=words, cut_after=rng.randint(0, 8), ending="close")),
        (0.01, Behaviour(calls=1, text=words, cut_after=rng.randint(1, 8), ending="hang")),
        (0.01, Behaviour(calls=1, text=words, usage=None)),
    )
    weights = [weight for weight, _ in kinds]
    return rng.choices([one for _, one in kinds], weights)[0]


@dataclass
class Load:
    """Requests at a steady rate over all gateways, each on a connection of its own."""

    urls: Sequence[str]
    key: str = field(repr=False)
    route: str
    embed_route: str
    rate: float
    seed: int
    users: Sequence[str] = ()
    """End users and tags, if any, that requests name; each draws one."""
    tags: Sequence[str] = ()
    most: int | None = None
    sent: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    by_name: dict[str, str] = field(default_factory=dict)
    """How each request ended for its caller, by the id the caller gave it."""
    strange: list[str] = field(default_factory=list)

    def is_served(self) -> bool:
        """Whether each gateway answers on the route."""
        return all(self._is_served_by(url) for url in self.urls)

    def _is_served_by(self, url: str) -> bool:
        body = json.dumps({"model": self.route, "messages": [], "max_tokens": 1}).encode()
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        request = urllib.request.Request(f"{url}{_CHAT}", body, headers)
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def run(self, stopped: threading.Event) -> None:
        """Send until told to stop, then wait for the answers; runs in a thread of its own."""
        asyncio.run(self._run(stopped))

    async def _run(self, stopped: threading.Event) -> None:
        rng = random.Random(self.seed)
        async with asyncio.TaskGroup() as group:
            while not (stopped.is_set() or self.sent == self.most):
                self.sent += 1
                group.create_task(self._one(f"soak-{self.sent}", random.Random(rng.random())))
                await asyncio.sleep(rng.expovariate(self.rate))

    async def _one(self, name: str, rng: random.Random) -> None:
        patience_s = rng.uniform(0.0, 0.6) if rng.random() < CANCEL_SHARE else PATIENCE_S
        is_hurried = patience_s < PATIENCE_S
        try:
            async with asyncio.timeout(patience_s):
                outcome = await self._ask(name, rng)
        except TimeoutError:
            outcome = _CANCELLED if is_hurried else _LOST
        except (ConnectionError, asyncio.IncompleteReadError):
            outcome = _BROKEN
        self.outcomes[outcome] += 1
        self.by_name[name] = outcome

    async def _ask(self, name: str, rng: random.Random) -> str:
        address = urlsplit(rng.choice(self.urls))
        path, body = self._request(rng)
        tag = f"x-headworks-tags: {rng.choice(self.tags)}\r\n" if self.tags else ""
        head = (
            f"POST {path} HTTP/1.1\r\nhost: {address.netloc}\r\n"
            f"authorization: Bearer {self.key}\r\nx-request-id: {name}\r\n{tag}"
            "content-type: application/json\r\nconnection: close\r\n"
            f"content-length: {len(body)}\r\n\r\n"
        ).encode()
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        try:
            writer.write(head + body)
            received = await reader.read(-1)
        finally:
            writer.close()
        return self._outcome(name, received)

    def _request(self, rng: random.Random) -> tuple[str, bytes]:
        document: dict[str, object] = {"model": self.route}
        endpoint = rng.choices(list(ENDPOINTS), list(ENDPOINTS.values()))[0]
        text = "How deep is it?"
        if endpoint == "tokenize":
            return "/tokenize", json.dumps({**document, "prompt": text}).encode()
        if self.users:
            document["user"] = rng.choice(self.users)
        if endpoint == "embeddings":
            document |= {"model": self.embed_route, "input": text}
            return "/v1/embeddings", json.dumps(document).encode()
        document |= {"max_tokens": MAX_TOKENS, "stream": rng.random() < STREAM_SHARE}
        if endpoint == "completions":
            return "/v1/completions", json.dumps({**document, "prompt": text}).encode()
        messages = [{"role": "user", "content": text}]
        return _CHAT, json.dumps({**document, "messages": messages}).encode()

    def _outcome(self, name: str, received: bytes) -> str:
        """Whole, an error that says so, or broken off; anything else is strange."""
        head, _, body = received.partition(b"\r\n\r\n")
        status = head[9:12]
        if status != b"200":
            if not status:
                return _BROKEN
            if b'"error"' not in body:
                self.strange.append(f"{name}: {received[:300]!r}")
            if status == b"429" and b'"budget_exceeded"' in body:
                return OVER
            return f"refused with {status.decode()}"
        if b"text/event-stream" not in head:
            return _WHOLE if body.endswith(b"}") else _BROKEN
        if b"data: [DONE]" in body:
            return _WHOLE
        return _CUT if b'"error"' in body else _BROKEN

    def summary(self) -> str:
        lines = [f"requests: {self.sent:,}"]
        lines += [f"  {count:>8,} {name}" for name, count in self.outcomes.most_common()]
        return "\n".join(lines)

    def faults(self, *, kills: int) -> list[str]:
        """What no caller may see, or not so often, if gateway processes were killed so often."""
        refused = sum(count for name, count in self.outcomes.items() if name.startswith("refused"))
        limits = (
            (_LOST, self.outcomes[_LOST], 0),
            ("refused", refused, int(MOST_REFUSED * self.sent)),
            (_CUT, self.outcomes[_CUT], int(MOST_CUT * self.sent)),
            (_BROKEN, self.outcomes[_BROKEN], MOST_BROKEN_A_KILL * kills),
        )
        found = [f"not an error in OpenAI's shape: {one}" for one in self.strange]
        return found + [
            f"{count} requests were {name}, more than {most}"
            for name, count, most in limits
            if count > most
        ]

    def must_be_booked(self, name: str) -> bool:
        """Whether a request surely came to a gateway that lived on to book it."""
        return self.by_name[name] not in (_CANCELLED, _BROKEN)

    def came_whole(self, name: str) -> bool:
        return self.by_name[name] == _WHOLE
