"""Keys, lives and marks of kept answers."""

from dataclasses import replace

import msgspec
import pytest

from inference.contract.kinds import CacheScope, Endpoint, PurgeKind, TaskClass
from inference.contract.snapshot import CachePolicyRecord, KeyRecord, PoolRecord, TargetRecord
from inference.decisions.caching import (
    Obstacle,
    Place,
    Question,
    Said,
    entry_id_of,
    identity_of,
    input_key_of,
    is_sampled,
    key_of,
    mark,
    obstacle_to,
    partition_of,
    question_of,
    read_said,
    shelf_of,
    tenant_of,
    ttl_of,
)
from inference.decisions.plan import PlannedTarget
from tests.decisions.fleets import pool

SECRET = b"s" * 32
POLICY = CachePolicyRecord("cch_a", "org_a", "answers")
IDENTITY = KeyRecord("k1", "org_a", "team_a", "proj_a", ())
PLACE = Place(Endpoint.CHAT, ("org_a", "project", "proj_a"), "rt_a", "m", ("mdl_a", "served"))


def said(text: str, **replaced: bytes) -> Said:
    """What a body says, as the gateway reads it."""
    members = msgspec.json.decode(text.encode(), type=dict[str, msgspec.Raw])
    return read_said(members, replaced)


def key(text: str, place: Place = PLACE, **replaced: bytes) -> bytes:
    return key_of(SECRET, place, said(text, **replaced))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":0,"b":1}', '{"b":1.0,"a":0.0}'),
        ('{"a":100,"b":[1]}', '{"a":1e2,"b":[1.0]}'),
        ('{"a":-0.0}', '{"a":0}'),
        ('{"a":{"x":1,"y":{"u":2,"v":3}}}', '{ "a" : {"y":{"v":3,"u":2.0},"x":1} }'),
        ('{"a":"\\u00e9\\/"}', '{"a":"é/"}'),
        ('{"a":1,"b":null}', '{"a":1}'),
        ('{"a":1}', '{"a":1,"stream":true,"stream_options":{"include_usage":true}}'),
        ('{"a":1}', '{"a":1,"user":"x","safety_identifier":"y","metadata":{"z":1},"store":true}'),
        ('{"a":1,"model":"m"}', '{"a":1,"model":"n"}'),
    ],
)
def test_bodies_that_mean_the_same_have_one_key(one: str, other: str) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('{"a":0}', "{}"),
        ('{"a":0}', '{"a":false}'),
        ('{"a":0}', '{"a":"0"}'),
        ('{"a":0.1}', '{"a":0.10000001}'),
        ('{"a":1e-7}', '{"a":0}'),
        ('{"a":9007199254740993}', '{"a":9007199254740992}'),
        ('{"a":18446744073709551617}', '{"a":18446744073709551616}'),
        ('{"a":["x","y"]}', '{"a":["y","x"]}'),
        ('{"a":[1,null]}', '{"a":[1]}'),
        ('{"a":{"b":null}}', '{"a":{}}'),
        # one letter, or two that look like it: nobody knows that the model takes them for one
        ('{"a":"\\u00e9"}', '{"a":"e\\u0301"}'),
        ('{"a":"x"}', '{"a":"x "}'),
        ('{"a":1,"seed":1}', '{"a":1,"seed":2}'),
        ('{"a":1}', '{"a":1,"x_unknown":1}'),
    ],
)
def test_bodies_that_differ_in_what_an_answer_depends_on_have_two(one: str, other: str) -> None:
    assert key(one) != key(other)


def test_what_a_worker_gets_in_place_of_a_member_counts_and_not_what_it_replaces() -> None:
    assert key('{"a":1,"max_tokens":9}', max_tokens=b"5") == key('{"a":1,"max_tokens":5}')


@pytest.mark.parametrize(
    "changes",
    [
        {"endpoint": Endpoint.COMPLETIONS},
        {"tenant": ("org_b", "project", "proj_a")},
        {"tenant": ("org_a", "key", "proj_a")},
        {"shelf": "rt_b"},
        {"requested": "alias"},
        {"identity": ("mdl_a", "other")},
        {"context_version": "1"},
        {"namespace": "1"},
    ],
)
def test_a_key_is_of_its_place(changes: dict[str, object]) -> None:
    other = replace(PLACE, **changes)  # type: ignore[arg-type]
    assert key('{"a":1}') != key('{"a":1}', other)


def test_a_key_can_not_be_made_without_the_secret() -> None:
    assert key_of(b"other", PLACE, said("{}")) != key("{}")
    assert entry_id_of(SECRET, b"k")[3:] not in b"k".hex()
    assert entry_id_of(SECRET, b"k") != entry_id_of(b"other", b"k")


def test_one_input_has_one_key_wherever_it_stands() -> None:
    alone = input_key_of(SECRET, PLACE, said('{"dimensions":2}'), "text")
    assert alone == input_key_of(SECRET, PLACE, said('{"dimensions":2.0}'), "text")
    assert alone != input_key_of(SECRET, PLACE, said('{"dimensions":3}'), "text")
    assert alone != input_key_of(SECRET, PLACE, said('{"dimensions":2}'), ["text"])
    assert alone != key('{"dimensions":2}')


@pytest.mark.parametrize(
    ("scope", "tenant"),
    [
        (CacheScope.KEY, ("org_a", "key", "k1")),
        (CacheScope.PROJECT, ("org_a", "project", "proj_a")),
        (CacheScope.TEAM, ("org_a", "team", "team_a")),
        (CacheScope.ORGANISATION, ("org_a",)),
        (CacheScope.SHARED, ("org_a",)),
    ],
)
def test_the_organisation_is_in_every_scope(scope: CacheScope, tenant: tuple[str, ...]) -> None:
    policy = replace(POLICY, scope=scope)
    assert tenant_of(policy, IDENTITY) == tenant
    assert shelf_of(policy, "rt_a") == ("cch_a" if scope is CacheScope.SHARED else "rt_a")


def planned(made: PoolRecord) -> PlannedTarget:
    return PlannedTarget(TargetRecord("tgt", made.id, 1), made, None, None)


def test_like_pools_are_one_and_what_changes_answers_sets_them_apart() -> None:
    base = identity_of(planned(pool("a", served_model_name="s")))
    same = pool("b", 2, served_model_name="s", engine_arguments={"max_num_seqs": 4})
    assert identity_of(planned(same)) == base
    others: list[dict[str, object]] = [
        {"served_model_name": "t"},
        {"model_id": "mdl_b"},
        {"model_source": "weights-2"},
        {"engine_arguments": {"quantization": "awq"}},
        {"engine_arguments": {"dtype": "float16"}},
    ]
    for changes in others:
        made = pool("a", **({"served_model_name": "s"} | changes))
        assert identity_of(planned(made)) != base


def test_an_absent_life_is_the_default_and_0_is_never() -> None:
    policy = replace(POLICY, ttl_s={TaskClass.CODE: 0, TaskClass.CREATIVE: 7})
    told = {task: ttl_of(policy, task) for task in TaskClass}
    assert told == {
        TaskClass.DEFAULT: 300,
        TaskClass.CODE: 0,
        TaskClass.FACTUAL: 86_400,
        TaskClass.EXTRACTION: 86_400,
        TaskClass.CREATIVE: 7,
    }
    assert obstacle_to(policy, Endpoint.CHAT, TaskClass.CODE, is_sampled=False) is Obstacle.TASK


def test_what_is_sampled_or_needs_no_model_is_passed_by() -> None:
    def obstacle(endpoint: Endpoint, *, sampled: bool, **changes: bool) -> Obstacle | None:
        policy = replace(POLICY, **changes)  # type: ignore[arg-type]
        return obstacle_to(policy, endpoint, TaskClass.DEFAULT, is_sampled=sampled)

    assert obstacle(Endpoint.CHAT, sampled=False) is None
    assert obstacle(Endpoint.CHAT, sampled=True) is Obstacle.SAMPLED
    assert obstacle(Endpoint.CHAT, sampled=True, stores_sampled=True) is None
    assert obstacle(Endpoint.TOKENIZE, sampled=False) is Obstacle.ENDPOINT


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{}", True),
        ('{"temperature":0}', False),
        ('{"temperature":0.0,"n":1}', False),
        ('{"temperature":false}', True),
        ('{"temperature":"0"}', True),
        ('{"temperature":0.01}', True),
        ('{"temperature":0,"n":2}', True),
        ('{"temperature":0,"best_of":3}', True),
    ],
)
def test_only_a_temperature_of_0_leaves_nothing_to_chance(body: str, expected: bool) -> None:
    assert is_sampled(Endpoint.CHAT, said(body)) is expected
    assert not is_sampled(Endpoint.EMBEDDINGS, said(body))


QUESTION = "What is the capital of France?"
LAST = f'{{"role":"user","content":"{QUESTION}"}}'


def test_a_question_is_apart_from_all_that_must_be_the_same() -> None:
    first = said(f'{{"messages":[{LAST}]}}')
    made = question_of(Endpoint.CHAT, first)
    assert made == Question(QUESTION, {"messages": [{"role": "user", "content": None}]})
    part = f'{{"type":"text","text":"{QUESTION}"}}'
    parts = said(f'{{"messages":[{{"role":"user","content":[{part}]}}]}}')
    assert question_of(Endpoint.CHAT, parts) == made
    by_input = question_of(Endpoint.RESPONSES, said(f'{{"input":"{QUESTION}"}}'))
    assert by_input is not None
    assert by_input.text == QUESTION


@pytest.mark.parametrize(
    "change",
    [
        '{"messages":[{"role":"system","content":"answer in German"},LAST]}',
        '{"messages":[{"role":"developer","content":"answer in French"},LAST]}',
        '{"messages":[LAST],"response_format":{"type":"json_object"}}',
        '{"messages":[LAST],"tools":[]}',
        '{"messages":[LAST],"max_tokens":5}',
    ],
)
def test_another_system_prompt_format_or_tool_is_another_partition(change: str) -> None:
    system = '{"role":"system","content":"answer in French"}'
    base = said(f'{{"messages":[{system},{LAST}]}}')
    one, other = (
        question_of(Endpoint.CHAT, body) for body in (base, said(change.replace("LAST", LAST)))
    )
    assert one is not None
    assert other is not None
    assert partition_of(SECRET, PLACE, one) != partition_of(SECRET, PLACE, other)
    assert partition_of(SECRET, PLACE, one) != partition_of(
        SECRET, replace(PLACE, tenant=("org_b",)), one
    )


@pytest.mark.parametrize(
    "messages",
    [
        "[]",
        '[{"role":"user","content":"and then?"}]',
        '[{"role":"assistant","content":"What is the capital of France?"}]',
        '[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]',
        "[" + ",".join(['{"role":"user","content":"What is the capital of France?"}'] * 4) + "]",
        '[{"role":"user","content":"' + "long " * 2_000 + '"}]',
    ],
    ids=["none", "short", "assistant", "image", "long-talk", "long-text"],
)
def test_what_only_the_same_request_will_do_for_is_no_question(messages: str) -> None:
    assert question_of(Endpoint.CHAT, said(f'{{"messages":{messages}}}')) is None


def test_conversations_with_other_beginnings_are_apart() -> None:
    def talk(company: str, name: str) -> Said:
        begin = f'{{"role":"user","content":"who leads {company}?"}}'
        middle = f'{{"role":"assistant","content":"{name}"}}'
        last = '{"role":"user","content":"how old is she really?"}'
        return said(f'{{"messages":[{begin},{middle},{last}]}}')

    one, other = (
        question_of(Endpoint.CHAT, talk(*who)) for who in (("ACME", "Ann"), ("Globex", "Bob"))
    )
    assert one is not None
    assert other is not None
    assert one.text == other.text
    assert partition_of(SECRET, PLACE, one) != partition_of(SECRET, PLACE, other)


@pytest.mark.parametrize(
    ("purges", "expected"),
    [
        ({}, 0),
        ({(PurgeKind.POLICY, "cch_a"): 3}, 3),
        ({(PurgeKind.POLICY, "cch_b"): 3}, 0),
        ({(PurgeKind.NAMESPACE, "docs/v1"): 4}, 4),
        ({(PurgeKind.NAMESPACE, "docs"): 4}, 0),
        ({(PurgeKind.PREFIX, "docs/"): 5}, 5),
        ({(PurgeKind.PREFIX, "docs/v1"): 5}, 5),
        ({(PurgeKind.PREFIX, "docs/v1/x"): 5}, 0),
        ({(PurgeKind.TAG, "b"): 6}, 6),
        ({(PurgeKind.TAG, "c"): 6}, 0),
        ({(PurgeKind.ENTRY, "ce_1"): 7}, 7),
        ({(PurgeKind.ENTRY, "ce_1"): 7, (PurgeKind.TAG, "a"): 9, (PurgeKind.TAG, "c"): 11}, 9),
    ],
)
def test_a_mark_is_the_newest_purge_that_bears_on_an_entry(
    purges: dict[tuple[PurgeKind, str], int], expected: int
) -> None:
    assert mark(purges, "cch_a", "docs/v1", ("a", "b"), "ce_1") == expected


def test_an_entry_without_a_namespace_is_of_no_prefix() -> None:
    purges = {(PurgeKind.PREFIX, "d"): 5, (PurgeKind.NAMESPACE, ""): 6}
    assert mark(purges, "cch_a", "", (), "ce_1") == 0
