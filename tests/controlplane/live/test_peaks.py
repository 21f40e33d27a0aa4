"""Queues and ladders as the sampler keeps them and as they are read: the most of each bucket."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from controlplane.models import LivePeak, Organisation, Pool, Route
from controlplane.selectors.access import Access
from controlplane.selectors.live import LiveView, get_live, span_of
from controlplane.services.actors import Actor
from controlplane.services.live import FINE_KEPT, FOLDED_KEPT, tidy
from controlplane.services.organisations import create_organisation
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from tests.controlplane.live.facts import NOON, after, child, quiet, sampled, traffic

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

ALL = Access(is_platform_admin=True)


def rows(resolution_s: int = 5, kind: str = "waiting") -> dict[tuple[str, float], float]:
    found = LivePeak.objects.filter(resolution_s=resolution_s, kind=kind)
    return {(row.subject_id, (row.at - NOON).total_seconds()): row.value for row in found}


def since(route: str = "rt_1") -> list[tuple[float, float, float]]:
    """Bucket, steps and since when, in seconds after noon."""
    found = LivePeak.objects.filter(kind="steps", subject_id=route, resolution_s=5).order_by("at")
    return [
        ((row.at - NOON).total_seconds(), row.value, (row.since - NOON).total_seconds())
        for row in found
        if row.since is not None
    ]


def test_who_waits_at_all_processes_adds_up_and_the_longest_wait_is_the_longest() -> None:
    records = [
        child(name, queued={"pool_1": count}, oldest_wait_ms={"pool_1": wait}, written_s=1.0)
        for name, count, wait in (("a/0", 2, 900.0), ("a/1", 3, 100.0))
    ]
    for _ in range(2):
        sampled(1.2, *records)
    assert rows() == {("pool_1", 0): 5}
    assert rows(kind="oldest_wait_ms") == {("pool_1", 0): 900.0}


def test_a_bucket_keeps_the_most_there_was() -> None:
    for now_s, count in ((1.0, 1), (2.0, 7), (3.0, 2), (6.0, 2)):
        sampled(now_s, child("a/0", queued={"pool_1": count}, written_s=now_s))
    quiet(7.0)
    assert rows() == {("pool_1", 0): 7, ("pool_1", 5): 2}


def test_steps_say_since_when_they_are_so_many() -> None:
    for now_s, taken in ((1.0, 1), (4.0, 1), (6.0, 1), (8.0, 2), (11.0, 2), (13.0, 1), (16.0, 1)):
        processes = (("a/0", taken), ("a/1", 0))
        records = [
            child(name, degraded={"rt_1": count} if count else {}, written_s=now_s)
            for name, count in processes
        ]
        sampled(now_s, *records)
    # one that is given back shows with the next bucket, for a bucket keeps its most
    assert since() == [(0, 1, 1.0), (5, 2, 8.0), (10, 2, 8.0), (15, 1, 16.0)]


def test_a_feed_that_was_away_for_long_does_not_guess_since_when() -> None:
    for now_s in (1.0, 60.0):
        sampled(now_s, child("a/0", degraded={"rt_1": 1}, written_s=now_s))
    assert since() == [(0, 1, 1.0), (60, 1, 60.0)]


def test_longer_buckets_keep_the_most_and_old_ones_go() -> None:
    for now_s, count in ((1.0, 1), (20.0, 4), (59.0, 2)):
        sampled(now_s, child("a/0", queued={"pool_1": count}, written_s=now_s))
    quiet(121.0)
    for _ in range(2):
        tidy(after(121))
    assert rows(60) == {("pool_1", 0): 4}
    tidy(NOON + FINE_KEPT + timedelta(minutes=16))
    assert rows() == {}
    assert rows(60) == {("pool_1", 0): 4}
    tidy(NOON + FOLDED_KEPT + timedelta(minutes=16))
    assert LivePeak.objects.count() == 0


@pytest.fixture
def home(actor: Actor) -> Organisation:
    return create_organisation(actor, name="Home")


@pytest.fixture
def pools(home: Organisation, actor: Actor) -> list[Pool]:
    return [
        create_pool(
            actor,
            organisation=home,
            name=name,
            model=name,
            provisioner="static",
            addresses=["http://127.0.0.1:9101/v1"],
        )
        for name in ("large", "small")
    ]


@pytest.fixture
def route(home: Organisation, pools: list[Pool], actor: Actor) -> Route:
    """One that degrades, and sends to the small pool by a rule alone."""
    rule = {"name": "gold", "when": {"tags": ["gold"]}, "targets": [TargetChoice(pools[1], 1)]}
    create_route(actor, organisation=home, name="plain", targets=[TargetChoice(pools[1], 1)])
    return create_route(
        actor,
        organisation=home,
        name="chat",
        targets=[TargetChoice(pools[0], 1)],
        rules=[rule],
        degradation=["trim_batch", "shed_batch"],
    )


def live(home: Organisation, now: datetime, **scope: Any) -> LiveView:
    return get_live(ALL, home, span_of("5m", now), **scope)


def test_pages_read_queues_of_pools_and_ladders_of_routes(
    home: Organisation, pools: list[Pool], route: Route
) -> None:
    shed = traffic(0, home.pk, requests=4, failures={"queue_full": 4}, shed={"batch": 4})
    told = {
        "queued": {pools[0].pk: 3},
        "oldest_wait_ms": {pools[0].pk: 450.0},
        "degraded": {route.pk: 1},
    }
    quiet(0.0)
    sampled(1.0, child("a/0", shed, written_s=1.0, **told))
    sampled(4.0, child("a/0", shed, written_s=4.0, **told))
    view = live(home, after(4.0))
    assert [(one.label, one.waiting_now, one.oldest_wait_ms_now) for one in view.queues] == [
        ("large", 3, 450.0),
        ("small", 0, 0),
    ]
    assert view.queues[0].waiting[-2:] == (0, 3)
    assert view.queues[0].waiting[0] is None
    (chat,) = view.ladders
    assert (chat.label, chat.now, chat.since) == ("chat", 1, after(1.0))
    assert (chat.taken, chat.steps[-2:]) == (("trim_batch",), (0, 1))
    assert view.summary.shed == {"batch": 4}
    assert view.total.shed_per_s["batch"][-2:] == (0.0, 1.0)
    assert view.total.shed_per_s["default"][-1] == 0.0
    # the bucket after: nobody waits any more, and the route serves as ever
    quiet(6.0)
    view = live(home, after(6.0))
    assert [one.waiting_now for one in view.queues] == [0, 0]
    assert (view.ladders[0].now, view.ladders[0].since) == (0, None)
    assert view.ladders[0].steps[-2:] == (1, 0)


def test_a_pools_page_shows_the_routes_that_send_there(
    home: Organisation, pools: list[Pool], route: Route
) -> None:
    quiet(1.0)
    for pool in pools:
        view = live(home, after(1.0), pool_id=pool.pk)
        assert [one.label for one in view.queues] == [pool.name]
        assert [one.label for one in view.ladders] == ["chat"]


def test_without_a_gateway_nothing_is_known(
    home: Organisation, pools: list[Pool], route: Route
) -> None:
    view = live(home, after(1.0))
    assert [one.waiting_now for one in view.queues] == [None, None]
    assert view.ladders[0].now is None
    assert set(view.ladders[0].steps) == {None}
