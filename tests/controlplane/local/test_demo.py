"""The demonstration is set up once, keeps what was edited, and lets whoever lost its file in."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from controlplane.local.demo import (
    EMBEDDING_POOL,
    ENGINE_POOL,
    UPSTREAM_POOL,
    DemoProblem,
    Upstream,
    seed,
)
from controlplane.models import ApiToken, ConfigRevision, Key, Pool, Route, RouteTarget, User

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

NOTHING: frozenset[str] = frozenset()


class ListsModels(BaseHTTPRequestHandler):
    """Says that it serves `scripted`."""

    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": "scripted"}]}).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Tests have their own words."""


@pytest.fixture
def url() -> Iterator[str]:
    """The address of a server that lists one model."""
    with HTTPServer(("127.0.0.1", 0), ListsModels) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()
        thread.join()


def test_an_engine_is_reached_by_two_targets_and_a_second_start_changes_nothing() -> None:
    made = seed(has_engine=True, upstream=None, known=NOTHING)
    assert set(made) == {"ADMIN_USER", "ADMIN_PASSWORD", "API_KEY", "API_TOKEN"}
    targets = RouteTarget.objects.filter(route__name="chat").order_by("pool__name")
    assert list(targets.values_list("pool__name", "weight")) == [
        ("smollm2", 1),
        ("smollm2-direct", 1),
    ]
    engine = Pool.objects.get(name=ENGINE_POOL)
    direct = Pool.objects.get(name="smollm2-direct")
    assert direct.addresses == [f"http://127.0.0.1:{engine.port_base}/v1"]
    versions = ConfigRevision.objects.count()
    assert seed(has_engine=True, upstream=None, known=frozenset(made)) == {}
    assert ConfigRevision.objects.count() == versions


def test_an_edited_weight_stays() -> None:
    made = seed(has_engine=True, upstream=None, known=NOTHING)
    RouteTarget.objects.filter(pool__name=ENGINE_POOL).update(weight=0)
    seed(has_engine=True, upstream=None, known=frozenset(made))
    assert RouteTarget.objects.get(pool__name=ENGINE_POOL).weight == 0


def test_a_key_of_the_upstream_that_is_not_given_again_stays(url: str) -> None:
    made = seed(has_engine=False, upstream=Upstream(url, "k-secret-of-upstream"), known=NOTHING)
    before = Pool.objects.get(name=UPSTREAM_POOL).credential
    seed(has_engine=False, upstream=Upstream(url, None), known=frozenset(made))
    pool = Pool.objects.get(name=UPSTREAM_POOL)
    assert pool.credential == before is not None
    assert pool.version == 1


def test_without_engine_the_engines_pool_stops_and_the_route_goes_to_the_upstream(url: str) -> None:
    made = seed(has_engine=True, upstream=None, known=NOTHING)
    seed(has_engine=False, upstream=Upstream(url, None), known=frozenset(made))
    assert Pool.objects.get(name=ENGINE_POOL).power == "stopped"
    targets = RouteTarget.objects.filter(route__name="chat")
    weights = dict(targets.values_list("pool__name", "weight"))
    assert weights == {"smollm2": 0, "smollm2-direct": 0, "upstream": 1}


def test_an_embedding_pool_waits_to_be_started_and_stops_where_no_engine_can_run() -> None:
    made = seed(has_engine=True, upstream=None, known=NOTHING)
    pool = Pool.objects.get(name=EMBEDDING_POOL)
    assert (pool.power, pool.model.task, pool.model.price.output_nanousd_per_mtok) == (
        "stopped",
        "embed",
        0,
    )
    assert pool.port_base != Pool.objects.get(name=ENGINE_POOL).port_base
    assert [one.route.name for one in pool.targets.all()] == ["embed"]
    Pool.objects.filter(pk=pool.pk).update(power="running")
    seed(has_engine=True, upstream=None, known=frozenset(made))
    assert Pool.objects.get(pk=pool.pk).power == "running"
    seed(has_engine=False, upstream=None, known=frozenset(made))
    assert Pool.objects.get(pk=pool.pk).power == "stopped"


def test_without_anything_to_serve_there_is_a_key_but_no_route() -> None:
    assert "API_KEY" in seed(has_engine=False, upstream=None, known=NOTHING)
    assert not Route.objects.exists()


def test_lost_secrets_are_made_anew_and_the_old_ones_end() -> None:
    first = seed(has_engine=False, upstream=None, known=NOTHING)
    again = seed(has_engine=False, upstream=None, known=NOTHING)
    assert {name for name in first if first[name] == again[name]} == {"ADMIN_USER"}
    assert User.objects.get().check_password(again["ADMIN_PASSWORD"])
    assert ApiToken.objects.filter(revoked_at=None).count() == 1
    assert Key.objects.filter(revoked_at=None).count() == 1


def test_an_upstream_that_lists_nothing_is_named_with_the_setting() -> None:
    nobody = Upstream("http://127.0.0.1:9/v1", None)
    with pytest.raises(DemoProblem, match=r"HEADWORKS_DEMO_UPSTREAM_URL: http://127\.0\.0\.1:9/v1"):
        seed(has_engine=False, upstream=nobody, known=NOTHING)
