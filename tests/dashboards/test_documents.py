"""What a live page is sent: exact words, tiles and buckets."""

import json
from datetime import timedelta

import pytest

from controlplane.decisions.pool_conditions import ConditionKind
from dashboards.base import Scene
from dashboards.documents import STATES, document_of, encode, message_of, slots_of
from dashboards.kinds import Page, PanelKind
from dashboards.registry import REGISTRY
from dashboards.scopes import LiveScope
from tests.dashboards.factory import (
    NOW,
    SINCE_S,
    ladder,
    percentiles,
    pool_line,
    queue,
    scene,
    summary,
    traffic,
    view,
    worker,
)

DASH = "\N{EN DASH}"


def sentence(kind: PanelKind, page: Page = Page.OVERVIEW, **fields: object) -> str:
    shown = scene(page, at=view(**fields))
    return REGISTRY[kind].draw(shown).sentence


def tile(name: str, page: Page = Page.OVERVIEW, **fields: object) -> tuple[str, str, str]:
    shown = document_of(scene(page, at=view(summary=summary(**fields))), is_historical=False)
    one = shown["tiles"][name]
    return one["text"], one["unit"], one["note"]


def test_every_state_of_a_pool_has_its_words() -> None:
    assert set(STATES) == {kind.value for kind in ConditionKind}


def test_a_message_is_the_documents_newest_buckets() -> None:
    lines = percentiles((1.0, 2.0, 3.0, 4.0), (None,) * 4, (None,) * 4)
    shown = scene(at=view(total=traffic(first_token_ms=lines)))
    document = json.loads(encode(document_of(shown, is_historical=False)))
    message = json.loads(encode(message_of(shown, epoch="e1", seq=7)))
    assert (message["epoch"], message["seq"]) == ("e1", 7)
    assert message["at"] == document["at"] == [SINCE_S + 5 * n for n in range(4)]
    assert message["as_of"] == SINCE_S + 19
    assert message["panels"].keys() == document["panels"].keys()
    for name, panel in message["panels"].items():
        figure = document["panels"][name]["figure"]
        assert panel["values"] == {one["meta"]["key"]: one["y"] for one in figure["data"]}
        assert panel["sentence"] == document["panels"][name]["sentence"]
    assert message["panels"]["first_token"]["values"]["p50"] == [1.0, 2.0, 3.0, 4.0]
    assert message["tiles"] == document["tiles"]
    assert (document["zone"], document["bucket_s"]) == ("Europe/Copenhagen", 5)
    assert document["is_historical"] is False


def test_the_tiles_are_the_figures_with_their_units() -> None:
    assert tile("requests") == ("38.4", "req/s", "last minute")
    assert tile("errors") == ("0.42", "%", "last minute")
    assert tile("first_token") == ("842", "ms", "last 5 minutes, n 1,240")
    assert tile("output_token") == ("31", "ms", "last 5 minutes, n 60")
    assert tile("tokens_in") == ("34.6 k", "tok/s", "last minute")
    assert tile("tokens_out") == ("8,070", "tok/s", "last minute")
    assert tile("running") == ("148", "", "now")
    assert tile("waiting") == ("18", "", "now")
    assert tile("kv_cache") == ("68", "%", "mean of workers")
    assert tile("utilisation") == ("71.2", "CPU %", "no GPU here")
    assert tile("utilisation", is_gpu=True) == ("71.2", "GPU %", "of all workers")
    assert tile("cost") == ("$48.90", "/h", "last minute's rate")
    assert tile("month") == ("$26,914.12", "", "since 1 Nov")
    assert tile("cache_hits") == ("62.5", "%", "last minute")
    assert tile("saved") == ("$12.00", "", "today, by caches")
    assert "month" not in document_of(scene(Page.POOL), is_historical=False)["tiles"]


def test_queues_and_ladders_are_told_in_words() -> None:
    assert sentence(PanelKind.WAITING, queues=(queue(),)) == "Nobody waits for a worker."
    busy = queue("pool_b", waiting_now=3, oldest_wait_ms_now=4_200.0)
    one = queue(waiting_now=1, oldest_wait_ms_now=80.0)
    told = "4 requests wait, 3 of them for b; the longest wait is 4,200 ms."
    assert sentence(PanelKind.WAITING, queues=(one, busy)) == told
    assert sentence(PanelKind.WAITING, queues=(busy, queue())) == (
        "3 requests wait for b; the longest wait is 4,200 ms."
    )
    assert sentence(PanelKind.WAITING, Page.POOL, queues=(one,)) == (
        "1 request waits; the longest wait is 80 ms."
    )
    assert sentence(PanelKind.OLDEST_WAIT, Page.POOL, queues=(busy,)) == (
        "Whoever waits the longest has waited 4,200 ms."
    )
    unknown = queue(waiting_now=None, oldest_wait_ms_now=None)
    for kind in (PanelKind.WAITING, PanelKind.OLDEST_WAIT):
        assert sentence(kind, Page.POOL, queues=(unknown,)) == (
            "No gateway reported in the last minute."
        )
    shed = summary(shed={"batch": 10, "default": 2})
    assert sentence(PanelKind.SHED, summary=shed) == (
        "12 requests were sent away in the last minute: default 2, batch 10."
    )
    assert sentence(PanelKind.SHED) == "No request was sent away in the last minute."
    steps = "chat: 2 of 3 steps (trim batch, smaller model) since 15:00"
    assert sentence(PanelKind.DEGRADATION, ladders=(ladder(),)) == f"{steps}."
    both = (ladder(), ladder("code", now=1))
    assert sentence(PanelKind.DEGRADATION, ladders=both) == f"{steps}; 1 more route as well."
    ground = ladder(now=0, since=None)
    assert sentence(PanelKind.DEGRADATION, ladders=(ground,)) == "All routes serve as ever."
    assert sentence(PanelKind.DEGRADATION) == "No route has steps of degradation."


def test_a_routes_page_speaks_of_its_own_steps_and_of_its_pools_queues() -> None:
    def on_route(kind: PanelKind, **fields: object) -> tuple[str, str]:
        chart = REGISTRY[kind].draw(scene(Page.ROUTE, at=view(**fields)))
        return chart.sentence, chart.now

    assert on_route(PanelKind.DEGRADATION) == ("This route has no steps of degradation.", "")
    ground = ladder(now=0, since=None)
    assert on_route(PanelKind.DEGRADATION, ladders=(ground,)) == ("It serves as ever.", "0 of 3")
    assert on_route(PanelKind.DEGRADATION, ladders=(ladder(),)) == (
        "2 of 3 steps (trim batch, smaller model) since 15:00 in force.",
        "2 of 3",
    )
    busy = queue(waiting_now=3, oldest_wait_ms_now=4_200.0)
    told = "3 requests wait for a; the longest wait is 4,200 ms, of all routes."
    assert on_route(PanelKind.WAITING, queues=(busy,)) == (told, "3")
    document = document_of(scene(Page.ROUTE), is_historical=False)
    assert {"running", "kv_cache", "month"} & set(document["tiles"]) == set()
    assert document["pools"] == []


def test_a_pools_tile_tells_who_waits_in_the_gateways() -> None:
    def queued(**fields: object) -> tuple[str, str]:
        shown = scene(Page.POOL, at=view(queues=(queue(**fields),)))
        one = document_of(shown, is_historical=False)["tiles"]["queued"]
        return one["text"], one["note"]

    assert queued() == ("0", "in the gateways")
    busy = {"waiting_now": 3, "oldest_wait_ms_now": 4_200.0}
    assert queued(**busy) == ("3", "longest 4,200 ms")
    assert queued(waiting_now=None) == ("", "no data")


def test_a_tile_of_too_few_samples_says_how_many_there_are() -> None:
    few = percentiles(210.0, None, None)
    assert tile("first_token", first_token_ms=few, samples=3) == (
        "",
        "",
        "Not enough data (3/20)",
    )


def test_unknown_is_no_data_and_nothing_is_zero() -> None:
    assert tile("requests", requests_per_s=None) == ("", "", "no data")
    assert tile("requests", requests_per_s=0.0) == ("0", "req/s", "last minute")
    assert tile("errors", failure_share=None, requests_per_s=0.0) == (
        "",
        "",
        "no requests",
    )
    assert tile("kv_cache", kv_used=None) == ("", "", "no data")
    assert tile("cost", cost_nanousd_per_hour=None, requests_per_s=None) == ("", "", "no data")
    assert tile("cost", cost_nanousd_per_hour=0, requests_per_s=0.0) == (
        "$0.00",
        "/h",
        "no requests",
    )
    assert tile("cost", cost_nanousd_per_hour=123_456, has_unknown_cost=True) == (
        "$0.00012",
        "/h",
        "some have no price",
    )


def test_each_chart_says_in_a_sentence_what_it_shows() -> None:
    by_pool = {"pool_a": summary(requests_per_s=16.5), "pool_b": summary(requests_per_s=12.0)}
    shown = scene(at=view(pool_summaries=by_pool), pools=(pool_line("a"), pool_line("b")))
    assert REGISTRY[PanelKind.REQUESTS].draw(shown).sentence == (
        "38.4 requests a second over the last minute; a serves 43 %."
    )
    assert sentence(PanelKind.FIRST_TOKEN) == (
        "p50 212 ms, p95 842 ms, p99 1,118 ms over the last 5 minutes, 1,240 samples."
    )
    assert sentence(PanelKind.OUTPUT_TOKEN) == (
        "p50 19 ms, p95 31 ms over the last 5 minutes, 60 samples."
        " Not enough data for p99 (60/100)."
    )
    assert sentence(PanelKind.TOKENS) == (
        "34.6 k tokens in and 8,070 out a second over the last minute."
    )
    assert sentence(PanelKind.QUEUE) == "148 running and 18 waiting in the engines."
    assert sentence(PanelKind.KV_CACHE) == "68 % used now, the mean of all workers."
    assert sentence(PanelKind.UTILISATION) == (
        "CPU 71.2 % now, the mean of all workers, of all of the host's CPUs."
    )
    assert sentence(PanelKind.ERRORS) == "0.42 % of requests failed in the last minute."
    assert sentence(PanelKind.COST) == "$48.90 an hour at the last minute's rate."
    assert sentence(PanelKind.MEMORY, Page.POOL, workers=(worker(0), worker(1))) == (
        "4 GB over 2 workers, of each's process group."
    )
    codes = {"upstream_timeout": 1, "upstream_failed": 2}
    assert sentence(PanelKind.ERROR_CLASSES, Page.POOL, summary=summary(failures=codes)) == (
        "0.42 % of requests failed in the last minute: upstream failed, upstream timeout."
    )


def test_without_data_the_sentences_say_so() -> None:
    none = summary(
        requests_per_s=None, failure_share=None, samples=0, first_token_ms={}, kv_used=None,
        running=None, waiting=None, utilisation=None, cost_nanousd_per_hour=None,
    )  # fmt: skip
    said = {
        kind: sentence(kind, summary=none) for kind in REGISTRY if Page.OVERVIEW in _pages(kind)
    }
    assert said[PanelKind.REQUESTS] == "No gateway reported in the last minute."
    assert said[PanelKind.FIRST_TOKEN] == "No samples in the last 5 minutes."
    assert said[PanelKind.KV_CACHE] == "No worker tells now how full its KV cache is."
    assert said[PanelKind.UTILISATION] == "No worker is measured now."
    idle = summary(requests_per_s=0.0, failure_share=None)
    assert sentence(PanelKind.REQUESTS, summary=idle) == "No requests in the last minute."
    assert sentence(PanelKind.ERRORS, summary=idle) == "No requests in the last minute."


def test_failures_before_the_last_minute_are_drawn_and_not_denied() -> None:
    failed = traffic(failures={"upstream_timeout": (4, 0, 0, 0)})
    for last, said in (
        (summary(failure_share=0.0), "No requests failed in the last minute."),
        (summary(failure_share=None, requests_per_s=0.0), "No requests in the last minute."),
    ):
        drawn = REGISTRY[PanelKind.ERROR_CLASSES].draw(
            scene(Page.POOL, at=view(summary=last, total=failed))
        )
        assert (drawn.sentence, list(drawn.series[0].values)) == (said, [80.0, 0.0, None, 0.0])


def test_memory_is_told_of_the_workers_that_are_still_measured() -> None:
    gone = worker(1, memory_bytes=(5e9, None, None, None))
    assert sentence(PanelKind.MEMORY, Page.POOL, workers=(worker(0), gone)) == (
        "2 GB over 1 worker, of each's process group."
    )
    assert sentence(PanelKind.MEMORY, Page.POOL, workers=(gone,)) == "No worker is measured now."


UNPRICED = [
    {"cost_nanousd_per_hour": None, "has_unknown_cost": True},
    # a refused request is not charged, and makes nothing of the rest known
    {"cost_nanousd_per_hour": 0, "has_unknown_cost": True},
]


@pytest.mark.parametrize("fields", UNPRICED)
def test_requests_without_a_price_are_not_free(fields: dict[str, object]) -> None:
    without = summary(**fields)
    assert tile("cost", **fields) == ("", "", "no price")
    drawn = REGISTRY[PanelKind.COST].draw(
        scene(
            Page.POOL,
            at=view(
                summary=without,
                total=traffic(requests=(5, 0, 0, 9), cost_nanousd_per_hour=(None, 0, 0, None)),
            ),
            pools=(pool_line(model="scripted"),),
        )
    )
    assert (drawn.sentence, drawn.now) == ("No price: the model scripted has none.", "no price")
    assert list(drawn.series[0].values) == [None] * 4
    shown = scene(
        at=view(summary=without, pool_summaries={"pool_a": without, "pool_b": summary()}),
        pools=(pool_line("a", model="scripted"), pool_line("b")),
    )
    assert REGISTRY[PanelKind.COST].draw(shown).sentence == (
        "No price: the model scripted has none."
    )
    assert [row["cost"] for row in document_of(shown, is_historical=False)["pools"]] == [
        "no price",
        "$48.90",
    ]


NOTHING_BOOKED = [
    {"requests_per_s": 0.0, "failure_share": None, "cost_nanousd_per_hour": 0},
    # all of them refused
    {"cost_nanousd_per_hour": 0},
]


@pytest.mark.parametrize("fields", NOTHING_BOOKED)
@pytest.mark.parametrize(("is_priced", "text"), [(True, "$0.00"), (False, "")])
def test_no_traffic_costs_nothing_only_where_there_is_a_price(
    fields: dict[str, object], is_priced: bool, text: str
) -> None:
    idle = summary(**fields)
    line = pool_line(model="scripted", is_priced=is_priced)
    for page in (Page.POOL, Page.OVERVIEW):
        shown = scene(page, at=view(summary=idle, pool_summaries={"pool_a": idle}), pools=(line,))
        document = document_of(shown, is_historical=False)
        assert document["tiles"]["cost"]["text"] == text
        assert [row["cost"] for row in document["pools"]] in ([], [text or "no price"])
        told = REGISTRY[PanelKind.COST].draw(shown)
        if not is_priced:
            assert (told.sentence, told.now) == (
                "No price: the model scripted has none.",
                "no price",
            )
            assert document["tiles"]["cost"]["note"] == "no price"


def test_a_sum_that_leaves_some_out_says_so() -> None:
    mixed = summary(has_unknown_cost=True)
    assert sentence(PanelKind.COST, summary=mixed) == (
        "$48.90 an hour at the last minute's rate; some have no price."
    )
    costs = (None, 2_000_000_000, 0, None)
    drawn = REGISTRY[PanelKind.COST].draw(
        scene(at=view(summary=mixed, total=traffic(cost_nanousd_per_hour=costs)))
    )
    assert list(drawn.series[0].values) == [None, 2.0, 0.0, None]


def test_a_month_of_which_nothing_has_a_price_costs_no_figure() -> None:
    shown = document_of(scene(at=view(month_to_date_nanousd=None)), is_historical=False)
    assert (shown["tiles"]["month"]["text"], shown["tiles"]["month"]["note"]) == ("", "no price")


def _pages(kind: PanelKind) -> set[Page]:
    return set(REGISTRY[kind].titles)


def test_a_row_of_the_pools_table_tells_dashes_from_zero() -> None:
    figures = {"pool_a": summary(waiting=0, kv_used=0.86, cost_nanousd_per_hour=16_800_000_000)}
    shown = scene(
        at=view(pool_summaries=figures),
        pools=(pool_line("a", ready=3, wanted=4), pool_line("b", "unknown", ready=None)),
    )
    first, second = document_of(shown, is_historical=False)["pools"]
    assert first == {
        "id": "pool_a", "name": "a", "model": "gpt-x", "state": "Ready", "icon": "ok",
        "tone": "ok", "reason": "", "ready": "3 / 4", "kv_used": 0.86, "kv": "86 %",
        "queue": "148 / 0", "first_token": "842 ms", "cost": "$16.80",
    }  # fmt: skip
    assert (second["ready"], second["kv"], second["queue"]) == (
        f"{DASH} / 1",
        "no data",
        f"{DASH} / {DASH}",
    )
    assert (second["first_token"], second["cost"]) == (DASH, DASH)


@pytest.mark.parametrize(("after_s", "is_partial"), [(-2, True), (0, False), (3, False)])
def test_a_bucket_that_still_fills_is_called_partial(after_s: int, is_partial: bool) -> None:
    shown = scene(now=NOW + timedelta(seconds=after_s))
    assert document_of(shown, is_historical=False)["partial"] is is_partial


def test_a_pool_keeps_its_colour_whatever_its_traffic() -> None:
    assert slots_of(["pool_c", "pool_a", "pool_b"], 2) == {"pool_a": 1, "pool_b": 2, "pool_c": 1}


def test_a_scopes_name_has_its_organisation_and_is_read_back() -> None:
    scope = LiveScope("org_1", Page.POOL, "pool_1", "1h")
    assert scope.name == "live.org_1.pool.pool_1.1h"
    assert LiveScope.named(scope.name) == scope
    assert (scope.pool_id, scope.route_id) == ("pool_1", None)
    route = LiveScope("org_1", Page.ROUTE, "rt_1", "1h")
    assert LiveScope.named("live.org_1.route.rt_1.1h") == route
    assert (route.pool_id, route.route_id) == (None, "rt_1")
    everything = LiveScope("org_1", Page.OVERVIEW, "", "15m")
    assert LiveScope.named("live.org_1.overview.all.15m") == everything
    assert LiveScope.named("live.org_1.overview.all.3m") is None
    assert LiveScope.named("nonsense") is None


def test_the_page_of_one_pool_has_no_table_of_pools() -> None:
    shown: Scene = scene(Page.POOL)
    assert document_of(shown, is_historical=False)["pools"] == []
