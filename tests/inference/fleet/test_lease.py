"""At most one leader, judged by a fencing token that only ever grows."""

import pytest
from redis.asyncio import Redis

from inference.contract import wire
from inference.fleet.lease import LEASE_S, LeaderLease, Standing
from tests.inference.clocks import HandClock
from tests.inference.stores import OwnStore, until


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


def token_of(lease: LeaderLease) -> int:
    """The token of a lease that is held."""
    assert lease.token is not None
    return lease.token


def lease_of(client: Redis, clock: HandClock, owner: str, life_s: float = LEASE_S) -> LeaderLease:
    return LeaderLease(client, owner=owner, clock=clock, life_s=life_s)


async def test_the_first_to_ask_leads_and_the_second_stands_by(
    client: Redis, clock: HandClock
) -> None:
    first, second = lease_of(client, clock, "a"), lease_of(client, clock, "b")
    await first.step()
    await second.step()
    assert first.standing is Standing.LEADER
    assert token_of(first) > 0
    assert (second.standing, second.token) == (Standing.FOLLOWER, None)


async def test_a_renewed_lease_keeps_its_token(client: Redis, clock: HandClock) -> None:
    lease = lease_of(client, clock, "a")
    await lease.step()
    taken = token_of(lease)
    for _ in range(2):
        clock.move(LEASE_S / 2)
        await lease.step()
    assert (lease.standing, lease.token) == (Standing.LEADER, taken)
    assert 0 < await client.pttl(wire.LEADER) <= LEASE_S * 1000


async def test_a_released_lease_is_free_at_once_and_its_next_token_is_greater(
    client: Redis, clock: HandClock
) -> None:
    first, second = lease_of(client, clock, "a"), lease_of(client, clock, "b")
    await first.step()
    taken = token_of(first)
    await first.release()
    await second.step()
    assert first.standing is Standing.FOLLOWER
    assert token_of(second) > taken


async def test_the_next_one_leads_when_a_lease_runs_out_and_the_first_learns_of_it(
    client: Redis, clock: HandClock
) -> None:
    first, second = lease_of(client, clock, "a", life_s=0.05), lease_of(client, clock, "b")
    await first.step()
    taken = token_of(first)

    async def is_taken() -> bool:
        await second.step()
        return second.standing is Standing.LEADER

    await until(is_taken, "the lease of the first to run out")
    await first.step()
    assert (first.standing, first.token) == (Standing.FOLLOWER, None)
    assert token_of(second) > taken


async def test_a_released_lease_of_another_is_left_alone(client: Redis, clock: HandClock) -> None:
    first, second = lease_of(client, clock, "a", life_s=0.05), lease_of(client, clock, "b")
    await first.step()
    await client.delete(wire.LEADER)
    await second.step()
    await first.release()
    assert await client.get(wire.LEADER) == b"%d:b" % token_of(second)


async def test_a_leader_without_a_store_becomes_a_caretaker_when_its_lease_has_run_out(
    own_store: OwnStore, client: Redis, clock: HandClock
) -> None:
    lease = lease_of(client, clock, "a")
    await lease.step()
    taken = token_of(lease)
    own_store.freeze()
    clock.move(LEASE_S - 0.1)
    await lease.step()
    assert lease.standing is Standing.LEADER
    clock.move(0.1)
    assert (lease.standing, lease.token) == (Standing.CARETAKER, taken)
    own_store.thaw()
    await lease.step()
    assert lease.standing is Standing.LEADER


async def test_a_store_that_lost_everything_gives_a_greater_token_all_the_same(
    own_store: OwnStore, client: Redis, clock: HandClock
) -> None:
    lease = lease_of(client, clock, "a")
    await lease.step()
    taken = token_of(lease)
    own_store.restart()

    async def is_taken_again() -> bool:
        await lease.step()
        return lease.token is not None and lease.token > taken

    await until(is_taken_again, "a lease of the new store")
    assert lease.standing is Standing.LEADER


async def test_a_stranger_to_an_emptied_store_gets_a_greater_token_too(
    client: Redis, admin: Redis, clock: HandClock
) -> None:
    first = lease_of(client, clock, "a")
    await first.step()
    taken = token_of(first)
    await admin.flushall()
    await admin.set(wire.FENCING, 3)  # what an older copy of the store may have held
    stranger = lease_of(client, clock, "b")
    await stranger.step()
    assert token_of(stranger) > taken
    await first.step()
    assert (first.standing, first.token) == (Standing.FOLLOWER, None)


@pytest.mark.parametrize("seen", ["by ourselves", "in the directory"])
async def test_a_token_beyond_the_stores_clock_is_outbid_once_seen(
    client: Redis, clock: HandClock, seen: str
) -> None:
    lease = lease_of(client, clock, "a")
    if seen == "by ourselves":
        lease.outbid(4_000_000_000_000)
    else:
        await client.hset(wire.DIRECTORY, "token", "4000000000000")  # type: ignore[misc]
    await lease.step()
    assert lease.token == 4_000_000_000_001
    assert await client.get(wire.FENCING) == b"4000000000001"


async def test_without_a_store_nobody_leads(own_store: OwnStore, client: Redis) -> None:
    own_store.freeze()
    lease = lease_of(client, HandClock(), "a")
    await lease.step()
    await lease.release()
    assert lease.standing is Standing.FOLLOWER
