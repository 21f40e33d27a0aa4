"""What the Live tab of a route is told: its own traffic, by the pools it went to."""

from typing import Any

import pytest

from controlplane.errors import NotFound
from controlplane.models import Organisation
from controlplane.selectors.access import Access
from controlplane.selectors.live import get_live, span_of
from tests.controlplane.conftest import POOL, Caller
from tests.controlplane.live.facts import (
    after,
    child,
    gauges,
    histogram,
    sampled,
    supervisor,
    traffic,
)

pytestmark = pytest.mark.slow

ALL = Access(is_platform_admin=True)


def test_a_routes_figures_are_its_own_by_the_pools_it_went_to(
    admin: Caller, organisation: Organisation, pool: Any
) -> None:
    org, pool_id, span = organisation.pk, pool["id"], span_of("5m", after(2.0))
    targets = [{"pool": pool_id, "weight": 1}]
    document = {"name": "chat", "targets": targets, "degradation": ["trim_batch"]}
    route_id = admin.made("/routes/", document)["id"]
    admin.made("/routes/", {**document, "name": "other"})
    former = admin.made("/pools/", {**POOL, "name": "former"})["id"]
    idle = admin.made("/pools/", {**POOL, "name": "idle"})["id"]
    own = {"route_id": route_id, "failures": {"timeout": 1}}
    buckets = [
        traffic(0, org, pool_id, requests=3, first_token_ms=histogram(*[100.0] * 3), **own),
        traffic(0, org, former, requests=2, **own),
        traffic(0, org, "", requests=1, shed={"batch": 1}, route_id=route_id),
        traffic(0, org, pool_id, requests=5, route_id="rt_other"),
    ]
    measured = supervisor(gauges(f"{pool_id}-0", 1.0, running=1), written_s=1.0)
    told = child("a/0", *buckets, written_s=2.0, queued={pool_id: 4, idle: 7})
    sampled(2.0, told, measured)
    view = get_live(ALL, organisation, span, route_id=route_id)
    assert (view.total.requests[-1], view.total.failures["timeout"][-1]) == (6, 2)
    assert [(one.label, one.requests[-1]) for one in view.pools] == [
        ("mine", 3), ("former", 2), ("Refused, no pool", 1),
    ]  # fmt: skip
    assert (view.summary.samples, view.summary.shed) == (3, {"batch": 1})
    # workers serve other routes too; who waits is told for those pools alone that it may send to
    assert (view.workers, view.summary.running) == ([], None)
    assert [(one.label, one.waiting_now) for one in view.queues] == [("mine", 4)]
    assert [one.label for one in view.ladders] == ["chat"]
    assert view.month_to_date_nanousd is None
    with pytest.raises(NotFound):
        get_live(ALL, organisation, span, route_id="rt_other")
