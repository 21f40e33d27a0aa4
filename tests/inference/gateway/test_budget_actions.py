"""Budgets that do less than refuse: a cheaper model, fewer requests a minute, shorter answers."""

import asyncio
import json
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from inference.contract.kinds import BudgetAction, BudgetPeriod, TooLong
from inference.contract.snapshot import ConfigSnapshot, ModelRecord
from inference.decisions.budgets import FOREVER, Account
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import (
    KEY_ID,
    PRICE,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.inference.gateway.test_budgets import (
    AMPLE,
    ASKED,
    CENT,
    COST,
    UNSEEN,
    bound_of,
    budget,
    counted,
    serving,
    store,
    times,
    under,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

pytestmark = pytest.mark.slow

__all__ = ["store"]


def two_models(upstream: Upstream, *budgets: object, share: int = 1) -> ConfigSnapshot:
    """A dear model `a` in the first tier and a cheap one `b` behind it."""
    route = route_record("a", "b")
    first, second = route.targets
    route = replace(route, targets=(first, replace(second, tier=1)))
    return configuration(
        pool_record("a", upstream.base_url),
        pool_record("b", upstream.base_url, model_id="mdl_b"),
        routes=(route,),
        models=(ModelRecord("mdl_a", "org_a", "a"), ModelRecord("mdl_b", "org_a", "b")),
        prices=(
            PRICE,
            replace(
                PRICE,
                id="prc_b",
                model_id="mdl_b",
                input_nanousd_per_mtok=PRICE.input_nanousd_per_mtok // 10,
                output_nanousd_per_mtok=PRICE.output_nanousd_per_mtok // 10,
            ),
        ),
        budgets=budgets,
    )


async def test_once_a_share_is_spent_requests_go_to_the_cheapest_model(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    record = budget(2 * COST, action=BudgetAction.CHEAPER, acts_at_percent=50)
    async with serving(store, two_models(upstream, record)) as gateway:
        first = await chat(gateway.port, **ASKED)
        assert (first.status, "x-headworks-budget" in first.headers) == (200, False)
        second = await chat(gateway.port, **ASKED)
        assert (second.status, second.headers["x-headworks-budget"]) == (200, "cheaper")
        assert await times(2, gateway) == [200, 200], "nobody is refused, whatever is spent"
        models = [end.charges[0].model_id for end in gateway.books.ends]
        assert models == ["mdl_a", "mdl_b", "mdl_b", "mdl_b"]
        told = [(end.decision or {})["budgets"] for end in gateway.books.ends[:2]]
        assert [one.get("cheaper") for one in told] == [None, ["bud_a"]]
        assert gateway.metric("budget_effects_total", effect="cheaper") == 3
        # a new amount gives room at once, and what was spent stays counted
        wide = replace(record, amount_nanousd=AMPLE)
        gateway.apply(two_models(upstream, wide))
        assert await times(1, gateway) == [200]
        assert gateway.books.ends[-1].charges[0].model_id == "mdl_a"
    assert (await counted(admin, record, KEY_ID))[0] == 2 * COST + 3 * COST // 10


async def test_a_named_model_is_taken_where_the_route_has_it(
    store: Redis, upstream: Upstream
) -> None:
    record = budget(0, action=BudgetAction.CHEAPER, cheaper_model_id="mdl_a")
    async with serving(store, two_models(upstream, record)) as gateway:
        reply = await chat(gateway.port, **ASKED)
        assert gateway.books.end.charges[0].model_id == "mdl_a"
        assert reply.headers["x-headworks-budget"] == "cheaper"
        gone = replace(record, cheaper_model_id="mdl_gone")
        gateway.apply(two_models(upstream, gone))
        assert await times(1, gateway) == [200]
        assert gateway.books.ends[-1].charges[0].model_id == "mdl_b"
        # there is nothing cheaper to go to
        gateway.apply(under(upstream, replace(record, cheaper_model_id=None)))
        only = await chat(gateway.port, **ASKED)
        assert (only.status, "x-headworks-budget" in only.headers) == (200, False)


async def test_another_process_knows_before_its_first_request(
    store: Redis, upstream: Upstream
) -> None:
    record = budget(COST, action=BudgetAction.CHEAPER)
    async with serving(store, two_models(upstream, record)) as one:
        assert await times(1, one) == [200]
        async with serving(store, two_models(upstream, record)) as other:
            assert await times(1, other) == [200]
            assert other.books.ends[0].charges[0].model_id == "mdl_b"


async def test_under_a_throttle_requests_wait_for_their_place_in_the_minute(
    store: Redis, upstream: Upstream
) -> None:
    record = budget(COST, action=BudgetAction.THROTTLE, throttle_per_minute=200)
    async with serving(store, under(upstream, record)) as gateway:
        assert await times(1, gateway) == [200]
        began = asyncio.get_running_loop().time()
        replies = await asyncio.gather(*(chat(gateway.port, **ASKED) for _ in range(6)))
        lasted = asyncio.get_running_loop().time() - began
        assert {one.status for one in replies} == {200}
        # places are 300 ms apart on the store's clock: between six of them are four gaps at least
        assert lasted > 4 * 0.3 - 0.05
        slowed = [one for one in replies if "x-headworks-budget" in one.headers]
        assert len(slowed) >= 4
        assert {one.headers["x-headworks-budget"] for one in slowed} == {"throttled"}
        record = replace(record, amount_nanousd=AMPLE)
        gateway.apply(under(upstream, record))
        assert await times(8, gateway) == [200] * 8


async def test_who_finds_no_place_in_time_is_refused_in_words(
    store: Redis, upstream: Upstream
) -> None:
    record = budget(0, action=BudgetAction.THROTTLE, throttle_per_minute=1)
    async with serving(store, under(upstream, record, max_queue_wait_ms=100)) as gateway:
        statuses = await times(2, gateway)
        # the minute of the store's clock may end in between
        assert statuses in ([200, 429], [200, 200])
        refused = await chat(gateway.port, **ASKED)
        if refused.status == 200:
            refused = await chat(gateway.port, **ASKED)
        assert (refused.status, refused.error["code"]) == (429, "budget_exceeded")
        assert "lets in 1 requests a minute" in refused.error["message"]
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        told = (gateway.books.ends[-1].decision or {})["budgets"]
        assert (told["refused"], told["throttled"]) == ("bud_a", ["bud_a"])


async def test_each_end_user_is_slowed_down_by_what_it_spent_itself(
    store: Redis, upstream: Upstream
) -> None:
    record = budget(COST, UNSEEN, action=BudgetAction.THROTTLE, throttle_per_minute=1)
    snapshot = under(upstream, record, max_queue_wait_ms=0)
    async with serving(store, snapshot) as gateway:
        assert await times(1, gateway, user="ann") == [200]
        assert 429 in await times(3, gateway, user="ann")
        assert await times(1, gateway, user="bob") == [200]


async def test_an_answer_is_shortened_to_what_is_left_buys(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    bound = await bound_of(upstream)
    record = budget(bound - COST, too_long=TooLong.LOWER)
    async with serving(store, under(upstream, record)) as gateway:
        reply = await chat(gateway.port, **ASKED)
        most = int(reply.headers["x-headworks-max-output-tokens"])
        assert (reply.status, reply.headers["x-headworks-budget"]) == (200, "lowered")
        assert 16 <= most < 50
        sent = json.loads(upstream.calls[-1].body)
        assert sent["max_tokens"] == most
        end = gateway.books.end
        assert gateway.books.openings[-1].cost_max_nanousd <= bound - COST
        told = (end.decision or {})["budgets"]
        assert (told["lowered"], told["lowered_to"]) == (["bud_a"], most)
        assert "refused" not in told
        assert gateway.metric("budget_effects_total", effect="lowered") == 1
        assert gateway.metric("budget_refusals_total") == 0
        # without a maximum of its own it is bounded as well
        reply = await chat(gateway.port)
        assert reply.status in (200, 429)
        while reply.status == 200:
            assert int(reply.headers["x-headworks-max-output-tokens"]) <= most
            reply = await chat(gateway.port)
        assert (reply.status, reply.error["code"]) == (429, "budget_exceeded")
        assert gateway.metric("budget_refusals_total") == 1
    spent, held = await counted(admin, record, KEY_ID)
    assert (spent <= bound - COST, held) == (True, 0)


async def test_nothing_is_shortened_that_has_no_answer_or_that_another_budget_refuses(
    store: Redis, upstream: Upstream
) -> None:
    lowering = budget(10 * CENT, too_long=TooLong.LOWER)
    snapshot = under(upstream, lowering)
    async with serving(store, snapshot) as gateway:
        refused = await chat(gateway.port, max_tokens=5_000, min_tokens=4_000)
        assert refused.status == 429
        other = budget(10 * CENT, id="bud_b")
        gateway.apply(under(upstream, lowering, other))
        assert await times(1, gateway, max_tokens=5_000) == [429]
        told = (gateway.books.ends[-1].decision or {})["budgets"]
        assert told["refused"] in ("bud_a", "bud_b")
        assert "lowered" not in told
        assert upstream.calls == []


async def test_many_at_once_share_what_is_left_and_pass_nothing(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    bound = await bound_of(upstream)
    record = budget(3 * bound - COST, too_long=TooLong.LOWER)
    upstream.play(Behaviour(delay_ms=300))
    async with serving(store, under(upstream, record)) as gateway:
        replies = await asyncio.gather(*(chat(gateway.port, **ASKED) for _ in range(8)))
        assert {one.status for one in replies} <= {200, 429}
        lowered = [one for one in replies if "x-headworks-max-output-tokens" in one.headers]
        whole = [one for one in replies if one.status == 200 and one not in lowered]
        assert len(whole) == 2
        assert len(lowered) >= 1
        most = sum(one.cost_max_nanousd or 0 for one in gateway.books.openings)
        assert most <= record.amount_nanousd
    assert (await counted(admin, record, KEY_ID))[1] == 0


async def test_one_that_rolls_refuses_until_what_is_oldest_leaves_it(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    bound = await bound_of(upstream)
    record = budget(bound + COST, is_rolling=True, period=BudgetPeriod.HOUR)
    calendar = budget(AMPLE, id="bud_b")
    async with serving(store, under(upstream, record, calendar)) as gateway:
        assert await times(3, gateway) == [200, 200, 429]
        refused = await chat(gateway.port, **ASKED)
        assert "an hour, rolling, and less than" in refused.error["message"]
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert gateway.books.ends[-1].decision["budgets"]["kept"] == ["bud_a", "bud_b"]
    found = await admin.hgetall(Account(record, (KEY_ID,), FOREVER).key)
    assert sum(int(value) for name, value in found.items() if name.startswith(b"b:")) == 2 * COST
    assert (await counted(admin, calendar, KEY_ID))[0] == 2 * COST


async def test_what_is_spent_is_never_lost_however_a_budget_is_edited_meanwhile(
    store: Redis, admin: Redis, upstream: Upstream
) -> None:
    record = budget(AMPLE)
    edits = (
        {"action": BudgetAction.NOTIFY},
        {"action": BudgetAction.BLOCK, "amount_nanousd": AMPLE // 2},
        {"action": BudgetAction.THROTTLE, "throttle_per_minute": 100_000},
        {"action": BudgetAction.BLOCK, "too_long": TooLong.LOWER, "grace_percent": 7},
        {"action": BudgetAction.CHEAPER},
        {"action": BudgetAction.BLOCK},
    )
    async with serving(store, under(upstream, record)) as gateway:
        for number, changes in enumerate(edits, 1):
            upstream.play(Behaviour(delay_ms=200))
            running = asyncio.create_task(chat(gateway.port, **ASKED))
            await gateway.wait_for(lambda sent=number: len(upstream.calls) == 2 * sent - 1)
            record = replace(record, **changes)
            gateway.apply(under(upstream, record))
            assert (await running).status == 200
            assert await times(1, gateway) == [200]
    assert await counted(admin, record, KEY_ID) == (2 * len(edits) * COST, 0)


async def test_grace_is_a_share_and_an_amount(store: Redis, upstream: Upstream) -> None:
    bound = await bound_of(upstream)
    record = budget(bound - 1, grace_nanousd=1 + COST)
    async with serving(store, under(upstream, record)) as gateway:
        assert await times(3, gateway) == [200, 200, 429]


async def test_a_store_that_is_away_slows_nobody_down(store: Redis, upstream: Upstream) -> None:
    record = budget(0, action=BudgetAction.THROTTLE, throttle_per_minute=1)
    snapshot = under(upstream, record, max_queue_wait_ms=0)
    async with running_gateway(snapshot) as gateway:
        assert await times(3, gateway) == [200] * 3
