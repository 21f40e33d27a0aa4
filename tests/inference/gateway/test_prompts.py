"""Prompts that requests ask for by name or get by their variant, as workers are sent them."""

import json
from dataclasses import replace
from typing import Any

import pytest

from inference.contract.codec import assemble, index_section
from inference.contract.kinds import ExperimentUnit, Outcome, PromptRole
from inference.contract.snapshot import (
    ConfigSnapshot,
    ExperimentRecord,
    Manifest,
    PromptMessage,
    PromptRecord,
    TargetRecord,
    VariantRecord,
)
from inference.contract.wire import SECTIONS
from tests.decisions.tried import EXPERIMENT, with_experiments
from tests.inference.gateway.client import chat, post
from tests.inference.gateway.rig import configuration, pool_record, route_record, running_gateway
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

OWN = {"role": "user", "content": "ping"}


def version(number: int, content: str, **changes: object) -> PromptRecord:
    messages = (PromptMessage(PromptRole.SYSTEM, content),)
    record = PromptRecord(f"prv_{number}", "org_a", "prt_a", "support", number, messages)
    return replace(record, **changes)  # type: ignore[arg-type]


FIRST = version(1, "Help {{name}}.")
SECOND = version(2, "Help {{name}} well.", is_current=True)
PLAIN = version(3, "Be brief. " * 50, prompt_id="prt_b", name="brief")
STRANGER = version(4, "x", organisation_id="org_b", prompt_id="prt_c", name="theirs")
TO_X = (TargetRecord("tgt_x", "pool_x", 1),)


def configured(
    upstream: Upstream, other_upstream: Upstream, *experiments: ExperimentRecord
) -> ConfigSnapshot:
    pools = [
        pool_record("a", upstream.base_url, breaker_min_requests=1_000),
        pool_record("x", other_upstream.base_url, breaker_min_requests=1_000),
    ]
    snapshot = with_experiments(configuration(*pools, routes=(route_record("a"),)), *experiments)
    sections = {name: index_section(name, ()) for name in SECTIONS}
    sections["prompts"] = index_section("prompts", (FIRST, SECOND, PLAIN, STRANGER))
    found = assemble(Manifest("L", 1, {}, 0.0), sections)
    return replace(snapshot, prompts=found.prompts, filed=found.filed)


def trying(control: str | None, other: str | None, **changes: object) -> ExperimentRecord:
    """An experiment in which all get the variant with this version."""
    variants = (
        VariantRecord("var_a", "control", 0, prompt_version_id=control),
        replace(
            VariantRecord("var_b", "other", 10_000, prompt_version_id=other),
            **changes,  # type: ignore[arg-type]
        ),
    )
    return replace(EXPERIMENT, unit=ExperimentUnit.KEY, variants=variants)


def sent(upstream: Upstream) -> dict[str, Any]:
    body = upstream.calls[-1].body
    assert body is not None
    found: dict[str, Any] = json.loads(body)
    return found


def system(content: str) -> dict[str, str]:
    return {"role": "system", "content": content}


@pytest.mark.parametrize(
    ("asked", "content"),
    [
        ({"name": "support"}, "Help Ann. well."),
        ({"id": "prt_a", "version": 1}, "Help Ann.."),
    ],
)
async def test_a_prompt_is_put_before_the_callers_messages(
    upstream: Upstream, other_upstream: Upstream, asked: dict[str, object], content: str
) -> None:
    async with running_gateway(configured(upstream, other_upstream)) as gateway:
        prompt = {**asked, "variables": {"name": "Ann."}}
        for stream in (False, True):
            assert (await chat(gateway.port, prompt=prompt, stream=stream)).status == 200
            body = sent(upstream)
            assert body["messages"] == [system(content), OWN]
            assert "prompt" not in body
        end = gateway.books.ends[-1]
    assert end.decision is not None
    facts: Any = end.decision["facts"]
    assert facts["prompt_version_id"] == ("prv_1" if "version" in asked else "prv_2")


async def test_variables_are_text_and_numbers_and_messages_may_be_none(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    async with running_gateway(configured(upstream, other_upstream)) as gateway:
        prompt = {"name": "support", "version": 1, "variables": {"name": 7.5, "more": True}}
        await chat(gateway.port, prompt=prompt, messages=[])
        assert sent(upstream)["messages"] == [system("Help 7.5.")]
        prompt["variables"] = {"name": '"{{name}}"\n'}
        await chat(gateway.port, prompt=prompt)
        assert sent(upstream)["messages"][0] == system('Help "{{name}}"\n.')


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        ({"name": "support"}, "prompt.variables"),
        ({"name": "support", "version": 9}, "prompt"),
        ({"name": "theirs"}, "prompt"),
        ({"name": "support", "id": "prt_a"}, "prompt"),
        ({"variables": {}}, "prompt"),
        ({"name": "support", "variables": {"name": None}}, "prompt"),
        ({"name": "support", "colour": "red"}, "prompt"),
    ],
)
async def test_what_cannot_be_filled_in_is_refused(
    upstream: Upstream, other_upstream: Upstream, prompt: dict[str, object], param: str
) -> None:
    async with running_gateway(configured(upstream, other_upstream)) as gateway:
        reply = await chat(gateway.port, prompt=prompt)
        assert (reply.status, reply.error["param"]) == (400, param)
        assert gateway.books.end.outcome is Outcome.REFUSED
    if param == "prompt.variables":
        assert "needs the variables: name." in reply.error["message"]
    assert not upstream.calls


async def test_a_text_is_no_prompt_of_ours(upstream: Upstream, other_upstream: Upstream) -> None:
    async with running_gateway(configured(upstream, other_upstream)) as gateway:
        assert (await chat(gateway.port, prompt="ping")).status == 200
        assert (await post(gateway.port, "/v1/completions", prompt="ping")).status == 200
    first, second = (json.loads(call.body or "") for call in upstream.calls)
    assert (first["prompt"], first["messages"], second["prompt"]) == ("ping", [OWN], "ping")


async def test_a_variant_has_a_prompt_that_no_caller_asks_for(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    snapshot = configured(upstream, other_upstream, trying(None, "prv_3"))
    async with running_gateway(snapshot) as gateway:
        await chat(gateway.port)
        assert sent(upstream)["messages"] == [system("Be brief. " * 50), OWN]
        (opening,) = gateway.books.openings
        assert opening.prompt_tokens_max > 500
        decision = gateway.books.end.decision
        assert decision is not None
        assert decision["experiments"][0]["prompt"] == "prv_3"  # type: ignore[index]
        assert gateway.books.end.exposures[0].variant_id == "var_b"
        await post(gateway.port, "/v1/completions", prompt="ping")
        assert gateway.books.ends[-1].exposures == ()


async def test_a_variant_has_another_version_and_its_control_its_own(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    tried = trying("prv_1", "prv_2", targets=TO_X)
    prompt = {"name": "support", "variables": {"name": "Ann"}}
    async with running_gateway(configured(upstream, other_upstream, tried)) as gateway:
        await chat(gateway.port, prompt=prompt)
        assert sent(other_upstream)["messages"] == [system("Help Ann well."), OWN]
        other_upstream.play(Behaviour(status=500))
        assert (await chat(gateway.port, prompt=prompt)).status == 200
        assert sent(upstream)["messages"] == [system("Help Ann."), OWN]


async def test_who_lacks_a_variants_variables_is_refused_and_was_assigned(
    upstream: Upstream, other_upstream: Upstream
) -> None:
    snapshot = configured(upstream, other_upstream, trying("prv_1", "prv_2"))
    async with running_gateway(snapshot) as gateway:
        reply = await chat(gateway.port)
        assert (reply.status, reply.error["param"]) == (400, "prompt.variables")
        (exposure,) = gateway.books.end.exposures
        assert (exposure.variant_id, exposure.served_variant_id) == ("var_b", None)
    assert not upstream.calls
