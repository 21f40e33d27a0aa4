"""The pages of pools, but for their live figures."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from redis import Redis

from controlplane.models import ConfigRevision, Pool, Role, RoleBinding, Team
from controlplane.services.actors import Actor
from controlplane.services.pools import create_pool, update_pool
from controlplane.services.prices import create_price
from inference.contract import wire
from inference.contract.kinds import ProcessRole, WorkerState
from inference.contract.vitals import Applied, WorkerGauges
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.test_request_pages import rows_of, words_of
from tests.controlplane.fleet import CHANGED_AT, put_directory, put_vitals, vitals, worker
from tests.controlplane.live.facts import (
    NOON_S,
    child,
    gauges,
    histogram,
    quiet,
    sampled,
    supervisor,
    traffic,
)

pytestmark = pytest.mark.slow


SECRET = "upstream-credential-of-great-value"


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ola", Role.OPERATOR)


def process_pool(reader: Reader, actor: Actor, name: str = "small", **fields: Any) -> Pool:
    values = {"model_source": "smollm2-135m-instruct", "replicas": 2} | fields
    return create_pool(
        actor,
        organisation=reader.organisation,
        name=name,
        model="smollm2",
        provisioner="process",
        **values,
    )


def static_pool(reader: Reader, actor: Actor, name: str = "far", **fields: Any) -> Pool:
    return create_pool(
        actor,
        organisation=reader.organisation,
        name=name,
        model="gpt-x",
        provisioner="static",
        addresses=["http://127.0.0.1:9000/v1"],
        **fields,
    )


def hidden_in(page: str) -> dict[str, str]:
    """The signed base a page carries."""
    mark = 'name="base" value="'
    return {"base": page.partition(mark)[2].partition('"')[0]}


def post(reader: Reader, path: str, fields: Mapping[str, object]) -> Any:
    return reader.client.post(path, fields)


def test_a_row_tells_state_reason_and_figures_and_what_nobody_measured_is_a_dash(
    operator: Reader, actor: Actor, state_store: Redis
) -> None:
    pool = process_pool(operator, actor)
    state_store.set(wire.LEADER, "1:pools")
    put_directory(
        state_store,
        worker(f"{pool.pk}-0", WorkerState.READY),
        worker(f"{pool.pk}-1", WorkerState.FAILED, detail="out of memory"),
    )
    (row,) = rows_of(operator.page("/pools/"))
    assert row.startswith(
        "small Degraded small/1 failed: out of memory smollm2 vllm, process 1 of 2 - - - - - "
    )


def test_a_row_has_the_newest_figures_of_its_pool(operator: Reader, actor: Actor) -> None:
    pool = process_pool(operator, actor)
    begun = int(time.time()) // 5 * 5 - 60 - NOON_S
    quiet(begun)
    for at in range(begun, begun + 60, 5):
        one = traffic(
            at, operator.organisation.pk, pool.pk, requests=6, cost_nanousd=7_000_000,
            first_token_ms=histogram(*[180.0] * 6),
        )  # fmt: skip
        measured = gauges(f"{pool.pk}-0", at + 5, running=3, waiting=1, kv_used=0.5, utilisation=80)
        told = child("a/0", one, written_s=at + 5), supervisor(measured, written_s=at + 5)
        sampled(at + 5, *told)
    (row,) = rows_of(operator.page("/pools/"))
    figures = row.partition("0 of 2 ")[2].rpartition(" ")[0].rpartition(" ")[0]
    assert re.fullmatch(r"80 % CPU 50 % 3 / 1 18[0-9] ms \$5\.04", figures), row
    words = words_of(operator.page(f"/pools/{pool.pk}/?tab=replicas"))
    assert "Requests 1.2 /s" in words


def test_without_traffic_only_a_pool_whose_model_has_a_price_costs_nothing(
    operator: Reader, actor: Actor, state_store: Redis
) -> None:
    pool = static_pool(operator, actor)
    now = time.time() - NOON_S
    quiet(now - 60)
    sampled(now, child("a/0", written_s=now))
    home = operator.organisation.pk
    address, tile = f"/pools/{pool.pk}/?tab=replicas", f"/live/pool/?organisation={home}"

    def told() -> tuple[str, str, bool]:
        (row,) = rows_of(operator.page("/pools/"))
        cost = operator.client.get(f"{tile}&pool={pool.pk}&window=5m").json()["tiles"]["cost"]
        return row.split()[-3], cost["text"], "Cost $0.00 /h" in words_of(operator.page(address))

    assert told() == ("-", "", False)
    create_price(actor, model=pool.model, input_nanousd_per_mtok=1, output_nanousd_per_mtok=1)
    assert told() == ("$0.00", "$0.00", True)


def test_a_role_in_one_team_sees_pools_and_neither_figures_nor_logs(
    make_reader: Callable[..., Reader], actor: Actor
) -> None:
    reader = make_reader("tim")
    pool = process_pool(reader, actor)
    binding = RoleBinding.objects.get(user__username="tim")
    RoleBinding.objects.filter(pk=binding.pk).update(team=Team.objects.get())
    assert "small" in reader.page("/pools/")
    page = reader.page(f"/pools/{pool.pk}/")
    assert "tab=logs" not in page
    assert "live-page" not in page
    assert reader.get(f"/pools/{pool.pk}/log/?worker=0").status_code == 403


def test_a_role_in_one_team_learns_states_of_replicas_and_not_what_they_say_or_do(
    make_reader: Callable[..., Reader], actor: Actor, state_store: Redis
) -> None:
    reader = make_reader("tim")
    pool = process_pool(reader, actor, replicas=1)
    worker_id = f"{pool.pk}-0"
    put_directory(state_store, worker(worker_id, WorkerState.BACKING_OFF, detail="exit code 1"))
    put_vitals(state_store, vitals("g/0", inflight={worker_id: 77}))
    address = f"/pools/{pool.pk}/?tab=replicas"
    (whole,) = rows_of(reader.page(address))
    assert "Backing off exit code 1 77 " in whole
    RoleBinding.objects.filter(user__username="tim").update(team=Team.objects.get())
    (row,) = rows_of(reader.page(address))
    assert "Backing off - - " in row
    for path in (address, "/pools/"):
        assert "exit code" not in reader.page(path)


def test_without_the_state_store_nothing_is_said_to_be_down(
    operator: Reader, actor: Actor, state_store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    process_pool(operator, actor)
    monkeypatch.setattr("controlplane.console.pool_facts.read_fleet", lambda: None)
    (row,) = rows_of(operator.page("/pools/"))
    assert "Unknown the state store is not answering" in row
    assert "- of 2" in row


def test_more_pools_take_no_more_queries(operator: Reader, actor: Actor) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as seen:
            operator.page("/pools/")
        return len(seen)

    process_pool(operator, actor, "one")
    operator.page("/pools/")
    first = queries()
    for number in range(5):
        process_pool(operator, actor, f"more-{number}")
    assert queries() == first


def test_another_organisation_s_pool_is_not_there(
    operator: Reader, make_reader: Callable[..., Reader], actor: Actor
) -> None:
    other = make_reader("eve", Role.ADMIN)
    pool = process_pool(other, actor, "theirs")
    assert "theirs" not in operator.page("/pools/")
    for path in ("", "edit/", "delete/", "restart/", "log/?worker=0"):
        assert operator.get(f"/pools/{pool.pk}/{path}").status_code == 404


def test_replicas_show_what_supervisor_and_gateways_say_of_each_worker(
    operator: Reader, actor: Actor, state_store: Redis
) -> None:
    pool = process_pool(operator, actor)
    first = f"{pool.pk}-0"
    put_directory(state_store, worker(first, WorkerState.READY, restarts=3))
    measured = WorkerGauges(
        worker_id=first, pool_id=pool.pk, at=CHANGED_AT, running=2, waiting=1, kv_used=0.5,
        utilisation=41.6, memory_bytes=3 << 30,
    )  # fmt: skip
    put_vitals(
        state_store,
        vitals("g/0", inflight={first: 2}),
        vitals("g/1", inflight={first: 1}),
        vitals("pools", role=ProcessRole.POOLS, is_leader=True, workers=(measured,)),
    )
    (row,) = rows_of(operator.page(f"/pools/{pool.pk}/?tab=replicas"))
    assert row.startswith("small/0 Ready 3 2 / 1 50 % 42 % CPU 3.0 GB 3 ")


def test_an_address_nobody_checked_is_listed_and_said_to_be_unchecked(
    operator: Reader, actor: Actor
) -> None:
    pool = static_pool(operator, actor)
    (row,) = rows_of(operator.page(f"/pools/{pool.pk}/?tab=replicas"))
    assert row == "far/0 Not checked yet http://127.0.0.1:9000/v1 0 - - - - - - Drain far/0"


def test_config_marks_each_field_and_shows_what_the_supervisor_runs_still(
    operator: Reader, actor: Actor, state_store: Redis
) -> None:
    pool = process_pool(operator, actor)
    words = words_of(operator.page(f"/pools/{pool.pk}/?tab=config"))
    assert "No supervisor leads, so nobody can tell what runs." in words
    assert "Replicas 2 live" in words
    assert "Model source smollm2-135m-instruct rolling" in words
    assert "Provisioner process restart" in words


def test_what_the_supervisor_has_not_applied_yet_is_shown_as_a_difference(
    operator: Reader, actor: Actor, state_store: Redis
) -> None:
    pool = process_pool(operator, actor)
    first = ConfigRevision.objects.order_by("-id")[0]
    update_pool(actor, pool_id=pool.pk, changes={"replicas": 3})
    path = f"/pools/{pool.pk}/?tab=config"
    for version, words in (
        (first.version, "Running Saved Replicas 2 3"),
        (first.version + 1, "nothing of this pool differs from what is saved."),
    ):
        applied = Applied(first.lineage, version)
        leads = vitals("pools", role=ProcessRole.POOLS, is_leader=True, applied=applied)
        put_vitals(state_store, leads)
        assert words in words_of(operator.page(path))


def test_a_log_is_asked_for_by_the_page_and_answered_204_when_it_is_the_same(
    operator: Reader, actor: Actor, state_store: Redis
) -> None:
    pool = process_pool(operator, actor)
    assert f'hx-get="/pools/{pool.pk}/log/?worker=1"' in operator.page(
        f"/pools/{pool.pk}/?tab=logs&worker=1"
    )
    part = f"/pools/{pool.pk}/log/?worker=1"
    assert 'data-log-state="no_supervisor"' in operator.page(part)
    state_store.set(wire.LEADER, "1:pools")
    first = operator.page(part)
    assert 'data-log-state="waiting"' in first
    address = first.partition('hx-get="')[2].partition('"')[0].replace("&amp;", "&")
    assert operator.get(address).status_code == 204
    key = wire.worker_log_key(f"{pool.pk}-1")
    state_store.hset(key, mapping={"at": f"{CHANGED_AT}", "size": 7, "text": "<ready>"})
    assert "&lt;ready&gt;" in operator.page(address)


def test_the_log_of_a_static_pool_or_of_no_worker_is_a_400(operator: Reader, actor: Actor) -> None:
    far, near = static_pool(operator, actor), process_pool(operator, actor)
    assert operator.get(f"/pools/{far.pk}/log/?worker=0").status_code == 400
    assert operator.get(f"/pools/{near.pk}/log/?worker=x").status_code == 400
