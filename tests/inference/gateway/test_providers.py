"""A provider of its own as a target: over TLS, with a sealed credential, told nothing of us."""

import asyncio
import datetime
import ipaddress
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from inference.contract.kinds import Backend
from inference.contract.sealing import encrypt
from inference.contract.snapshot import PoolRecord, TargetRecord
from inference.settings import SettingsError, load_settings
from inference.workers.tls import client_context
from tests.inference.gateway.client import BASE, Reply, request_bytes, send
from tests.inference.gateway.rig import (
    DATA_KEY,
    TOKEN,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.inference.test_settings import LEAST
from tests.upstream.fixtures import Upstream

ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "big-model-2026",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
}
PROVIDER_KEY = "sk-provider-key-1234567890"


def certificate(folder: Path) -> tuple[Path, ssl.SSLContext]:
    """An authority of this test alone, and a server's end that it vouches for as localhost."""
    key, server_key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Test authority")])
    now = datetime.datetime.now(datetime.UTC)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]

    def signed(
        subject: x509.Name, public: ec.EllipticCurvePublicKey, *extensions: x509.ExtensionType
    ) -> x509.Certificate:
        builder = x509.CertificateBuilder(
            own, subject, public, x509.random_serial_number(), now, now + datetime.timedelta(1)
        )
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        return builder.sign(key, hashes.SHA256())

    authority = signed(own, key.public_key(), x509.BasicConstraints(ca=True, path_length=None))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    server = signed(subject, server_key.public_key(), x509.SubjectAlternativeName(names))
    bundle, chain = folder / "authority.pem", folder / "server.pem"
    bundle.write_bytes(authority.public_bytes(Encoding.PEM))
    private = server_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    chain.write_bytes(server.public_bytes(Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    return bundle, context


class Provider:
    """A server by TLS that records requests and answers them all alike."""

    def __init__(self) -> None:
        self.heads: list[str] = []
        self.bodies: list[dict[str, object]] = []
        self.status = b"200 OK"
        self.port = 0

    @property
    def base_url(self) -> str:
        return f"https://localhost:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                self.heads.append(head)
                self.bodies.append(json.loads(await reader.readexactly(length)))
                body = json.dumps(ANSWER).encode()
                lines = b"content-type: application/json\r\ncontent-length: %d\r\n" % len(body)
                writer.write(
                    b"HTTP/1.1 %b\r\nretry-after: 7\r\nopenai-organization: their-org\r\n%b\r\n%b"
                    % (self.status, lines, body)
                )
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()


@asynccontextmanager
async def provider_at(context: ssl.SSLContext) -> AsyncIterator[Provider]:
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "localhost", 0, ssl=context)
    provider.port = server.sockets[0].getsockname()[1]
    yield provider
    server.close()


def external(provider: Provider) -> PoolRecord:
    return pool_record(
        "ext",
        provider.base_url,
        backend=Backend.OPENAI,
        served_model_name="big-model-2026",
        credential=encrypt(DATA_KEY, PROVIDER_KEY),
    )


async def ask(port: int) -> Reply:
    headers = {
        "x-tenant": "water",
        "openai-organization": "our-org",
        "cookie": "a=b",
        "x-headworks-tags": "team-water",
        "x-headworks-session": "s-1",
        "user-agent": "our-app/1",
    }
    body = json.dumps({**BASE, "user": "anna"}).encode()
    return await send(port, request_bytes(body, headers=headers))


async def test_a_provider_answers_over_tls_and_is_told_nothing_but_the_request(
    tmp_path: Path,
) -> None:
    bundle, context = certificate(tmp_path)
    async with provider_at(context) as provider:
        snapshot = configuration(external(provider), routes=(route_record("ext"),))
        trust = partial(client_context, bundle)
        async with running_gateway(snapshot, tls=trust) as gateway:
            for _ in range(2):
                reply = await ask(gateway.port)
                assert (reply.status, reply.json["choices"]) == (200, ANSWER["choices"])
            assert gateway.books.ends[-1].charges[0].usage.prompt_tokens == 10
            assert "openai-organization" not in reply.headers
    lines = provider.heads[0].lower().split("\r\n")
    assert lines[0] == "post /v1/chat/completions http/1.1"
    names = {line.partition(":")[0] for line in lines[1:] if line}
    assert names == {
        *("host", "content-length", "content-type", "accept", "accept-encoding"),
        *("x-request-id", "authorization"),
    }
    assert f"authorization: bearer {PROVIDER_KEY}" in lines
    assert provider.bodies[0] == {**BASE, "user": "anna", "model": "big-model-2026"}
    assert all(TOKEN not in head for head in provider.heads)


async def test_without_its_authority_a_provider_is_not_spoken_to(tmp_path: Path) -> None:
    _, context = certificate(tmp_path)
    async with provider_at(context) as provider:
        snapshot = configuration(external(provider), routes=(route_record("ext"),))
        async with running_gateway(snapshot) as gateway:
            reply = await ask(gateway.port)
            assert (reply.status, reply.error["code"]) == (503, "upstream_unreachable")
    assert provider.heads == []


async def test_a_provider_that_is_at_its_limit_is_left_alone_and_the_fallback_serves(
    tmp_path: Path, upstream: Upstream
) -> None:
    bundle, context = certificate(tmp_path)
    targets = (
        TargetRecord("tgt_ext", "pool_ext", 1),
        TargetRecord("tgt_a", "pool_a", 1, tier=1),
    )
    async with provider_at(context) as provider:
        provider.status = b"429 Too Many Requests"
        pools = (external(provider), pool_record("a", upstream.base_url))
        snapshot = configuration(*pools, routes=(route_record("ext", targets=targets),))
        trust = partial(client_context, bundle)
        async with running_gateway(snapshot, tls=trust) as gateway:
            for _ in range(3):
                reply = await ask(gateway.port)
                assert (reply.status, reply.headers["x-headworks-fallbacks"]) == (200, "1")
            assert (len(provider.heads), len(upstream.calls)) == (1, 3)
            assert gateway.books.ends[0].charges[0].error_code == "upstream_saturated"
            provider.status = b"200 OK"
            gateway.skipped_s = 7.1
            assert "x-headworks-fallbacks" not in (await ask(gateway.port)).headers


def test_a_bundle_that_holds_no_certificate_is_refused_by_its_name(tmp_path: Path) -> None:
    bundle, _ = certificate(tmp_path)
    assert load_settings(LEAST | {"HEADWORKS_CA_BUNDLE": str(bundle)}).ca_bundle == bundle
    assert load_settings(LEAST).ca_bundle is None
    empty = tmp_path / "empty.pem"
    empty.write_text("no certificate")
    for bad in (empty, tmp_path / "missing.pem"):
        with pytest.raises(SettingsError, match=r"^HEADWORKS_CA_BUNDLE must be"):
            load_settings(LEAST | {"HEADWORKS_CA_BUNDLE": str(bad)})
