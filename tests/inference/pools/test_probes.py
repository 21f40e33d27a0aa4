"""Probes end, say what went wrong without giving anything away, and go only where they may."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from inference.decisions.lifecycle import Presence
from inference.pools.probes import MAX_ANSWER_BYTES, ProbeCall, ProbeClient, ProbeFailed, Prober
from tests.inference.pools.engines import nothing_happens_for
from tests.inference.stores import until

SILENCE = b"nothing until the caller leaves"
AT_ONCE = b"HTTP/1.1 400 Bad Request\r\n\r\n"

Serve = Callable[[bytes], Awaitable[int]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start a server that gives one answer, then closes; returns its port."""
    servers = []

    async def start(answer: bytes) -> int:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.closing(writer):
                if answer != AT_ONCE:
                    await reader.readuntil(b"\r\n\r\n")
                if answer == SILENCE:
                    await reader.read()
                writer.write(answer)
                await writer.drain()

        servers.append(await asyncio.start_server(handle, "127.0.0.1", 0))
        return int(servers[-1].sockets[0].getsockname()[1])

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


async def ask(url: str, *, own_ports: frozenset[int] = frozenset(), timeout_s: float = 5) -> int:
    client = ProbeClient(own_ports=own_ports)
    return await client.ask(ProbeCall(url=url, timeout_s=timeout_s))


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 202 x\r\ncontent-length: 2\r\n\r\n{}",
        b"HTTP/1.1 202 x\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
        b"HTTP/1.0 202 x\r\n\r\nuntil the end",
    ],
)
async def test_an_answers_status_is_returned(serve: Serve, answer: bytes) -> None:
    port = await serve(answer)
    assert await ask(f"http://127.0.0.1:{port}/health") == 202


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "the connection was closed before the answer's end"),
        (
            b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}",
            "the connection was closed before the answer's end",
        ),
        (b"SSH-2.0-OpenSSH\r\n\r\n", "the answer is not HTTP"),
        (
            b"HTTP/1.1 200 OK\r\n\r\n" + bytes(MAX_ANSWER_BYTES + 1),
            "the answer is too long",
        ),
    ],
)
async def test_what_is_no_answer_is_said_in_words(serve: Serve, answer: bytes, why: str) -> None:
    port = await serve(answer)
    with pytest.raises(ProbeFailed) as failure:
        await ask(f"http://127.0.0.1:{port}/health")
    assert str(failure.value) == why


async def test_a_refused_connection_and_a_silent_server(serve: Serve) -> None:
    with pytest.raises(ProbeFailed, match=r"^the connection is refused$"):
        await ask("http://127.0.0.1:1/health")
    port = await serve(SILENCE)
    with pytest.raises(ProbeFailed, match=r"^no answer within 0\.05 s$"):
        await ask(f"http://127.0.0.1:{port}/health", timeout_s=0.05)


async def test_a_server_without_a_trusted_certificate_is_not_spoken_to(serve: Serve) -> None:
    port = await serve(AT_ONCE)
    with pytest.raises(ProbeFailed, match=r"^no trusted TLS connection$"):
        await ask(f"https://127.0.0.1:{port}/v1/models")


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://169.254.169.254/latest", "points at a link-local, metadata"),
        ("http://127.0.0.1:8400/v1/models", "points at port 8400 of this installation"),
        ("http://localhost:8400/v1/models", "points at port 8400 of this installation"),
        ("ftp://127.0.0.1/x", "must start with http"),
    ],
)
async def test_forbidden_addresses_are_not_called(url: str, why: str) -> None:
    with pytest.raises(ProbeFailed, match=f"the address {why}"):
        await ask(url, own_ports=frozenset({8400}))


async def test_a_name_is_judged_again_by_what_it_resolves_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def resolve(*_: object, **__: object) -> list[tuple[object, ...]]:
        return [(2, 1, 6, "", ("169.254.169.254", 80))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", resolve)
    with pytest.raises(ProbeFailed, match="resolves to an address that may not be called"):
        await ask("http://innocent.example/v1/models")


async def test_a_prober_counts_failures_in_a_row_and_forgets_them_after_a_good_answer() -> None:
    answers: list[str | None] = ["down", "down", None]

    async def check() -> str | None:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    prober = Prober(check, proof=None, eager_s=0, calm_s=0)
    seen = []
    async with asyncio.timeout(5):
        while not seen or seen[-1].failed_probes or len(seen) < 2:
            await nothing_happens_for(1)
            seen.append(prober.sighting(Presence.RUNNING))
    assert max(one.failed_probes for one in seen) == 2
    assert seen[-1].detail is None
    await prober.closed()


async def test_a_proof_is_asked_for_until_it_succeeds_and_not_again() -> None:
    proofs: list[str | None] = ["cold", None]
    asked = []

    async def check() -> str | None:
        asked.append("check")
        return None

    async def proof() -> str | None:
        asked.append("proof")
        return proofs.pop(0)

    prober = Prober(check, proof=proof, eager_s=0, calm_s=0)
    await until(lambda: len(asked) >= 8, "several probes")
    assert asked[:6] == ["check", "proof", "check", "proof", "check", "check"]
    assert prober.sighting(Presence.RUNNING).is_ready
    await prober.closed()


async def test_a_broken_prober_is_not_mistaken_for_a_quiet_one() -> None:
    async def check() -> str | None:
        raise RuntimeError("a fault of ours")

    prober = Prober(check, proof=None, eager_s=0, calm_s=0)
    await nothing_happens_for(3)
    with pytest.raises(RuntimeError, match="a fault of ours"):
        prober.sighting(Presence.RUNNING)
