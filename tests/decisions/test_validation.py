"""What makes a configuration unfit to serve: every problem with its place, code and sentence."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from inference.contract.codec import assemble, index_section
from inference.contract.kinds import Backend, Provisioner
from inference.contract.sealing import key_bucket
from inference.contract.snapshot import (
    ConfigSnapshot,
    KeyDigest,
    KeyRecord,
    Manifest,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    PriceRecord,
    RouteRecord,
    TargetRecord,
)
from inference.contract.wire import SECTIONS, key_section
from inference.decisions.validation import (
    Host,
    Problem,
    problems_in,
    problems_in_section,
    sections_to_check,
)

ORGANISATION = OrganisationRecord("org_a", "Water")
STRANGER = OrganisationRecord("org_b", "Other")
MODEL = ModelRecord("mdl_a", "org_a", "llama-3-8b", max_context_tokens=8192)
FOREIGN_MODEL = ModelRecord("mdl_b", "org_b", "llama-3-8b")
PRICE = PriceRecord("prc_a", "org_a", "mdl_a", 1_000_000, 2_000_000, 0)
STATIC = PoolRecord(
    "pool_s",
    "org_a",
    "provider",
    "mdl_a",
    Provisioner.STATIC,
    Backend.OPENAI,
    "gpt",
    addresses=("http://127.0.0.1:9000/v1",),
)
PROCESS = PoolRecord(
    "pool_p",
    "org_a",
    "own",
    "mdl_a",
    Provisioner.PROCESS,
    Backend.VLLM,
    "llama",
    replicas=2,
    model_source="smollm2-135m-instruct",
    port_base=9100,
)
FOREIGN_POOL = replace(STATIC, id="pool_b", organisation_id="org_b", model_id="mdl_b")
ROUTE = RouteRecord("rt_a", "org_a", "chat", (TargetRecord("tgt_1", "pool_s", 1),))
KEY = KeyRecord("k1", "org_a", "team_a", "proj_a", (), route_names=("not-there-yet",))

BASE: dict[str, tuple[Any, ...]] = {
    "organisations": (ORGANISATION, STRANGER),
    "models": (MODEL, FOREIGN_MODEL),
    "prices": (PRICE,),
    "pools": (STATIC, PROCESS, FOREIGN_POOL),
    "routes": (ROUTE,),
    key_section(key_bucket("k1")): (KEY,),
}


def snapshot_of(**changes: Iterable[Any]) -> ConfigSnapshot:
    """The sound configuration with some sections put in place of their own."""
    sections = {name: index_section(name, records) for name, records in (BASE | changes).items()}
    return assemble(Manifest("L", 1, {}, 0.0), sections)


def found(**changes: Iterable[Any]) -> list[tuple[str, str, str, str]]:
    """Section, record, field and code of every problem."""
    problems = problems_in(snapshot_of(**changes), own_ports=frozenset({8300, 8400}))
    return [(one.section, one.record_id, one.field, one.code) for one in problems]


def test_a_sound_configuration_has_no_problems() -> None:
    assert problems_in(snapshot_of()) == ()


def test_an_empty_configuration_is_sound() -> None:
    sections = {name: index_section(name, ()) for name in SECTIONS}
    assert problems_in(assemble(Manifest("L", 1, {}, 0.0), sections)) == ()


def test_a_problem_names_place_code_and_reason() -> None:
    lost = replace(ROUTE, targets=(TargetRecord("tgt_1", "pool_x", 1),))
    assert problems_in(snapshot_of(routes=(lost,))) == (
        Problem("routes", "rt_a", "targets.0.pool_id", "unknown", "There is no such pool."),
    )


def test_dangling_references_are_found() -> None:
    nobody = "org_x"
    assert found(
        models=(MODEL, FOREIGN_MODEL, replace(MODEL, id="mdl_x", organisation_id=nobody)),
        prices=(replace(PRICE, model_id="mdl_y"),),
        pools=(replace(STATIC, model_id="mdl_y"),),
        routes=(
            replace(ROUTE, targets=(TargetRecord("t", "pool_y", 1),)),
            replace(ROUTE, id="rt_x", organisation_id=nobody, is_enabled=False, targets=()),
        ),
        **{key_section(key_bucket("k1")): (replace(KEY, organisation_id=nobody),)},
    ) == [
        ("models", "mdl_x", "organisation_id", "unknown"),
        ("prices", "prc_a", "model_id", "unknown"),
        ("pools", "pool_s", "model_id", "unknown"),
        ("routes", "rt_a", "targets.0.pool_id", "unknown"),
        ("routes", "rt_x", "organisation_id", "unknown"),
        ("keys", "k1", "organisation_id", "unknown"),
    ]


def test_references_across_tenants_are_found() -> None:
    assert found(
        prices=(replace(PRICE, model_id="mdl_b"),),
        pools=(replace(STATIC, model_id="mdl_b"), FOREIGN_POOL),
        routes=(
            replace(
                ROUTE,
                targets=(TargetRecord("t1", "pool_s", 1), TargetRecord("t2", "pool_b", 1)),
            ),
        ),
    ) == [
        ("prices", "prc_a", "model_id", "foreign"),
        ("pools", "pool_s", "model_id", "foreign"),
        ("routes", "rt_a", "targets.1.pool_id", "foreign"),
    ]


TARGETS = [
    ((), ["targets"], ["required"]),
    ((TargetRecord("t", "pool_s", 0),), ["targets"], ["required"]),
    (
        (TargetRecord("t", "pool_s", -1),),
        ["targets", "targets.0.weight"],
        ["required", "out_of_range"],
    ),
    ((TargetRecord("t", "pool_s", 1_000_001),), ["targets.0.weight"], ["out_of_range"]),
    ((TargetRecord("t", "pool_s", 1_000_000), TargetRecord("u", "pool_p", 0)), [], []),
    (
        (TargetRecord("t", "pool_s", 1), TargetRecord("t", "pool_p", 1)),
        ["targets.0.id", "targets.1.id"],
        ["duplicate", "duplicate"],
    ),
]


@pytest.mark.parametrize(("targets", "fields", "codes"), TARGETS, ids=range(len(TARGETS)))
def test_targets_of_a_route(
    targets: tuple[TargetRecord, ...], fields: list[str], codes: list[str]
) -> None:
    expected = [("routes", "rt_a", *pair) for pair in zip(fields, codes, strict=True)]
    assert found(routes=(replace(ROUTE, targets=targets),)) == expected


def test_a_route_that_is_switched_off_may_stand_empty() -> None:
    assert found(routes=(replace(ROUTE, is_enabled=False, targets=()),)) == []


BAD_FIELDS = [
    ("routes", ROUTE, "name", "", "invalid"),
    ("routes", ROUTE, "name", "chat\n", "invalid"),
    ("routes", ROUTE, "name", "-chat", "invalid"),
    ("routes", ROUTE, "connect_timeout_ms", 0, "out_of_range"),
    ("routes", ROUTE, "first_byte_timeout_ms", -1, "out_of_range"),
    ("routes", ROUTE, "idle_timeout_ms", 0, "out_of_range"),
    ("routes", ROUTE, "total_timeout_ms", 0, "out_of_range"),
    ("routes", ROUTE, "default_max_output_tokens", 0, "out_of_range"),
    ("routes", ROUTE, "max_attempts", 0, "out_of_range"),
    ("routes", ROUTE, "max_attempts", 11, "out_of_range"),
    ("pools", STATIC, "name", "Upper", "invalid"),
    ("pools", STATIC, "name", "a/b", "invalid"),
    ("pools", STATIC, "name", "own\n", "invalid"),
    ("pools", STATIC, "served_model_name", "", "invalid"),
    ("pools", STATIC, "served_model_name", "a\x00b", "invalid"),
    ("pools", STATIC, "addresses", (), "required"),
    ("pools", STATIC, "start_timeout_s", 0, "out_of_range"),
    ("pools", STATIC, "drain_timeout_s", -1, "out_of_range"),
    ("pools", STATIC, "restart_generation", -1, "out_of_range"),
    ("pools", PROCESS, "replicas", -1, "out_of_range"),
    ("pools", PROCESS, "model_source", None, "required"),
    ("pools", PROCESS, "model_source", "../../etc", "not_allowed"),
    ("pools", PROCESS, "port_base", 80, "out_of_range"),
    ("pools", PROCESS, "port_base", 65_535, "out_of_range"),
    ("pools", PROCESS, "port_base", 8_399, "overlap"),
    ("models", MODEL, "name", "", "invalid"),
    ("models", MODEL, "name", "a b", "invalid"),
    ("models", MODEL, "max_context_tokens", 0, "out_of_range"),
    ("prices", PRICE, "input_nanousd_per_mtok", -1, "out_of_range"),
    ("prices", PRICE, "output_nanousd_per_mtok", 10**17 + 1, "out_of_range"),
    ("prices", PRICE, "output_nanousd_per_mtok", None, "invalid"),
    ("prices", PRICE, "request_nanousd", 10**13 + 1, "out_of_range"),
    ("prices", PRICE, "pool_id", "pool_gone", "unknown"),
    ("prices", PRICE, "cached_input_nanousd_per_mtok", -1, "out_of_range"),
    ("organisations", ORGANISATION, "name", " ", "invalid"),
    ("organisations", ORGANISATION, "name", "x" * 256, "invalid"),
]


@pytest.mark.parametrize(("section", "record", "field", "value", "code"), BAD_FIELDS)
def test_a_bad_field_is_found_at_its_field(
    section: str, record: Any, field: str, value: object, code: str
) -> None:
    others = tuple(one for one in BASE[section] if one.id != record.id)
    changed = replace(record, **{field: value})
    assert found(**{section: (changed, *others)}) == [(section, record.id, field, code)]


GOOD_FIELDS = [
    ("routes", ROUTE, "name", "Qwen/Qwen2.5-0.5B:latest"),
    ("routes", ROUTE, "total_timeout_ms", None),
    ("routes", ROUTE, "max_attempts", 1),
    ("pools", PROCESS, "replicas", 0),
    ("pools", PROCESS, "port_base", None),
    ("pools", PROCESS, "port_base", 65_534),
    ("pools", STATIC, "drain_timeout_s", 0),
    ("models", MODEL, "name", "Qwen/Qwen2.5-0.5B"),
    ("prices", PRICE, "input_nanousd_per_mtok", 0),
    ("prices", PRICE, "cached_input_nanousd_per_mtok", None),
    ("organisations", ORGANISATION, "name", "Wasser & Söhne"),
]


@pytest.mark.parametrize(("section", "record", "field", "value"), GOOD_FIELDS)
def test_bounds_and_gaps_that_are_allowed(
    section: str, record: Any, field: str, value: object
) -> None:
    others = tuple(one for one in BASE[section] if one.id != record.id)
    assert found(**{section: (replace(record, **{field: value}), *others)}) == []


def test_bad_addresses_are_found_each_at_its_place() -> None:
    addresses = (
        "http://10.0.0.1/v1",
        "http://169.254.169.254/v1",
        "http://127.0.0.1:8300/v1",
        "http://10.0.0.1/v1",
        "http://10.0.0.2/v1?key=CANARY",
        "http://user:CANARY@10.0.0.2/v1",
    )
    pools = (replace(STATIC, addresses=addresses),)
    assert found(pools=pools) == [
        ("pools", "pool_s", "addresses.1", "forbidden_address"),
        ("pools", "pool_s", "addresses.2", "forbidden_address"),
        ("pools", "pool_s", "addresses.3", "duplicate"),
        ("pools", "pool_s", "addresses.4", "forbidden_address"),
        ("pools", "pool_s", "addresses.5", "forbidden_address"),
    ]
    problems = problems_in(snapshot_of(pools=pools))
    assert "CANARY" not in str(problems)


def test_too_many_addresses_are_refused() -> None:
    addresses = tuple(f"http://10.0.{n // 250}.{n % 250}/v1" for n in range(1_001))
    assert found(pools=(replace(STATIC, addresses=addresses),)) == [
        ("pools", "pool_s", "addresses", "out_of_range")
    ]


def test_replicas_are_bounded() -> None:
    assert found(pools=(STATIC, replace(PROCESS, replicas=1_001, port_base=None))) == [
        ("pools", "pool_p", "replicas", "out_of_range")
    ]


def test_engine_arguments_are_checked_and_remote_code_needs_the_host() -> None:
    pool = replace(PROCESS, engine_arguments={"middleware": "x", "trust_remote_code": True})
    assert found(pools=(STATIC, pool)) == [
        ("pools", "pool_p", "engine_arguments.middleware", "unknown"),
        ("pools", "pool_p", "engine_arguments.trust_remote_code", "not_allowed"),
    ]
    trusting = replace(PROCESS, engine_arguments={"trust_remote_code": True})
    assert problems_in(snapshot_of(pools=(STATIC, trusting)), allow_remote_code=True) == ()


def process(pool_id: str, port_base: int | None, replicas: int, owner: str = "org_a") -> PoolRecord:
    model = {"org_a": "mdl_a", "org_b": "mdl_b"}[owner]
    name = pool_id.removeprefix("pool_")
    return replace(
        PROCESS,
        id=pool_id,
        name=name,
        organisation_id=owner,
        model_id=model,
        port_base=port_base,
        replicas=replicas,
    )


def test_overlapping_ports_are_found_at_both_pools_across_tenants_too() -> None:
    pools = (
        STATIC,
        process("pool_1", 9_000, 100),
        process("pool_2", 9_050, 1, "org_b"),
        process("pool_3", 9_099, 2),
        process("pool_4", 9_101, 1),
        process("pool_5", None, 5),
        process("pool_6", 9_060, 0),
    )
    assert found(pools=pools) == [
        ("pools", "pool_1", "port_base", "overlap"),
        ("pools", "pool_2", "port_base", "overlap"),
        ("pools", "pool_3", "port_base", "overlap"),
    ]


def test_names_are_unique_in_an_organisation_only() -> None:
    assert found(
        models=(MODEL, FOREIGN_MODEL, replace(MODEL, id="mdl_2")),
        pools=(STATIC, FOREIGN_POOL, replace(STATIC, id="pool_2")),
    ) == [
        ("models", "mdl_a", "name", "duplicate"),
        ("models", "mdl_2", "name", "duplicate"),
        ("pools", "pool_s", "name", "duplicate"),
        ("pools", "pool_2", "name", "duplicate"),
    ]


def test_a_digest_no_gateway_could_match_is_found() -> None:
    good = KeyDigest(1, "0123456789abcdef" * 4)
    digests = (
        good,
        replace(good, digest="AB" * 32),
        replace(good, digest="ab" * 32 + "\n"),
        replace(good, digest="é" * 64),
        replace(good, pepper_version=0),
    )
    keys = {key_section(key_bucket("k1")): (replace(KEY, digests=digests),)}
    assert found(**keys) == [
        ("keys", "k1", "digests.1.digest", "invalid"),
        ("keys", "k1", "digests.2.digest", "invalid"),
        ("keys", "k1", "digests.3.digest", "invalid"),
        ("keys", "k1", "digests.4.pepper_version", "out_of_range"),
    ]


def test_fake_workers_need_the_host() -> None:
    fake = replace(PROCESS, provisioner=Provisioner.FAKE, port_base=None)
    pools = (STATIC, fake)
    assert problems_in(snapshot_of(pools=pools)) == (
        Problem(
            "pools",
            "pool_p",
            "provisioner",
            "not_allowed",
            "The host does not allow this; see HEADWORKS_ALLOW_FAKE_WORKERS.",
        ),
    )
    assert problems_in(snapshot_of(pools=pools), allow_fake_workers=True) == ()


def test_a_key_in_the_wrong_section_is_found() -> None:
    wrong = "00" if key_bucket("k1") != "00" else "01"
    assert found(**{key_section(wrong): (KEY,)}) == [("keys", "k1", "id", "invalid")]


def test_a_section_is_checked_alone() -> None:
    snapshot = snapshot_of(
        prices=(replace(PRICE, model_id="mdl_x"),), routes=(replace(ROUTE, name=""),)
    )
    problems = problems_in_section(snapshot, "prices", Host())
    assert [problem.section for problem in problems] == ["prices"]
    assert problems_in_section(snapshot, "pools", Host()) == ()


@pytest.mark.parametrize(
    ("changed", "checked"),
    [
        (
            ["organisations"],
            [
                *("organisations", "models", "prices", "pools", "routes", "limits", "budgets"),
                *("switches", "caches", "purges", "experiments", "prompts", "keys/0a"),
            ],
        ),
        (["models"], ["models", "prices", "pools"]),
        (["prices"], ["prices"]),
        (["pools"], ["prices", "pools", "routes", "experiments"]),
        (["routes"], ["routes", "experiments"]),
        (["caches"], ["routes", "caches", "experiments"]),
        (["purges"], ["purges"]),
        (["keys/0a"], ["keys/0a"]),
        (["keys/0b"], []),
        ([], []),
    ],
)
def test_a_change_has_those_sections_checked_that_refer_to_it(
    changed: list[str], checked: list[str]
) -> None:
    assert list(sections_to_check(changed, (*SECTIONS, "keys/0a"))) == checked
