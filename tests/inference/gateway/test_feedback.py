"""Feedback on answers: what is taken, what is refused, and that it is in the books like an end."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from redis.asyncio import Redis

from inference.contract.codec import decode_numbered
from inference.contract.events import End, Feedback
from inference.contract.kinds import LimitSubject, LimitUnit, LimitWindow
from inference.contract.snapshot import LimitRecord
from inference.events.reader import JournalReader, read_remains
from inference.journal import Journal
from tests.inference.facts import end, opening
from tests.inference.gateway.client import Reply, chat, request_bytes, send
from tests.inference.gateway.rig import (
    KEY_ID,
    TOKEN,
    Gateway,
    configuration,
    pool_record,
    running_gateway,
)
from tests.inference.ledger import seed
from tests.upstream.fixtures import Upstream

PATH = "/v1/feedback"
REQUEST = "req_01kb7000000000000000000000"


async def say(gateway: Gateway, *, token: str | None = TOKEN, **fields: object) -> Reply:
    body = json.dumps({"request_id": REQUEST, **fields}).encode()
    return await send(gateway.port, request_bytes(body, path=PATH, token=token))


async def kept(gateway: Gateway, **fields: object) -> Feedback:
    """What the books have of feedback that was taken."""
    reply = await say(gateway, **fields)
    assert reply.status == 202
    fact: object = gateway.books.ends[-1]
    assert isinstance(fact, Feedback)
    assert reply.json == {"object": "feedback", "id": fact.event_id, "request_id": REQUEST}
    return fact


async def test_what_is_said_of_an_answer_is_in_the_books(gateway: Gateway) -> None:
    answered = await chat(gateway.port)
    fact = await kept(
        gateway,
        request_id=REQUEST,
        score=-1,
        label="wrong",
        comment="It isn't so.\nReally.",
        completed=False,
        user="ann",
    )
    assert answered.headers["x-request-id"].startswith("req_")
    assert (fact.organisation_id, fact.project_id, fact.key_id) == ("org_a", "proj_a", KEY_ID)
    assert (fact.request_id, fact.rater, fact.gateway) == (REQUEST, "ann", "gw-test/0")
    assert (fact.score, fact.label, fact.is_completed) == (-1.0, "wrong", False)
    assert fact.comment == "It isn't so.\nReally."
    assert gateway.metric("feedback_total") == 1


async def test_the_id_an_answer_came_with_is_the_one_to_speak_of(gateway: Gateway) -> None:
    answered = await chat(gateway.port)
    reply = await say(gateway, request_id=answered.headers["x-request-id"], score=1)
    assert reply.status == 202
    request, fact = gateway.books.ends
    assert fact.request_id == request.event_id  # type: ignore[attr-defined]


async def test_who_repeats_or_corrects_itself_says_it_once(gateway: Gateway) -> None:
    said = [
        await kept(gateway, score=1),
        await kept(gateway, score=1),
        await kept(gateway, score=-1, label="wrong"),
    ]
    assert len({one.event_id for one in said}) == 1
    others = [await kept(gateway, score=1, user=user) for user in ("ann", "bob")]
    assert len({one.event_id for one in (*said, *others)}) == 3


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"score": None},
        {"score": 1.5},
        {"score": -2},
        {"score": True},
        {"score": "good"},
        {"score": 1, "request_id": "req_1"},
        {"score": 1, "request_id": None},
        {"score": 1, "stars": 5},
        {"label": "two words"},
        {"label": ""},
        {"comment": "é" * 513},
        {"completed": 1},
    ],
)
async def test_what_is_no_feedback_is_refused(gateway: Gateway, fields: dict[str, object]) -> None:
    reply = await say(gateway, **fields)
    assert (reply.status, reply.code) == (400, "invalid_request")
    assert gateway.books.ends == []


async def test_a_body_has_its_bound_and_a_caller_its_key(gateway: Gateway) -> None:
    assert (await say(gateway, comment="x" * 9_000)).status == 413
    assert (await say(gateway, token=None, score=1)).status == 401
    reply = await send(gateway.port, request_bytes(b"{", path=PATH))
    assert reply.status == 400
    reply = await send(gateway.port, request_bytes(None, path=PATH, method="GET"))
    assert reply.status == 405
    assert gateway.books.ends == []


async def test_a_key_in_a_comment_is_kept_nowhere(gateway: Gateway) -> None:
    fact = await kept(gateway, comment=f"my key is {TOKEN} \x00", user=TOKEN)
    assert "secret-of-this-key" not in str(fact)
    assert "\0" not in str(fact.comment)


async def test_feedback_that_cannot_be_written_down_is_not_taken(gateway: Gateway) -> None:
    gateway.books.is_full = True
    assert (await say(gateway, score=1)).code == "accounting_unavailable"
    assert gateway.metric("events_lost_total") == 1


async def test_feedback_counts_as_a_request(
    upstream: Upstream, client: Redis, admin: Redis
) -> None:
    await seed(admin)
    limit = LimitRecord(
        *("lim_a", "org_a", "few", LimitSubject.KEY, LimitUnit.REQUESTS, 2),
        window=LimitWindow.DAY,
    )
    parallel = LimitRecord("lim_b", "org_a", "at once", LimitSubject.KEY, LimitUnit.PARALLEL, 1)
    snapshot = configuration(pool_record("a", upstream.base_url), limits=(limit, parallel))
    async with running_gateway(snapshot, store=client) as gateway:
        statuses = [(await say(gateway, score=1)).status for _ in range(3)]
    assert statuses == [202, 202, 429]


async def test_a_journal_counts_it_with_the_ends_and_takes_it_for_none(tmp_path: Path) -> None:
    journal = Journal.create(tmp_path)
    said = Feedback("fbk_1", 1, "org_a", "proj_a", KEY_ID, "gw-1/0", REQUEST, score=0.5)
    await journal.open(opening(1))
    await journal.open(opening(2))
    assert await journal.close(said) == 1
    assert await journal.close(end(1)) == 2
    stored = JournalReader(journal.folder).read()
    assert stored is not None
    first, second = map(decode_numbered, stored.encoded)
    assert first == replace(said, journal=journal.journal_id, seq=1)
    assert isinstance(second, End)
    assert (second.event_id, second.seq) == ("req_1", 2)
    remains = read_remains(journal.folder)
    assert (remains.seq, [one[0].event_id for one in remains.unended]) == (2, ["req_2"])
    journal.release()
