"""Budgets put to the test at a gateway process: a copy of each goes the way of every request."""

import time
from collections.abc import Mapping
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from redis.asyncio import Redis

from inference.contract import wire
from inference.contract.kinds import BudgetAction, BudgetPeriod, BudgetSubject, ProofVerdict
from inference.contract.snapshot import BudgetRecord, BudgetScope
from inference.limits.limiter import Limiter
from inference.limits.proofs import Prover
from inference.observability.limit_metrics import LimitMetrics
from tests.inference.limits.rig import Process, running, several
from tests.inference.stores import OwnStore, until


def budget(**changes: Any) -> BudgetRecord:
    told: dict[str, Any] = {
        "id": "bud_1",
        "organisation_id": "org_a",
        "name": "all",
        "scopes": (BudgetScope(BudgetSubject.END_USER),),
        "amount_nanousd": 10**12,
        "period": BudgetPeriod.MONTH,
        **changes,
    }
    return BudgetRecord(**told)


def limiter_of(process: Process, known: Mapping[str, BudgetRecord]) -> Limiter:
    limiter = Limiter(
        process.leases, LimitMetrics(CollectorRegistry()), stopwatch=time.perf_counter
    )
    limiter.budgets = known
    return limiter


async def verdicts(store: OwnStore, admin: Redis, known: Mapping[str, BudgetRecord]) -> list[str]:
    """What two processes with these budgets find, each asked twice."""
    await admin.hset(wire.BUDGET_PROOFS, "word", "bud_1")
    async with several(store, 2) as processes:
        epoch = await admin.get(wire.LIMITS_EPOCH)
        assert epoch is not None
        await admin.set(wire.BUDGETS_SEEDED, epoch)
        for number, process in enumerate(processes):
            leases = process.leases
            await until(lambda leases=leases: leases.has_budgets, "the ledger to be told")
            prover = Prover(process.client, limiter_of(process, known), f"a/{number}")
            await prover.step()
            await prover.step()
    told = await admin.hgetall(wire.budget_proof_key("word"))
    assert sorted(told) == [b"a/0", b"a/1"]
    left = await admin.keys("hw:limits:{org_a}:*")
    assert [one for one in left if not one.endswith(b":holders")] == [], "nothing of it is left"
    return [words.decode() for words in told.values()]


@pytest.mark.parametrize("is_rolling", [False, True])
async def test_what_there_is_no_room_for_is_refused_at_each(
    store: OwnStore, admin: Redis, is_rolling: bool
) -> None:
    for words in await verdicts(store, admin, {"bud_1": budget(is_rolling=is_rolling)}):
        assert words.startswith("refused The budget all of this end user is $0.000000003 a month")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"action": BudgetAction.THROTTLE}, "slowed It has the next wait for"),
        ({"action": BudgetAction.CHEAPER}, "cheaper It sends the next to the cheaper model."),
        ({"action": BudgetAction.NOTIFY}, "let_in It lets the next in."),
        ({"is_enabled": False}, "off It has the budget, switched off."),
        ({"id": "bud_2"}, "unknown It has no such budget."),
    ],
)
async def test_what_it_does_short_of_that_is_told(
    store: OwnStore, admin: Redis, changes: dict[str, Any], told: str
) -> None:
    made = budget(**changes)
    for words in await verdicts(store, admin, {made.id: made}):
        assert words.startswith(told)


async def test_a_store_that_was_not_told_of_the_ledger_is_no_proof(
    store: OwnStore, admin: Redis
) -> None:
    async with running(store, "a") as one:
        prover = Prover(one.client, limiter_of(one, {"bud_1": budget()}), "a/0")
        await admin.hset(wire.BUDGET_PROOFS, "word", "bud_1")
        await prover.step()
    told = await admin.hget(wire.budget_proof_key("word"), "a/0")
    assert told.decode().partition(" ")[0] == ProofVerdict.AWAY
