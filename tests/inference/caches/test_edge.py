"""What is published is kept by a cache in front: a real nginx, as Debian has it."""

import asyncio
import base64
import json
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from getpass import getuser
from pathlib import Path
from string import Template

import pytest

from inference.contract.kinds import CacheScope, PurgeKind
from inference.contract.snapshot import MatchRecord, PurgeRecord
from inference.gateway.headers import VARIES_BY
from tests.inference.caches.rig import POLICY, cached_configuration, caching_gateway
from tests.inference.caches.test_exact import OTHER_TOKEN
from tests.inference.gateway.client import BASE, Call, Reply, request_bytes, send
from tests.inference.gateway.rig import TOKEN, Gateway, key_record, pool_record
from tests.inference.stores import until
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

EDGE = replace(POLICY, edge_s=60)
DOCS = Path(__file__).parents[3] / "docs" / "caches.md"
TAGS = {"x-headworks-cache-tags": "a", "x-headworks-cache-namespace": "docs"}
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/sbin")
needs_nginx = pytest.mark.skipif(NGINX is None, reason="nginx isn't installed")
CONFIGURATION = Template("""
user $user;
daemon off;
pid $folder/nginx.pid;
error_log $folder/nginx.err;
events {}
http {
  access_log off;
  client_body_temp_path $folder/body;
  proxy_temp_path $folder/proxy;
  fastcgi_temp_path $folder/fastcgi;
  uwsgi_temp_path $folder/uwsgi;
  scgi_temp_path $folder/scgi;
  proxy_cache_path $folder/cache keys_zone=answers:1m;
  server {
    listen unix:$folder/front.sock;
    location / {
      proxy_pass http://127.0.0.1:$port;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_cache answers;
      proxy_ignore_headers Vary;
      proxy_cache_key "$key";
      proxy_cache_revalidate on;
      proxy_cache_lock on;
      add_header x-front $$upstream_cache_status always;
    }
  }
}
""")


def address(**fields: object) -> str:
    """Where a question is published."""
    body = base64.urlsafe_b64encode(json.dumps({**BASE, **fields}).encode()).decode()
    return f"/v1/published/chat/completions/{body.rstrip('=')}"


async def get(port: int, path: str, *, token: str | None = TOKEN, **headers: str) -> Reply:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return await send(
        port, request_bytes(None, path=path, method="GET", token=token, headers=TAGS | sent)
    )


async def test_what_is_published_says_how_long_it_may_be_kept_and_by_which_keys(
    upstream: Upstream,
) -> None:
    policy = replace(EDGE, bypass=(MatchRecord(headers=(("x-region", "eu"),)),))
    async with caching_gateway(upstream, policy=policy) as gateway:
        first, second = [await get(gateway.port, address()) for _ in range(2)]
        known = await get(gateway.port, address(), if_none_match=first.headers["etag"])
        changed = await get(gateway.port, address(), if_none_match='"other"')
    assert [one.status for one in (first, second, known, changed)] == [200, 200, 304, 200]
    assert first.body == second.body == changed.body
    assert known.body == b""
    for reply in (first, second, known):
        seconds = int(reply.headers["cache-control"].split("s-maxage=")[1].split(",")[0])
        assert 0 < seconds <= 60
        varies = set(reply.headers["vary"].split(", "))
        assert {"authorization", "x-api-key", "x-region", *TAGS} <= varies
        assert {f"x-headworks-{one}" for one in ("context-version", "task", "target")} <= varies
        assert "cache-control" not in varies
        assert reply.headers["etag"] == first.headers["etag"]
        keys = reply.headers["surrogate-key"].split()
        assert keys[1:] == ["policy:cch_a", "route:rt_m", "tag:a", "namespace:docs"]
    assert len(upstream.calls) == 1


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (address(stream=True), 400),
        ("/v1/published/chat/completions/?", 404),
        ("/v1/published/chat/completions/*", 400),
        ("/v1/published/chat/completions/AAAA", 400),
        (address(model="nobody"), 404),
    ],
)
async def test_what_cannot_be_published_is_kept_by_nobody(
    upstream: Upstream, path: str, status: int
) -> None:
    async with caching_gateway(upstream, policy=EDGE) as gateway:
        reply = await get(gateway.port, path)
        nobody = await get(gateway.port, address(), token=None)
    assert (reply.status, nobody.status) == (status, 401)
    assert "no-store" in reply.headers["cache-control"]
    assert "etag" not in reply.headers


async def test_without_a_time_at_the_edge_nothing_may_be_kept_there(upstream: Upstream) -> None:
    async with caching_gateway(upstream) as gateway:
        replies = [await get(gateway.port, address()) for _ in range(2)]
    assert {one.headers["cache-control"] for one in replies} == {"private, no-store"}


async def test_errors_and_what_is_not_kept_are_not_for_the_edge(upstream: Upstream) -> None:
    upstream.play(Behaviour(status=400))
    async with caching_gateway(upstream, policy=EDGE) as gateway:
        failed = await get(gateway.port, address())
        upstream.play(Behaviour())
        sampled = await get(gateway.port, address(temperature=1))
    for reply in (failed, sampled):
        assert "no-store" in reply.headers["cache-control"]


async def test_what_a_fallback_said_is_not_for_the_edge(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(calls=1, status=500), Behaviour())
    async with caching_gateway(upstream, other_upstream, policy=EDGE) as gateway:
        gateway.u = 0.0
        replies = [await get(gateway.port, address()) for _ in range(2)]
    assert ["no-store" in one.headers["cache-control"] for one in replies] == [True, False]


@contextmanager
def nginx(folder: Path, port: int) -> Iterator[Path]:
    """A cache in front of a gateway; yields its socket."""
    configuration = folder / "nginx.conf"
    configuration.write_text(
        CONFIGURATION.substitute(folder=folder, port=port, user=getuser(), key=cache_key())
    )
    assert NGINX is not None
    with (folder / "output.log").open("wb") as output:
        command = (NGINX, "-p", str(folder), "-c", str(configuration))
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        yield folder / "front.sock"
    finally:
        process.terminate()
        process.wait()


@asynccontextmanager
async def fronted(gateway: Gateway, folder: Path) -> AsyncIterator["Front"]:
    with nginx(folder, gateway.port) as socket:
        await until(socket.exists, "nginx")
        yield Front(socket)


def cache_key() -> str:
    """The key that docs/caches.md gives nginx: all that answers vary by."""
    names = [name.decode().replace("-", "_") for name in VARIES_BY]
    key = "|".join(("$proxy_host$request_uri", *(f"$http_{name}" for name in names)))
    assert f'proxy_cache_key "{key}";' in DOCS.read_text()
    return key


class Front:
    """Asks a cache in front."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def get(self, path: str, token: str | None = TOKEN, **headers: str) -> Reply:
        sent = TAGS | {name.replace("_", "-"): value for name, value in headers.items()}
        reader, writer = await asyncio.open_unix_connection(str(self._socket))
        try:
            writer.write(request_bytes(None, path=path, method="GET", token=token, headers=sent))
            call = Call(reader, writer)
            await call.read_head()
            return await call.read_rest()
        finally:
            writer.transport.abort()
            await asyncio.sleep(0)


@needs_nginx
async def test_a_cache_in_front_absorbs_what_is_published(
    upstream: Upstream, tmp_path: Path
) -> None:
    policy = replace(EDGE, scope=CacheScope.ORGANISATION)
    keys = (key_record(TOKEN), key_record(OTHER_TOKEN, project_id="proj_b"))
    pool = pool_record("a", upstream.base_url)
    snapshot = cached_configuration(pool, policy=policy, keys=keys)
    async with (
        caching_gateway(upstream, snapshot=snapshot) as gateway,
        fronted(gateway, tmp_path) as front,
    ):
        seen = [await front.get(address()) for _ in range(5)]
        assert [one.headers["x-front"] for one in seen] == ["MISS"] + ["HIT"] * 4
        assert len({one.body for one in seen}) == 1
        assert len(gateway.books.ends) == 1
        # other credentials are asked for at the gateway, and it answers from what it keeps
        other = await front.get(address(), OTHER_TOKEN)
        assert (other.headers["x-front"], other.body) == ("MISS", seen[0].body)
        assert len(upstream.calls) == 1
        # so is another context, and whoever names a key in the other way
        later = await front.get(address(), x_headworks_context_version="2")
        assert (later.headers["x-front"], len(upstream.calls)) == ("MISS", 2)
        refused = await front.get(address(), None, x_api_key="hw_nobody")
        assert (refused.status, refused.headers["x-front"]) == (401, "MISS")


@needs_nginx
async def test_a_cache_in_front_asks_whether_it_is_still_the_same_and_hears_of_a_purge(
    upstream: Upstream, tmp_path: Path
) -> None:
    upstream.play(Behaviour(calls=1, text="old"), Behaviour(text="new"))
    policy, pool = replace(EDGE, edge_s=1), pool_record("a", upstream.base_url)
    async with (
        caching_gateway(upstream, policy=policy) as gateway,
        fronted(gateway, tmp_path) as front,
    ):
        first = await front.get(address())
        told: list[Reply] = []

        async def is_past(status: str) -> bool:
            told.append(await front.get(address()))
            return told[-1].headers["x-front"] == status

        await until(lambda: is_past("REVALIDATED"), "the front to ask anew")
        assert (told[-1].status, told[-1].body) == (200, first.body)
        assert len(upstream.calls) == 1
        purge = PurgeRecord("pur", "org_a", PurgeKind.TAG, "a", 1)
        gateway.apply(cached_configuration(pool, policy=policy, purges=(purge,)))
        await until(lambda: is_past("EXPIRED"), "the front to hear of the purge")
        assert b"new" in told[-1].body
        assert len(upstream.calls) == 2
