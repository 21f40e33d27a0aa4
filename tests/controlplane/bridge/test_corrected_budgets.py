"""Corrections of what was booked arrive in the counters that gateways refuse by."""

import asyncio
from collections.abc import Sequence
from datetime import UTC
from typing import NamedTuple

import pytest
from redis import Redis

from controlplane.models import BudgetAccount, SpendCorrection
from controlplane.services.actors import Actor
from controlplane.services.corrections import book
from controlplane.services.organisations import create_organisation
from inference.contract import wire
from inference.decisions.budgets import Account
from inference.limits.slices import Counter
from tests.controlplane.bridge.budget_world import World
from tests.inference.limits.rig import running

pytestmark = pytest.mark.slow


class Store(NamedTuple):
    """The store that the control plane has."""

    url: str


@pytest.fixture
def world(transactional_db: None, state_store: Redis, actor: Actor) -> World:
    return World(state_store, actor, create_organisation(actor, name="Home"))


@pytest.mark.parametrize(("amount", "left"), [(-900, 100), (250, 1_250)])
def test_a_correction_moves_the_counters_both_ways(world: World, amount: int, left: int) -> None:
    budget = world.budget()
    world.live()
    world.tick()
    account = world.account(budget)
    world.record(1_000)  # all there is to spend, by a price that was wrong
    world.settle(account, 1_000)
    world.tick(16)
    assert world.settled(account) == 1_000
    correct(world, amount)
    world.tick(32)
    assert world.settled(account) == BudgetAccount.objects.get().spent_nanousd == left


@pytest.mark.parametrize("amount", [-150_000_000, -(10**12)])
def test_what_is_taken_back_beyond_what_was_spent_can_be_spent_to_the_unit(
    world: World, state_url: str, amount: int
) -> None:
    budget = world.budget()
    world.live()
    world.tick()
    account = world.account(budget)
    correct(world, amount)  # of a period in which nothing was spent yet
    world.tick(32)
    assert world.settled(account) == BudgetAccount.objects.get().spent_nanousd == amount
    assert asyncio.run(takes(world, state_url, account, (1_001 - amount, 1_000 - amount, 1))) == [
        False,
        True,
        False,
    ]


def correct(world: World, amount: int) -> None:
    """Book a correction of now."""
    row = SpendCorrection(
        organisation_id=world.home.pk,
        day=world.now.astimezone(UTC).date(),
        at=world.now,
        received_at=world.now,
        booked_at=world.now,
        amount_nanousd=amount,
        reason="a wrong price",
    )
    book([row], now=world.now)


async def takes(world: World, url: str, account: Account, units: Sequence[int]) -> list[bool]:
    """Which of these amounts a gateway's process lets somebody reserve, one after another."""
    world.store.setnx(wire.SEEDED_AT, "1")
    ends_ms = account.period.ends_s * 1_000
    counter = Counter(account.key, world.home.pk, 0, 1_000, True, ends_ms)
    async with running(Store(url), "aa") as process:
        return [await process.take(counter, units=one) is not None for one in units]
