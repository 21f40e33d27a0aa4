"""Corrections of what was booked arrive in the counters that gateways refuse by."""

from datetime import UTC

import pytest
from redis import Redis

from controlplane.models import BudgetAccount, SpendCorrection
from controlplane.services.actors import Actor
from controlplane.services.corrections import book
from controlplane.services.organisations import create_organisation
from tests.controlplane.bridge.budget_world import World

pytestmark = pytest.mark.slow


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
    world.tick(32)
    assert world.settled(account) == BudgetAccount.objects.get().spent_nanousd == left
