"""Budgets at their edges: stores that fail, edits in the middle, callers that leave, odd words."""

import asyncio
import json
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.kinds import BudgetAction, BudgetSubject, ChargeKind, Outcome
from inference.contract.snapshot import BudgetRecord, BudgetScope, ModelRecord
from inference.decisions.budgets import spent_nanousd
from tests.inference.clocks import HandClock
from tests.inference.gateway.client import chat, opened, post, request_bytes, send, streaming
from tests.inference.gateway.rig import (
    KEY_ID,
    PRICE,
    TOKEN,
    configuration,
    pool_record,
    route_record,
)
from tests.inference.gateway.test_bridged import SAMPLES, chat_only
from tests.inference.gateway.test_budgets import (
    AMPLE,
    ASKED,
    AT_S,
    CENT,
    COST,
    MAY,
    bound_of,
    budget,
    counted,
    serving,
    store,
    times,
    under,
)
from tests.inference.stores import OwnStore
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.slow

__all__ = ["store"]

OWN = {
    BudgetSubject.ORGANISATION: {},
    BudgetSubject.TEAM: {},
    BudgetSubject.PROJECT: {},
    BudgetSubject.KEY: {},
    BudgetSubject.END_USER: {"user": "ann"},
    BudgetSubject.TAG: {"tag": "night"},
    BudgetSubject.MODEL: {},
    BudgetSubject.ROUTE: {},
}
"""What a request says so that it is of each subject; of the others it is anyway."""


@pytest.mark.parametrize("subject", OWN)
async def test_what_is_used_up_is_whole_again_in_the_next_period_and_then_used_up_again(
    store: Redis, upstream: Upstream, subject: BudgetSubject
) -> None:
    fields = dict(OWN[subject])
    headers = {"x-headworks-tags": fields.pop("tag")} if "tag" in fields else {}
    bound = await bound_of(upstream, **fields)
    record, clock = budget(bound + COST, BudgetScope(subject)), HandClock(AT_S)
    body = {"model": "m", "messages": [{"role": "user", "content": "ping"}], "temperature": 0}
    request = request_bytes(
        json.dumps({**body, **ASKED, **fields}).encode(), token=TOKEN, headers=headers
    )
    async with serving(store, under(upstream, record), clock) as gateway:

        async def ask() -> int:
            return (await send(gateway.port, request)).status

        assert [await ask() for _ in range(3)] == [200, 200, 429]
        clock.move(MAY.ends_s - AT_S)
        assert [await ask() for _ in range(3)] == [200, 200, 429]


async def test_ten_callers_that_leave_their_streams_have_spent_what_came_and_hold_nothing(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    most = await bound_of(upstream, max_tokens=1_000)
    record = budget(most + 20 * COST)
    upstream.play(Behaviour(calls=10, gap_ms=50, text=" ".join(["one"] * 100)), Behaviour())
    async with serving(store, under(upstream, record)) as gateway:
        for number in range(10):
            async with streaming(gateway.port, max_tokens=1_000) as running:
                await running.read_until(b"one")
                running.leave()
            await gateway.wait_ended(number + 1)
        assert await times(1, gateway, max_tokens=1_000) == [200]
        spent = sum(spent_nanousd(end.charges) for end in gateway.books.ends)
    assert {end.outcome for end in gateway.books.ends[:10]} == {Outcome.CANCELLED}
    assert spent < most
    assert await counted(admin, record, KEY_ID) == (spent, 0)


async def test_a_store_that_can_be_read_and_not_written_reserves_nothing_so_nobody_is_let_in(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    async with serving(store, under(upstream, budget(AMPLE))) as gateway:
        assert await times(1, gateway) == [200]
        await admin.config_set("maxmemory", "1")
        refused = await chat(gateway.port, **ASKED)
        while refused.status == 200:  # what this process holds ahead is used up first
            refused = await chat(gateway.port, **ASKED)
        assert (refused.status, refused.error["code"]) == (503, "budgets_unavailable")
        assert "retry-after" in refused.headers
        before = len(upstream.calls)
        assert await times(3, gateway) == [503] * 3
        assert len(upstream.calls) == before
        await admin.config_set("maxmemory", "0")
        await gateway.wait_for(lambda: gateway.limiter.leases.is_usable)
        assert await times(1, gateway) == [200]


async def test_a_store_that_falls_silent_costs_a_moment_and_forgets_nothing(
    store: Redis, admin: Redis, own_store: OwnStore, upstream: Upstream
) -> None:
    bound = await bound_of(upstream)
    record = budget(bound + 3 * COST)
    upstream.play(Behaviour(calls=1, delay_ms=500), Behaviour())
    async with serving(store, under(upstream, record)) as gateway:
        running = asyncio.create_task(chat(gateway.port, **ASKED))
        await gateway.wait_for(lambda: gateway.inflight)
        own_store.freeze()
        assert (await running).status == 200, "who is in stays in"
        statuses = await times(3, gateway)
        assert statuses[-1] == 503
        own_store.thaw()
        await gateway.wait_for(lambda: gateway.limiter.leases.is_usable)
        left = 4 - 1 - statuses.count(200)
        assert await times(left + 1, gateway) == [200] * left + [429]
    assert await counted(admin, record, KEY_ID) == (4 * COST, 0)


async def test_a_store_whose_clock_is_set_takes_nobody_for_dead_and_ends_no_period(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    held, bound = await bound_of(upstream, stream=True), await bound_of(upstream)
    record = budget(held + bound + COST)
    upstream.play(Behaviour(calls=1, gap_ms=200, text=" ".join(["one"] * 20)), Behaviour())
    holders = wire.limits_holders_key("org_a")
    async with serving(store, under(upstream, record)) as gateway:
        async with streaming(gateway.port, max_tokens=50) as running:
            await running.read_until(b"one")
            for hours in (-5, 5):
                # where the clock stood when it was last looked at
                await admin.hincrby(holders, "at", hours * 3_600_000)
                assert await times(1, gateway) == [200]
                refused = await chat(gateway.port, max_tokens=100)
                assert refused.error["code"] == "budget_exceeded", "the stream's part is held"
            running.leave()
        await gateway.wait_ended(5)
        spent = sum(spent_nanousd(end.charges) for end in gateway.books.ends)
    assert await counted(admin, record, KEY_ID) == (spent, 0)


@pytest.mark.parametrize(
    "edited",
    [
        budget(CENT),
        budget(AMPLE, action=BudgetAction.NOTIFY),
        budget(AMPLE, is_enabled=False),
        None,
    ],
    ids=["less than is reserved", "notifies now", "off", "removed"],
)
async def test_what_runs_while_its_budget_is_edited_is_booked_whole(
    store: Redis, admin: Redis, upstream: Upstream, edited: BudgetRecord | None
) -> None:
    record = budget(AMPLE)
    upstream.play(Behaviour(calls=1, delay_ms=400), Behaviour())
    async with serving(store, under(upstream, record)) as gateway:
        running = asyncio.create_task(chat(gateway.port, **ASKED))
        await gateway.wait_for(lambda: gateway.inflight)
        gateway.apply(under(upstream, *([edited] if edited else [])))
        blocks = edited is not None and edited.amount_nanousd == CENT
        assert await times(1, gateway) == ([429] if blocks else [200])
        assert (await running).status == 200
        others = edited is not None and edited.action is BudgetAction.NOTIFY
        gateway.apply(under(upstream, record))
        assert await times(1, gateway) == [200], "an edit that is taken back finds all it had"
    assert await counted(admin, record, KEY_ID) == ((3 if others else 2) * COST, 0)


async def test_one_that_only_told_blocks_by_what_ran_before(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    bound = await bound_of(upstream)
    record = budget(bound + COST, action=BudgetAction.NOTIFY)
    upstream.play(Behaviour(calls=1, delay_ms=400), Behaviour())
    async with serving(store, under(upstream, record)) as gateway:
        running = asyncio.create_task(chat(gateway.port, **ASKED))
        await gateway.wait_for(lambda: gateway.inflight)
        gateway.apply(under(upstream, budget(bound + COST)))
        assert (await running).status == 200
        assert await times(2, gateway) == [200, 429]
    assert await counted(admin, record, KEY_ID) == (2 * COST, 0)


async def test_who_is_named_by_odd_or_endless_words_is_counted_where_the_ledger_counts_it(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    record = budget(AMPLE, BudgetScope(BudgetSubject.END_USER))
    names = ["a\0b", "\N{ZERO WIDTH SPACE}\ud83d", "x" * 2**19]
    async with serving(store, under(upstream, record)) as gateway:
        replies = [await chat(gateway.port, user=name, **ASKED) for name in names]
        metadata = {"tags": "y" * 2**19, "nul": "\0"}
        replies.append(await chat(gateway.port, metadata=metadata, user="ann", **ASKED))
        kept = [end.origin.end_user for end in gateway.books.ends]
    # half a surrogate pair is no text: its body is refused, and nobody named
    assert [reply.status for reply in replies] == [200, 400, 200, 200]
    assert kept == ["a?b", None, "x" * 255, "ann"]
    assert json.loads(upstream.calls[-1].body or "")["metadata"] == metadata
    for name in ("a?b", "x" * 255, "ann"):
        assert await counted(admin, record, name) == (COST, 0)


async def test_tags_without_end_are_refused_and_cost_nothing(
    store: Redis, upstream: Upstream
) -> None:
    record = budget(AMPLE, BudgetScope(BudgetSubject.TAG))
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}]}).encode()
    async with serving(store, under(upstream, record)) as gateway:
        for tags, status in ((",".join(f"t{n}" for n in range(1_000)), 400), ("t" * 2**20, 431)):
            request = request_bytes(body, headers={"x-headworks-tags": tags})
            async with opened(gateway.port, request) as call:
                await call.read_head()
            assert call.status == status
        assert upstream.calls == []


async def test_answers_with_the_same_id_or_none_are_requests_of_their_own(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    record = budget(AMPLE)
    answer = {
        "object": "chat.completion",
        "choices": [{"message": {"content": "hi"}, "finish_reason": "stop", "index": 0}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
    bodies = [answer, {**answer, "id": "chatcmpl-1"}, {**answer, "id": None}]
    played = [bodies[0], bodies[1], bodies[1], bodies[2]]
    upstream.play(*(Behaviour(calls=1, body=json.dumps(one)) for one in played))
    async with serving(store, under(upstream, record)) as gateway:
        assert await times(4, gateway) == [200] * 4
        ids = {end.event_id for end in gateway.books.ends}
    assert len(ids) == 4
    assert await counted(admin, record, KEY_ID) == (4 * COST, 0)


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("path", SAMPLES)
async def test_what_is_told_in_another_dialect_is_charged_once(
    store: Redis, admin: Redis, upstream: Upstream, path: str, is_stream: bool
) -> None:
    record = budget(AMPLE)
    snapshot = configuration(chat_only("a", upstream), budgets=(record,))
    async with serving(store, snapshot) as gateway:
        reply = await post(gateway.port, path, **SAMPLES[path], stream=is_stream)
        assert reply.status == 200
        await gateway.wait_ended()
        assert [len(end.charges) for end in gateway.books.ends] == [1]
    assert await counted(admin, record, KEY_ID) == (COST, 0)


async def test_a_budget_that_is_used_up_serves_the_free_model_and_not_the_other(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    bound = await bound_of(upstream)
    record = budget(bound)
    free = replace(
        PRICE, id="prc_b", model_id="mdl_b", input_nanousd_per_mtok=0, output_nanousd_per_mtok=0
    )
    snapshot = configuration(
        pool_record("a", upstream.base_url),
        pool_record("b", upstream.base_url, model_id="mdl_b"),
        models=(ModelRecord("mdl_a", "org_a", "a"), ModelRecord("mdl_b", "org_a", "b")),
        prices=(PRICE, free),
        routes=(route_record("a"), route_record("b", id="rt_free", name="free")),
        budgets=(record,),
    )
    async with serving(store, snapshot) as gateway:
        assert await times(2, gateway) == [200, 429]
        assert await times(3, gateway, model="free") == [200] * 3
        assert await times(1, gateway) == [429]
    assert await counted(admin, record, KEY_ID) == (COST, 0)


TOKENS = {"prompt_tokens": 10, "completion_tokens": 5}


@pytest.mark.parametrize(
    ("usages", "kind", "cost"),
    [
        ((), ChargeKind.ESTIMATED, 0),
        ((None,), ChargeKind.ESTIMATED, 0),
        (({"prompt_tokens": 0, "completion_tokens": 0},), ChargeKind.FINAL, 0),
        ((TOKENS, TOKENS), ChargeKind.FINAL, COST),
        (({"prompt_tokens": 10, "completion_tokens": 1}, TOKENS), ChargeKind.FINAL, COST),
    ],
    ids=["absent", "null", "zero", "twice", "twice and different"],
)
async def test_a_streams_usage_is_booked_and_counted_once_whatever_it_says(
    store: Redis,
    admin: Redis,
    upstream: Upstream,
    usages: tuple[dict[str, int] | None, ...],
    kind: ChargeKind,
    cost: int,
) -> None:
    record = budget(AMPLE)
    chunks: list[dict[str, object]] = [
        {"choices": [{"index": 0, "delta": {"content": "hi"}}]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        *({"choices": [], "usage": one} for one in usages),
    ]
    frames = [f"data: {json.dumps(one)}\n\n" for one in chunks]
    upstream.play(Behaviour(frames=[*frames, "data: [DONE]\n\n"]))
    async with serving(store, under(upstream, record)) as gateway:
        assert await times(1, gateway, stream=True) == [200]
        charge = gateway.books.charge
    assert (charge.kind, charge.cost_nanousd) == (kind, cost)
    assert await counted(admin, record, KEY_ID) == (cost, 0)
