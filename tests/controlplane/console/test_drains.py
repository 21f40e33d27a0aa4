"""Draining, putting back and restarting single workers and gateways by their pages."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.test import Client
from redis import Redis

from controlplane.models import AuditEntry, GatewaySetting, Pool, Role
from controlplane.services import audit
from controlplane.services.actors import Actor, Via, system_actor
from controlplane.services.gateways import update_gateway
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.users import create_user
from inference.contract.kinds import BreakerState, WorkerState
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, words_of
from tests.controlplane.console.test_pools import operator, process_pool, static_pool
from tests.controlplane.console.test_request_pages import rows_of
from tests.controlplane.fleet import put_directory, put_vitals, vitals, worker
from tests.controlplane.live.test_propagation import child, publish, write

pytestmark = pytest.mark.slow


__all__ = ["operator"]


def replicas(reader: Reader, pool: Pool) -> str:
    return reader.page(f"/pools/{pool.pk}/?tab=replicas")


def test_a_worker_is_drained_with_its_reason_and_put_back(operator: Reader, actor: Actor) -> None:
    pool = process_pool(operator, actor)
    targets = [TargetChoice(pool, 1)]
    create_route(actor, organisation=operator.organisation, name="chat", targets=targets)
    flow = Flow(operator.client, f"/pools/{pool.pk}/workers/1/drain/")
    assert "Drain worker small/1" in flow.words
    assert "Worker 1 sent requests drained" in flow.words
    assert "Worker 1 finishes its requests and is sent nothing new; it runs on." in flow.words
    assert "Routes chat" in flow.words
    assert '{"cordoned": [1]}' in flow.words
    flow.send("save")
    assert "Give a reason." in flow.words
    flow.send("save", reason="a bad disk")
    assert flow.response["Location"].startswith(f"/pools/{pool.pk}/?tab=replicas&applied=")
    assert Pool.objects.get().cordoned == [1]
    entry = AuditEntry.objects.order_by("-id")[0]
    assert (entry.before, entry.after) == ({"cordoned": []}, {"cordoned": [1]})
    flow = Flow(operator.client, f"/pools/{pool.pk}/workers/1/drain/")
    assert "Worker 1 is drained already." in flow.words
    flow = Flow(operator.client, f"/pools/{pool.pk}/workers/1/put-back/")
    flow.send("save")
    assert flow.response.status_code == 302
    assert Pool.objects.get().cordoned == []
    activity = words_of(operator.page(f"/pools/{pool.pk}/?tab=activity"))
    assert "Drained workers none 1" in activity


def test_one_worker_is_restarted_and_no_other(operator: Reader, actor: Actor) -> None:
    pool = process_pool(operator, actor, worker_restarts={"1": 4})
    flow = Flow(operator.client, f"/pools/{pool.pk}/workers/1/restart/")
    words = "Only this worker is replaced, once its requests have ended or 30 seconds are over."
    assert words in flow.words
    assert "Restarts asked of worker 1 4 5" in flow.words
    flow.send("save", reason="it leaks")
    assert flow.response.status_code == 302
    assert Pool.objects.get().worker_restarts == {"1": 5}


def test_an_act_that_somebody_else_s_edit_overtook_is_reviewed_again(
    operator: Reader, actor: Actor
) -> None:
    pool = process_pool(operator, actor)
    flow = Flow(operator.client, f"/pools/{pool.pk}/workers/1/drain/")
    Pool.objects.update(version=9, cordoned=[0])
    flow.send("save", reason="a bad disk")
    assert flow.response.status_code == 412
    assert "No other worker is left, so nothing is served from here." in flow.words
    flow.send("save", reason="a bad disk")
    assert Pool.objects.get().cordoned == [0, 1]


@pytest.mark.parametrize(
    ("act", "told"),
    [
        ("drain", "The pool has no worker 7."),
        ("restart", "The pool has no worker 7."),
        ("put-back", "Worker 7 is not drained."),
    ],
)
def test_there_is_no_act_on_a_worker_that_is_not_there(
    act: str, told: str, operator: Reader, actor: Actor
) -> None:
    pool = process_pool(operator, actor)
    page = operator.page(f"/pools/{pool.pk}/workers/7/{act}/")
    assert told in words_of(page)
    assert 'value="save"' not in page


def test_an_address_is_drained_and_never_restarted(operator: Reader, actor: Actor) -> None:
    pool = static_pool(operator, actor)
    page = replicas(operator, pool)
    assert f"/pools/{pool.pk}/workers/0/drain/" in page
    assert "/workers/0/restart/" not in page
    words = words_of(operator.page(f"/pools/{pool.pk}/workers/0/restart/"))
    assert "The workers of a static pool are started elsewhere." in words
    flow = Flow(operator.client, f"/pools/{pool.pk}/workers/0/drain/")
    flow.send("save", reason="it is upgraded")
    assert Pool.objects.get().cordoned == [0]


def test_a_viewer_is_offered_no_act_and_refused_each(reader: Reader, actor: Actor) -> None:
    pool = process_pool(reader, actor)
    put = f"/pools/{pool.pk}/workers/0"
    assert put not in replicas(reader, pool)
    for act in ("drain", "put-back", "restart"):
        assert reader.get(f"{put}/{act}/").status_code == 403


def test_the_tab_tells_who_still_has_what_which_breakers_are_open_and_panic(
    operator: Reader, actor: Actor, state_store: Redis
) -> None:
    pool = process_pool(operator, actor, replicas=3, cordoned=[1, 2])
    one, two, three = (f"{pool.pk}-{number}" for number in range(3))
    put_directory(
        state_store,
        worker(one, WorkerState.READY),
        worker(two, WorkerState.DRAINING),
        worker(three, WorkerState.DRAINED),
    )
    put_vitals(
        state_store,
        vitals("gw-1/0", gateway="gw-1", inflight={two: 2}, breakers={one: BreakerState.OPEN}),
        vitals("gw-1/1", gateway="gw-1", breakers={one: BreakerState.HALF_OPEN}),
        vitals("gw-2/0", gateway="gw-2", inflight={two: 1}),
    )
    page = replicas(operator, pool)
    first, second, third = rows_of(page)
    assert "Breaker open at gw-1/0, half-open at gw-1/1" in first
    assert second.startswith("small/1 Draining 3 requests left: gw-1 2, gw-2 1 3 ")
    assert third.startswith("small/2 Drained 0 ")
    assert [row.rpartition("Logs")[2].split()[2:4] for row in (first, third)] == [
        ["Drain", "small/0"],
        ["Put", "back"],
    ]
    told = "Every breaker is open at gw-1/0: sent to only if no other target has room."
    assert told in words_of(page)
    assert "Panic" not in words_of(page)
    put_directory(state_store, *(worker(name, WorkerState.READY) for name in (one, two, three)))
    shut = dict.fromkeys((one, two), BreakerState.OPEN)
    put_vitals(state_store, vitals("gw-1/0", gateway="gw-1", breakers=shut))
    page = replicas(operator, pool)
    assert "Panic at gw-1/0: breakers would leave fewer than 50 %" in words_of(page)
    assert "Every breaker" not in words_of(page)


def test_a_drained_pool_says_so_and_is_put_back(
    operator: Reader, actor: Actor, state_store: Redis
) -> None:
    pool = process_pool(operator, actor, power="drained")
    put_directory(state_store, *(worker(f"{pool.pk}-{n}", WorkerState.DRAINED) for n in range(2)))
    (row,) = rows_of(operator.page("/pools/?power=drained"))
    assert row.startswith("small Drained ")
    page = operator.page(f"/pools/{pool.pk}/")
    assert f"/pools/{pool.pk}/put-back/" in page
    assert f"/pools/{pool.pk}/drain/" not in page
    flow = Flow(operator.client, f"/pools/{pool.pk}/put-back/")
    assert "2 workers are sent requests again." in flow.words
    flow.send("save")
    assert Pool.objects.get().power == "running"


@pytest.fixture
def root(operator: Reader, actor: Actor) -> Client:
    """The platform's administrator, who sees the operator's organisation."""
    user = create_user(actor, username="root", password="a long pass 1", is_platform_admin=True)
    client = Client()
    client.force_login(user)
    return client


def gateways(client: Client, path: str = "/system/gateways/") -> str:
    return words_of(client.get(path).content.decode())


def test_a_gateway_is_drained_and_its_acknowledgement_is_told_live(
    root: Client, state_store: Redis
) -> None:
    publish(state_store)
    now = datetime.now(UTC)
    write(state_store, child("gw-1/0", now, inflight={"p-0": 2}), child("gw-1/1", now))
    assert "gw-1 Serving v7 2 of 2 report 2 Drain gateway gw-1 Restart" in gateways(root)
    flow = Flow(root, "/system/gateways/gw-1/drain/")
    assert "Drain gateway gw-1" in flow.words
    assert "curl" not in flow.words  # no token can do it
    assert "No other gateway serves: a balancer that obeys /ready sends nowhere." in flow.words
    flow.send("save")
    assert "Give a reason." in flow.words
    flow.send("save", reason="a new kernel")
    assert flow.response["Location"].startswith("/system/?applied=")
    told = "gw-1 Draining: 2 requests left 0 of 2 processes have begun to drain."
    assert f"{told} Changed by root : a new kernel v7" in gateways(root)
    write(state_store, child("gw-1/0", now, inflight={"p-0": 1}, is_draining=True))
    write(state_store, child("gw-1/1", now, is_draining=True))
    assert "gw-1 Draining: 1 request left Changed by root" in gateways(root)
    write(state_store, child("gw-1/0", now, is_draining=True))
    assert "gw-1 Drained Its /ready answers 503" in gateways(root)
    flow = Flow(root, "/system/gateways/gw-1/put-back/")
    flow.send("save", reason="upgraded")
    assert GatewaySetting.objects.get().is_drained is False
    entry = words_of(root.get(f"/audit/{AuditEntry.objects.latest('id').pk}/").content.decode())
    assert "Changed gateway gw-1" in entry


def test_the_audit_page_lists_changes_of_the_platform_for_its_administrators_alone(
    root: Client, make_reader: Callable[..., Reader], state_store: Redis
) -> None:
    admin = make_reader("local", Role.ADMIN)
    publish(state_store)
    write(state_store, child("gw-1/0", datetime.now(UTC)))
    Flow(root, "/system/gateways/gw-1/drain/").send("save", reason="a new kernel")
    entry = AuditEntry.objects.latest("id")
    audit.record(
        system_actor("adopt_configuration", via=Via.COMMAND),
        action="adopt",
        noun="snapshots",
        object_id="installation",
        organisation_id=None,
        after={"version": 7},
    )
    adopted = AuditEntry.objects.latest("id")
    for path in ("/audit/", f"/audit/?organisation={admin.organisation.pk}"):
        words = words_of(root.get(path).content.decode())
        assert "changed gateway gw-1 is_drained a new kernel" in words
        assert "adopted snapshot installation" in words
    page = words_of(root.get(f"/audit/{adopted.pk}/").content.decode())
    assert "Adopted snapshot installation" in page
    assert "gw-1" not in words_of(admin.page("/audit/"))
    for hidden in (entry, adopted):
        assert admin.get(f"/audit/{hidden.pk}/").status_code == 404


def test_the_processes_of_a_gateway_are_replaced(root: Client, state_store: Redis) -> None:
    publish(state_store)
    write(state_store, child("gw-1/0", datetime.now(UTC)))
    flow = Flow(root, "/system/gateways/gw-1/restart/")
    assert "Each has 60 seconds to finish its requests; what runs longer is cut off." in flow.words
    flow.send("save", reason="memory")
    assert GatewaySetting.objects.get().restart_generation == 1
    assert "Restarting: generation 1 is wanted" in gateways(root)
    write(state_store, child("gw-1/0", datetime.now(UTC), restart_generation=1))
    assert "Restarting" not in gateways(root)


def test_an_administrator_of_an_organisation_sees_gateways_and_neither_load_nor_acts(
    make_reader: Callable[..., Reader], actor: Actor, state_store: Redis
) -> None:
    reader = make_reader("ada", Role.ADMIN)
    publish(state_store)
    write(state_store, child("gw-1/0", datetime.now(UTC), inflight={"p-0": 2}))
    update_gateway(actor, name="gw-1", changes={"is_drained": True})
    for path in ("/system/", "/system/gateways/"):
        page = reader.page(path)
        assert "gw-1 Draining 0 of 1 processes have begun to drain. v7 1 of 1 report" in words_of(
            page
        )
        assert "requests left" not in page
        assert "/system/gateways/gw-1/" not in page
    assert reader.get("/system/gateways/gw-1/drain/").status_code == 403
    assert make_reader("vic").get("/system/gateways/").status_code == 403


def test_without_the_store_nobody_can_tell_and_a_stranger_is_not_found(
    root: Client, state_store: Redis
) -> None:
    publish(state_store)
    assert "None was seen within the last 10 minutes." in gateways(root)
    assert root.get("/system/gateways/nobody/drain/").status_code == 404
