"""What our own GPUs cost: from workers that were measured and attempts in the ledger, once."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from controlplane.decisions.gpu_costs import User, Work, lines_of
from controlplane.models import LiveWorker, OwnCost, Pool
from controlplane.selectors.access import Access
from controlplane.selectors.gpu_costs import get_own_costs
from controlplane.selectors.margins import get_margins
from controlplane.services.actors import Actor
from controlplane.services.gpu_prices import create_gpu_price
from controlplane.services.models import create_model
from controlplane.services.organisations import create_organisation
from controlplane.services.own_costs import compute_hour, hours_to_compute
from controlplane.services.pools import create_pool, update_pool
from controlplane.services.prices import create_price
from controlplane.services.usage import record_usage
from inference.contract.events import PriceUsed, Usage
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

HOUR = datetime(2026, 11, 24, 10, tzinfo=UTC)
DOLLAR = 10**9


def work(tokens: int, name: str = "a") -> Work:
    return Work(User("team", name, "m"), tokens, 1, 0, 0)


@pytest.mark.parametrize(
    ("parts", "busy", "own"),
    [
        ((1, 1, 1), 3_600.0, [1, 1, 1]),
        ((2, 1), 3_600.0, [2, 1]),
        ((), 0.0, [3]),
        ((0, 0), 3_600.0, [0, 0, 3]),
        ((1,), 1_800.0, [2, 1]),
    ],
    ids=["even", "by tokens", "nobody came", "no tokens reported", "half idle"],
)
def test_a_cost_is_shared_to_the_last_nano_dollar(
    parts: tuple[int, ...], busy: float, own: list[int]
) -> None:
    lines = lines_of(
        [work(one) for one in parts], gpu_seconds=3_600.0, busy_gpu_seconds=busy, hour_nanousd=3
    )
    assert [line.own_nanousd for line in lines] == own
    assert sum(line.gpu_seconds for line in lines) == pytest.approx(3_600.0)


def test_without_a_price_nobody_knows_the_cost() -> None:
    lines = lines_of([work(5)], gpu_seconds=60.0, busy_gpu_seconds=90.0, hour_nanousd=None)
    assert [(line.own_nanousd, line.gpu_seconds) for line in lines] == [(None, 60.0)]


class World:
    """A pool of two workers of two GPUs each, with a price of an hour."""

    def __init__(self, actor: Actor) -> None:
        self.actor = actor
        self.home = create_organisation(actor, name="Home")
        model = create_model(actor, organisation=self.home, name="m")
        self.pool = create_pool(
            actor,
            organisation=self.home,
            name="gpu",
            model=model,
            provisioner="process",
            model_source="m",
            port_base=20_000,
            gpu_type="H100",
            capacity_class="spot",
            gpus_per_worker=2,
        )
        self.numbers = 0

    def worker(self, number: int, minutes: int, hour: datetime = HOUR) -> None:
        """A worker that was measured in so many minutes of the hour."""
        sums = {f"{one}_sum": 0.0 for one in GAUGES} | {f"{one}_samples": 60 for one in GAUGES}
        LiveWorker.objects.bulk_create(
            LiveWorker(
                resolution_s=60,
                pool_id=self.pool.pk,
                at=hour + timedelta(minutes=minute),
                worker_id=f"{self.pool.pk}-{number}",
                is_gpu=True,
                **sums,
            )
            for minute in range(minutes)
        )

    def attempt(self, number: int, begin_s: float, seconds: float, **changes: Any) -> None:
        """An attempt on a worker, so long after the hour's beginning."""
        self.numbers += 1
        started = HOUR + timedelta(seconds=begin_s)
        ended = int((started + timedelta(seconds=seconds)).timestamp() * 1_000)
        charge = make_charge(
            pool_id=self.pool.pk,
            model_id=self.pool.model_id,
            worker_id=f"{self.pool.pk}-{number}",
            started_at_ms=int(started.timestamp() * 1_000),
            duration_ms=seconds * 1_000,
            **{"usage": Usage(30, 10, 20), "cost_nanousd": 7, **changes},
        )
        project = changes.get("project", "proj_1")
        origin = make_origin(organisation_id=self.home.pk, project_id=project)
        end = make_end(
            self.numbers, at_ms=ended, received_at_ms=ended, origin=origin, charges=(charge,)
        )
        record_usage([end], now=HOUR + timedelta(hours=1))


GAUGES = ("running", "waiting", "kv_used", "utilisation", "memory_bytes")


@pytest.fixture
def world(db: None, actor: Actor) -> World:
    return World(actor)


def told(kind: str) -> list[tuple[Any, ...]]:
    rows = OwnCost.objects.filter(kind=kind).order_by("project_id")
    return list(rows.values_list("project_id", "gpu_seconds", "tokens", "own_nanousd"))


@pytest.mark.slow
def test_an_hour_is_shared_by_work_and_idle_time_is_told_apart(world: World) -> None:
    world.worker(0, 60)
    world.worker(1, 30)
    # the first two overlap, the last began before the hour: 600 s + 300 s of busy workers
    world.attempt(0, 100, 400)
    world.attempt(0, 300, 400)
    world.attempt(1, -300, 600)
    for _ in range(2):
        compute_hour(HOUR, HOUR + timedelta(hours=1))
    # 90 worker-minutes of 2 GPUs at $0.75 are $2.25, of which 900 of 5,400 worker-seconds were busy
    assert told("work") == [("proj_1", 1_800.0, 60, 375_000_000)]
    assert told("idle") == [("", 9_000.0, 0, 1_875_000_000)]
    row = OwnCost.objects.get(kind="work")
    assert (row.list_nanousd, row.attempts, row.hour_nanousd) == (21, 3, 750_000_000)


@pytest.mark.slow
def test_what_comes_late_and_a_price_of_ones_own_are_in_the_next_run(world: World) -> None:
    world.worker(0, 60)
    world.attempt(0, 0, 1_800)
    compute_hour(HOUR, HOUR)
    assert told("work")[0][3] == 750_000_000
    create_gpu_price(
        world.actor,
        organisation=world.home,
        gpu_type="H100",
        capacity_class="spot",
        hour_nanousd=DOLLAR,
        effective_from=HOUR - timedelta(days=1),
    )
    world.attempt(0, 1_800, 900, cost_nanousd=None, price=None)
    compute_hour(HOUR, HOUR)
    assert told("work") == [("proj_1", 5_400.0, 40, 1_500_000_000)]
    assert told("idle")[0][3] == 500_000_000
    access = Access(is_platform_admin=True)
    found = get_own_costs(
        access, world.home, since=HOUR, until=HOUR + timedelta(hours=1), group="pool"
    )
    assert [(one.kind, one.own_nanousd, one.list_nanousd) for one in found.lines] == [
        ("work", 1_500_000_000, 7),
        ("idle", 500_000_000, None),
    ]
    assert found.lines[0].own_nanousd_per_mtok == 1_500_000_000 * 10**6 // 40


@pytest.mark.slow
def test_a_gpu_of_no_known_price_has_time_and_no_cost(world: World) -> None:
    Pool.objects.update(gpu_type="L4")
    world.worker(0, 1)
    compute_hour(HOUR, HOUR)
    assert told("idle") == [("", 120.0, 0, None)]


@pytest.mark.slow
def test_after_a_long_time_hours_are_caught_up_with_in_their_order(world: World) -> None:
    now = HOUR + timedelta(hours=100, minutes=30)
    assert hours_to_compute(now)[0] == now.replace(minute=0) - timedelta(hours=3)
    world.worker(0, 1)
    compute_hour(HOUR, HOUR)
    begun = [HOUR + timedelta(hours=number) for number in range(-3, 1)]
    assert hours_to_compute(now) == begun
    # workers come back days later, for an hour each; empty hours between hold nobody up
    for later in (50, 99):
        world.worker(0, 1, HOUR + timedelta(hours=later))
    for known, later, count in ((0, 50, 48), (50, 99, 6)):
        hours = hours_to_compute(now)
        assert len(hours) == count
        assert hours[3:5] == [HOUR + timedelta(hours=one) for one in (known, later)]
        for hour in hours:
            compute_hour(hour, now)
    assert OwnCost.objects.filter(kind="idle").count() == 3


@pytest.mark.slow
def test_another_gpu_is_priced_from_the_hour_after_the_change_on(world: World) -> None:
    ahead = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
    for changes in ({"gpu_type": "L4"}, {"gpu_type": "H100", "gpus_per_worker": 4}):
        update_pool(world.actor, pool_id=world.pool.pk, changes=changes)
    for hour in (HOUR, ahead):
        world.worker(0, 60, hour)
        compute_hour(hour, hour)
    rows = OwnCost.objects.filter(kind="idle").order_by("hour")
    assert [(one.gpu_type, one.gpu_seconds, one.own_nanousd) for one in rows] == [
        ("H100", 7_200.0, 1_500_000_000),
        ("H100", 14_400.0, 3_000_000_000),
    ]
    update_pool(world.actor, pool_id=world.pool.pk, changes={"gpu_type": None})
    compute_hour(HOUR, HOUR)
    assert rows.first().own_nanousd == 1_500_000_000


@pytest.mark.slow
def test_what_a_removed_pool_cost_stays(world: World) -> None:
    world.worker(0, 1)
    compute_hour(HOUR, HOUR)
    before = told("idle")
    Pool.objects.all().delete()
    compute_hour(HOUR, HOUR)
    assert told("idle") == before != []


@pytest.mark.slow
def test_a_margin_is_told_where_revenue_and_cost_are_known(world: World) -> None:
    price = create_price(
        world.actor,
        model=world.pool.model,
        input_nanousd_per_mtok=10**6,
        output_nanousd_per_mtok=10**6,
        customer_input_nanousd_per_mtok=3 * 10**6,
        customer_output_nanousd_per_mtok=5 * 10**6,
    )
    used = PriceUsed(price.version_id or "", 10**6, 10**6)
    world.attempt(0, 0, 60, price=used, cost_nanousd=40)

    def lines() -> list[tuple[Any, ...]]:
        found = get_margins(
            Access(is_platform_admin=True),
            world.home,
            since=HOUR,
            until=HOUR + timedelta(hours=1),
            group="model",
        )
        for one in found.lines:
            assert one.revenue_nanousd_per_mtok == 140 * 1_000_000 // 40
            assert one.revenue_nanousd_per_attempt == 140
        return [
            (one.revenue_nanousd, one.cost_nanousd, one.margin_nanousd, one.unknown_revenue)
            for one in found.lines
        ]

    assert lines() == [(30 * 3 + 10 * 5, 40, 100, 0)]
    # one at a price that says nothing of customers: its revenue isn't known, nor is the margin
    world.attempt(0, 60, 60, price=PriceUsed("prv_other", 1, 1), cost_nanousd=5)
    assert lines() == [(140, 45, None, 1)]
    # nor is it of tokens that nobody counted, whatever was booked for them
    world.attempt(0, 120, 60, price=used, usage=Usage(), cost_nanousd=6)
    assert lines() == [(140, 51, None, 2)]


@pytest.mark.slow
def test_a_margin_is_rounded_once_whatever_it_sums(world: World) -> None:
    price = create_price(
        world.actor,
        model=world.pool.model,
        input_nanousd_per_mtok=0,
        output_nanousd_per_mtok=0,
        customer_input_nanousd_per_mtok=10_000,
        customer_output_nanousd_per_mtok=5_000,
    )
    used = PriceUsed(price.version_id or "", 0, 0)
    # 30 tokens at a hundredth of a nano-dollar and 10 at half of that: 0.35 each
    for number in range(10):
        world.attempt(0, 60 * number, 30, price=used, cost_nanousd=0)
    found = get_margins(
        Access(is_platform_admin=True),
        world.home,
        since=HOUR,
        until=HOUR + timedelta(hours=1),
        group="pool",
    )
    assert [(one.revenue_nanousd, one.unknown_revenue) for one in found.lines] == [(4, 0)]


@pytest.mark.slow
@pytest.mark.parametrize("offset", [timedelta(hours=5, minutes=45), timedelta(0)])
def test_margins_are_of_whole_days_of_the_organisations_zone(
    world: World, offset: timedelta
) -> None:
    home = create_organisation(world.actor, name="Kathmandu", time_zone="Asia/Kathmandu")
    # the day that 24 November 10:00 by UTC is in there, from 23 November 18:15 on
    begins = datetime(2026, 11, 23, 18, 15, tzinfo=UTC)
    moments = [
        begins - timedelta(milliseconds=1),
        begins,
        begins + timedelta(days=1, milliseconds=-1),
        begins + timedelta(days=1),
    ]
    origin = make_origin(organisation_id=home.pk)
    record_usage(
        [
            make_end(number, at_ms=round(at.timestamp() * 1_000), origin=origin)
            for number, at in enumerate(moments, start=500)
        ],
        now=HOUR,
    )
    found = get_margins(
        Access(is_platform_admin=True),
        home,
        since=HOUR.astimezone(timezone(offset)),
        until=(HOUR + timedelta(hours=1)).astimezone(timezone(offset)),
        group="model",
    )
    assert (found.since, found.until) == (begins, begins + timedelta(days=1))
    assert [one.attempts for one in found.lines] == [2]
