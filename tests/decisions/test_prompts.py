"""Prompts filled in, and what makes them unfit."""

from dataclasses import replace

import pytest

from inference.contract.kinds import PromptRole
from inference.contract.snapshot import PromptMessage, PromptRecord
from inference.decisions.prompts import (
    MissingVariables,
    find_prompt,
    has_stray_braces,
    render,
    variables_of,
)
from tests.decisions.test_experiment_problems import EXPERIMENT
from tests.decisions.test_validation import found, snapshot_of

PROMPT = PromptRecord(
    "prv_1",
    "org_a",
    "prt_a",
    "support",
    1,
    (
        PromptMessage(PromptRole.SYSTEM, "You help {{ name }} with {{thing}}, {{name}}."),
        PromptMessage(PromptRole.USER, "Hello."),
    ),
)
CURRENT = replace(PROMPT, id="prv_2", version=2, is_current=True)


def test_variables_go_where_their_names_stand() -> None:
    assert variables_of(PROMPT) == {"name", "thing"}
    assert render(PROMPT, {"name": "Ann", "thing": "locks", "more": "x"}) == [
        {"role": "system", "content": "You help Ann with locks, Ann."},
        {"role": "user", "content": "Hello."},
    ]


@pytest.mark.parametrize("value", ["{{thing}}", "\\1 \\g<1>", '"\n', ""])
def test_what_a_variable_holds_is_text_and_no_template(value: str) -> None:
    content = render(PROMPT, {"name": value, "thing": "t"})[0]["content"]
    assert content == f"You help {value} with t, {value}."


def test_what_is_missing_is_named() -> None:
    with pytest.raises(MissingVariables) as caught:
        render(PROMPT, {"other": "x"})
    assert caught.value.names == ("name", "thing")


@pytest.mark.parametrize(
    ("text", "is_stray"),
    [
        ("{{a}} { b } {c}", False),
        ("{{a b}}", True),
        ("{{#if}}", True),
        ("a }}", True),
        ("{{1st}}", True),
    ],
)
def test_braces_that_are_no_place_are_a_slip(text: str, is_stray: bool) -> None:
    assert has_stray_braces(text) is is_stray


def test_a_prompt_is_found_by_id_or_name_and_version_or_the_current_one() -> None:
    snapshot = snapshot_of(prompts=(PROMPT, CURRENT))
    for named in ("support", "prt_a"):
        assert find_prompt(snapshot, "org_a", named, None) is CURRENT
        assert find_prompt(snapshot, "org_a", named, 1) is PROMPT
        assert find_prompt(snapshot, "org_a", named, 3) is None
        assert find_prompt(snapshot, "org_b", named, 1) is None


def of_prompts(*prompts: PromptRecord) -> list[tuple[str, str, str]]:
    return [row[1:] for row in found(prompts=prompts)]


def with_content(content: str) -> tuple[PromptMessage, ...]:
    return (PromptMessage(PromptRole.SYSTEM, content),)


def test_prompts_as_they_are_made_are_sound() -> None:
    assert (
        of_prompts(PROMPT, CURRENT, replace(CURRENT, id="prv_3", prompt_id="prt_b", name="b")) == []
    )


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"organisation_id": "org_x"}, ("organisation_id", "unknown")),
        ({"name": "two words"}, ("name", "invalid")),
        ({"version": 0}, ("version", "out_of_range")),
        ({"messages": ()}, ("messages", "required")),
        ({"messages": with_content("x") * 21}, ("messages", "out_of_range")),
        ({"messages": with_content("x" * 100_001)}, ("messages", "out_of_range")),
        (
            {"messages": with_content("".join(f"{{{{v{n}}}}}" for n in range(51)))},
            ("messages", "out_of_range"),
        ),
        ({"messages": with_content(" ")}, ("messages.0.content", "required")),
        ({"messages": with_content("{{#each}}")}, ("messages.0.content", "invalid")),
    ],
)
def test_what_a_prompt_may_not_be(changes: dict[str, object], problem: tuple[str, str]) -> None:
    one = replace(PROMPT, **changes)  # type: ignore[arg-type]
    assert [row[1:] for row in of_prompts(one)] == [problem]


def test_versions_and_names_are_there_once_and_one_is_current() -> None:
    again = replace(CURRENT, id="prv_3")
    assert of_prompts(CURRENT, again) == [
        ("prv_2", "version", "duplicate"),
        ("prv_2", "is_current", "duplicate"),
        ("prv_3", "version", "duplicate"),
        ("prv_3", "is_current", "duplicate"),
    ]
    other = replace(PROMPT, id="prv_4", prompt_id="prt_b")
    assert of_prompts(PROMPT, other) == [
        ("prv_1", "name", "duplicate"),
        ("prv_4", "name", "duplicate"),
    ]


def of_variants(*version_ids: str | None) -> list[tuple[str, str]]:
    """Problems of an experiment whose variants have these prompts."""
    plain = replace(PROMPT, id="prv_p", prompt_id="prt_p", name="p", messages=with_content("x"))
    foreign = replace(PROMPT, id="prv_f", organisation_id="org_b", prompt_id="prt_f")
    variants = tuple(
        replace(one, prompt_version_id=version_id, cache_policy_id=None)
        for one, version_id in zip(EXPERIMENT.variants, version_ids, strict=True)
    )
    rows = found(
        experiments=(replace(EXPERIMENT, variants=variants),),
        prompts=(PROMPT, CURRENT, plain, foreign),
    )
    return [row[2:] for row in rows]


def test_variants_have_prompts_of_their_organisation_that_need_the_same() -> None:
    assert of_variants("prv_1", "prv_2") == []
    assert of_variants(None, "prv_p") == []
    assert of_variants(None, "prv_1") == [("variants", "invalid")]
    assert of_variants("prv_1", "prv_f") == [("variants.1.prompt_version_id", "foreign")]
