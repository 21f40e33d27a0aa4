"""GET /v1/published/chat/completions/<body>: a question in an address, for caches in front.

The body is that of a POST to /v1/chat/completions, in URL-safe base64. It is answered as that would
be. If its route's policy has an `edge_s`, the answer says that a shared cache may keep it so long,
for requests that are alike in all headers that are read, by which keys it can be purged there, and
how to ask whether it is still the same.
"""

import base64
import binascii
from collections.abc import Awaitable, Callable
from functools import partial
from hashlib import blake2b

from inference.caches.base import Entry
from inference.contract.kinds import Endpoint
from inference.errors import InvalidRequest
from inference.gateway.cached import Caching
from inference.gateway.dialects import Dialect
from inference.gateway.downstream import Downstream, check_length
from inference.gateway.exchange import Exchange
from inference.gateway.headers import JSON, VARIES_BY, Headers, answer_headers
from inference.gateway.members import flag, split_members
from inference.gateway.pipeline import run
from inference.gateway.services import Services

PREFIX = "/v1/published/chat/completions/"
_IF_NONE_MATCH = b"if-none-match"


def published_at(path: str) -> Callable[[Services, Downstream], Awaitable[None]] | None:
    """The handler of a path below the prefix; None of any other."""
    encoded = path.removeprefix(PREFIX)
    return partial(answer_published, encoded=encoded) if encoded not in (path, "") else None


async def answer_published(services: Services, downstream: Downstream, *, encoded: str) -> None:
    """Answer the question in the address; raises InvalidRequest if it is none, or a stream."""
    body = _decoded(encoded)
    if flag(split_members(body), "stream"):
        raise InvalidRequest("What is published is no stream.", param="stream")
    published = Published(downstream, body)
    exchange = Exchange(services, published, endpoint=Endpoint.CHAT)
    published.exchange = exchange
    await run(exchange)


class Published:
    """A Downstream whose request came in its address, and whose answer others may keep."""

    def __init__(self, downstream: Downstream, body: bytes) -> None:
        self._inner = downstream
        self._body = body
        self.exchange: Exchange | None = None
        self.headers = downstream.headers
        self.task = downstream.task
        self.watch = downstream.watch
        self.start = downstream.start
        self.write = downstream.write
        self.write_now = downstream.write_now
        self.end = downstream.end
        self.respond = downstream.respond
        self.abort = downstream.abort

    @property
    def has_started(self) -> bool:
        return self._inner.has_started

    @property
    def has_unsent(self) -> bool:
        return self._inner.has_unsent

    async def read_body(self, limit_bytes: int) -> bytes:
        check_length(len(self._body), limit_bytes)
        return self._body

    async def answer(
        self, request_id: str, dialect: Dialect, further: Headers, body: bytes
    ) -> None:
        caching = None if self.exchange is None else self.exchange.caching
        entry = None if caching is None else _entry_of(caching)
        left_s = 0
        if caching is not None and entry is not None and self.exchange is not None:
            left_s = int(entry.expires_at - self.exchange.services.clock())
            left_s = min(caching.policy.edge_s, left_s)
        if self.exchange is None or entry is None or left_s <= 0:
            headers = answer_headers(request_id, content_length=len(body), dialect=dialect)
            await self._inner.respond(200, headers + further, body)
            return
        etag = b'"%b-%b"' % (
            entry.entry_id.encode(),
            blake2b(body, digest_size=8).hexdigest().encode(),
        )
        is_known = etag in (value for name, value in self.headers.raw if name == _IF_NONE_MATCH)
        status, content = (304, b"") if is_known else (200, body)
        edge = _edge_headers(entry, etag, left_s=left_s, request_id=request_id)
        edge += ((b"vary", b", ".join((*VARIES_BY, *_looked_at(self.exchange)))),)
        length: Headers = ()
        if not is_known:
            length = ((b"content-type", JSON), (b"content-length", b"%d" % len(content)))
        await self._inner.respond(status, (*length, *edge, *further), content)


def _entry_of(caching: Caching) -> Entry | None:
    return caching.made if caching.found is None else caching.found.entry


def _looked_at(exchange: Exchange) -> list[bytes]:
    """The further headers that rules look at, of the route that the request went by."""
    services, snapshot, request = exchange.services, exchange.snapshot, exchange.request
    if snapshot is None or exchange.identity is None or request is None:
        return []
    ground = services.grounds.of(snapshot, services.clock())
    way = ground.way(exchange.identity, request.model)
    return [] if way is None else [name.encode() for name in sorted(way.looked_at)]


def _edge_headers(entry: Entry, etag: bytes, *, left_s: int, request_id: str) -> Headers:
    """What lets a cache in front keep the answer for so long, and how it is purged there."""
    keys = [entry.entry_id, f"policy:{entry.policy_id}", f"route:{entry.route_id}"]
    keys += [f"tag:{tag}" for tag in entry.tags]
    if entry.namespace:
        keys.append(f"namespace:{entry.namespace}")
    return (
        (b"cache-control", b"max-age=0, s-maxage=%d, must-revalidate" % left_s),
        (b"etag", etag),
        (b"surrogate-key", " ".join(keys).encode()),
        (b"x-request-id", request_id.encode()),
    )


def _decoded(encoded: str) -> bytes:
    try:
        return base64.b64decode(encoded + "=" * (-len(encoded) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidRequest("The address must end in URL-safe base64.") from error
