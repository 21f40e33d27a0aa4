"""How the variant of a request is served, by whom if it fails, and what is told of it."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from inference.contract.events import End
from inference.contract.kinds import Endpoint, ExperimentUnit, Outcome
from inference.contract.snapshot import (
    ConfigSnapshot,
    ExperimentRecord,
    RouteRecord,
    TargetRecord,
    VariantRecord,
)
from tests.decisions.tried import EXPERIMENT, with_experiments
from tests.inference.gateway.client import BASE, chat, opened, post, request_bytes, streaming
from tests.inference.gateway.rig import (
    DEBUG_TOKEN,
    Gateway,
    configuration,
    pool_record,
    route_record,
    running_gateway,
)
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

CONTROL = VariantRecord("var_a", "control", 0, parameters={"top_p": "0.5"})
OTHER = VariantRecord(
    "var_b",
    "other",
    10_000,
    (TargetRecord("tgt_x", "pool_x", 1),),
    parameters={"top_p": "0.25", "stop": '["\\n\\n"]'},
)
THIRD = VariantRecord("var_c", "third", 0, (TargetRecord("tgt_c", "pool_c", 1),))
ALL_OTHER = replace(EXPERIMENT, unit=ExperimentUnit.KEY, variants=(CONTROL, OTHER, THIRD), phase=4)


def configured(
    upstream: Upstream,
    other_upstream: Upstream,
    *experiments: ExperimentRecord,
    route: RouteRecord | None = None,
    **pool: object,
) -> ConfigSnapshot:
    """The control's pool `a` and the third's `c` are the first upstream, the other's `x` is not."""
    usual: dict[str, object] = {"breaker_min_requests": 1_000}
    pools = [
        pool_record(name, one.base_url, **(usual | pool))
        for name, one in (("a", upstream), ("c", upstream), ("x", other_upstream))
    ]
    route = route or route_record("a")
    return with_experiments(configuration(*pools, routes=(route,)), *experiments)


def of_other(**changes: object) -> ExperimentRecord:
    """The experiment in which all get a variant, with these fields of it changed."""
    other = replace(OTHER, **changes)  # type: ignore[arg-type]
    return replace(ALL_OTHER, variants=(CONTROL, other, THIRD))


def sent(upstream: Upstream) -> Mapping[str, object]:
    """The body of the last call."""
    body = upstream.calls[-1].body
    assert body is not None
    found: Mapping[str, object] = json.loads(body)
    return found


def assigned_and_served(end: End) -> tuple[str, str | None]:
    (exposure,) = end.exposures
    assert (exposure.experiment_id, exposure.phase) == ("exp_a", 4)
    return exposure.variant_id, exposure.served_variant_id


def counted(gateway: Gateway, served: str) -> float | None:
    return gateway.metric("exposures_total", experiment="exp_a", variant="var_b", served=served)


async def test_a_variant_is_served_by_its_targets_with_its_parameters(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    async with running_gateway(configured(upstream, other_upstream, ALL_OTHER)) as gateway:
        reply = await chat(gateway.port, top_p=1, temperature=0.7)
        assert reply.status == 200
        assert "x-headworks-variant" not in reply.headers
        end = gateway.books.end
        (opening,) = gateway.books.openings
    body = sent(other_upstream)
    assert (body["top_p"], body["stop"], body["temperature"]) == (0.25, ["\n\n"], 0.7)
    assert not upstream.calls
    assert assigned_and_served(end) == ("var_b", "var_b")
    assert (opening.exposures[0].variant_id, opening.exposures[0].served_variant_id) == (
        *("var_b",),
        None,
    )
    assert end.decision is not None
    (told,) = end.decision["experiments"]  # type: ignore[misc]
    assert (told["variant"], told["parameters"]["top_p"]) == ("var_b", "0.25")
    assert counted(gateway, "assigned") == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_c150_a_variant_that_fails_is_served_by_its_control_and_no_other(
    upstream: Upstream, other_upstream: Upstream, stream: bool
) -> None:
    other_upstream.play(Behaviour(status=500))
    async with running_gateway(configured(upstream, other_upstream, ALL_OTHER)) as gateway:
        reply = await chat(gateway.port, token=DEBUG_TOKEN, stream=stream, top_p=1)
        assert (reply.status, reply.headers["x-headworks-fallbacks"]) == (200, "1")
        assert reply.headers["x-headworks-variant"] == "exp_a=var_b; served=var_a"
        end = gateway.books.end
    assert assigned_and_served(end) == ("var_b", "var_a")
    assert [one.target_id for one in end.charges] == ["tgt_x", "tgt_a"]
    assert sent(other_upstream)["top_p"] == 0.25
    body = sent(upstream)
    assert (body["top_p"], "stop" in body) == (0.5, False)
    assert end.decision is not None
    assert end.decision["attempts"][1]["stands_in"] is True  # type: ignore[index]
    assert counted(gateway, "control") == 1


async def test_c150_where_both_fail_nobody_served_and_the_arm_has_the_error(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    for one in (upstream, other_upstream):
        one.play(Behaviour(status=500))
    route = route_record("a", max_attempts=5)
    snapshot = configured(upstream, other_upstream, ALL_OTHER, route=route)
    async with running_gateway(snapshot) as gateway:
        assert (await chat(gateway.port)).status == 502
        end = gateway.books.end
    assert assigned_and_served(end) == ("var_b", None)
    assert end.outcome is Outcome.ERROR
    assert {one.target_id for one in end.charges} == {"tgt_x", "tgt_a"}
    assert counted(gateway, "none") == 1


async def test_a_control_that_fails_is_served_by_no_variant(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    upstream.play(Behaviour(status=500))
    all_control = (replace(CONTROL, share_bp=10_000), replace(OTHER, share_bp=0))
    snapshot = configured(upstream, other_upstream, replace(ALL_OTHER, variants=all_control))
    async with running_gateway(snapshot) as gateway:
        assert (await chat(gateway.port)).status == 502
        assert assigned_and_served(gateway.books.end) == ("var_a", None)
    assert not other_upstream.calls


async def test_a_stream_that_breaks_was_served_and_one_left_before_content_was_not(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    other_upstream.play(
        Behaviour(calls=1, cut_after=3, ending="reset"), Behaviour(before_head="hang")
    )
    async with running_gateway(configured(upstream, other_upstream, ALL_OTHER)) as gateway:
        async with streaming(gateway.port) as call:
            await call.read_rest()
        await gateway.wait_ended(1)
        assert assigned_and_served(gateway.books.ends[0]) == ("var_b", "var_b")
        assert gateway.books.ends[0].outcome is Outcome.ERROR
        async with opened(gateway.port, request_bytes(json.dumps(BASE).encode())) as call:
            await gateway.wait_for(lambda: len(gateway.books.openings) == 2)
            call.leave()
        await gateway.wait_ended(2)
        assert assigned_and_served(gateway.books.ends[1]) == ("var_b", None)
        assert gateway.books.ends[1].outcome is Outcome.CANCELLED


async def test_a_slow_variant_is_not_helped_by_its_control(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    other_upstream.play(Behaviour(delay_ms=400))
    route = route_record("a", hedge_after_ms=20)
    snapshot = configured(upstream, other_upstream, ALL_OTHER, route=route)
    async with running_gateway(snapshot) as gateway:
        assert (await chat(gateway.port)).status == 200
        assert assigned_and_served(gateway.books.end) == ("var_b", "var_b")
        assert gateway.metric("hedges_total", route="rt_m", result="refused") == 1
    assert not upstream.calls


async def test_who_is_refused_for_want_of_workers_was_assigned(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    pools = [pool_record(name) for name in "acx"]  # nobody there
    snapshot = configuration(*pools, routes=(route_record("a"),))
    async with running_gateway(with_experiments(snapshot, ALL_OTHER)) as gateway:
        assert (await chat(gateway.port)).status == 503
        assert assigned_and_served(gateway.books.end) == ("var_b", None)


async def test_debug_keys_are_told_the_variant_or_why_there_is_none(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    by_user = replace(ALL_OTHER, unit=ExperimentUnit.USER)
    async with running_gateway(configured(upstream, other_upstream, by_user)) as gateway:
        reply = await chat(gateway.port, token=DEBUG_TOKEN, user="ann")
        assert reply.headers["x-headworks-variant"] == "exp_a=var_b"
        reply = await chat(gateway.port, token=DEBUG_TOKEN)
        assert reply.headers["x-headworks-variant"] == "exp_a=none; why=no_unit"


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({}, {"max_tokens": 50}),
        ({"max_tokens": 20}, {"max_tokens": 20}),
        ({"max_tokens": 900}, {"max_tokens": 50}),
        ({"max_completion_tokens": 900}, {"max_completion_tokens": 50}),
    ],
)
async def test_a_bound_of_a_variant_only_lowers_the_callers(
    upstream: Upstream,
    other_upstream: Upstream,
    asked: dict[str, object],
    most: dict[str, object],
) -> None:
    bounded = of_other(parameters={"max_tokens": "50"})
    async with running_gateway(configured(upstream, other_upstream, bounded)) as gateway:
        assert (await chat(gateway.port, **asked)).status == 200
    body = sent(other_upstream)
    assert {name: body[name] for name in body if name.startswith("max_")} == most


async def test_a_bound_of_a_variant_is_not_above_the_routes_own(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    bounded = of_other(parameters={"max_completion_tokens": "5000"})
    route = route_record("a", default_max_output_tokens=300)
    snapshot = configured(upstream, other_upstream, bounded, route=route)
    async with running_gateway(snapshot) as gateway:
        await chat(gateway.port)
        assert gateway.books.openings[0].output_tokens_max == 300
    assert sent(other_upstream)["max_tokens"] == 300


async def test_parameters_are_said_in_the_words_that_the_pool_knows(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    given = of_other(parameters={"temperature": "0.25", "max_tokens": "50"})
    snapshot = configured(upstream, other_upstream, given, endpoints=(Endpoint.CHAT,))
    async with running_gateway(snapshot) as gateway:
        reply = await post(gateway.port, "/v1/responses", input="ping", temperature=1)
        assert reply.status == 200
        assert assigned_and_served(gateway.books.end) == ("var_b", "var_b")
    call = other_upstream.calls[-1]
    assert call.path == "/v1/chat/completions"
    body = sent(other_upstream)
    assert (body["temperature"], body["max_tokens"]) == (0.25, 50)


async def test_counting_tokens_is_no_part_of_an_experiment(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    async with running_gateway(configured(upstream, other_upstream, ALL_OTHER)) as gateway:
        await post(gateway.port, "/tokenize", prompt="ping")
        assert gateway.books.end.exposures == ()
        assert gateway.metric("unexposed_total", experiment="exp_a", reason="endpoint") == 1
    assert not other_upstream.calls
