"""Shared documents, byte for byte: what is written today is read for ever."""

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from inference.contract import codec
from inference.contract.codec import CodecError
from inference.contract.kinds import PriorityClass, PurgeKind, Strategy, TaskClass, TooLong
from inference.contract.sealing import content_digest
from inference.contract.snapshot import TargetRecord
from inference.contract.wire import SECTIONS
from tests.contract.configuration import (
    BUDGETS,
    CACHE_POLICIES,
    EXPERIMENTS,
    KEYS,
    MANIFEST,
    ORGANISATIONS,
    POOLS,
    PRICES,
    PURGES,
    ROUTES,
)
from tests.contract.samples import (
    DOCUMENTS,
    END,
    OPENING,
    ORIGIN,
    REFUSED_END,
    VITALS,
    Document,
)

OLD_ORIGIN = replace(ORIGIN, end_user=None, tags=(), priority=None, task=None, rule_id=None)
OLD_OPENED = replace(OPENING, exposures=())
BEFORE_CACHES = replace(END, cache=None, exposures=())
GOLDEN = Path(__file__).parent / "golden"
OLD_VITALS = (
    *("vitals-without-gauges", "vitals-before-breakers"),
    *("vitals-before-requests", "vitals-before-queues", "vitals-before-sheds"),
    "vitals-before-tiers",
)
OLD_POOLS = ("section-pools-before-breakers", "section-pools-before-endpoints")
OLD_ROUTES = (
    *("section-routes-before-target-timeouts", "section-routes-before-keep-alive"),
    *("section-routes-before-rules", "section-routes-before-caches"),
)
OLD_OPENING = "opening-before-attempts"
BEFORE_LATER_FIELDS = {
    "section-prices-before-versions": (partial(codec.decode_section, "prices"), PRICES[:2]),
    "section-organisations-before-rules": (
        partial(codec.decode_section, "organisations"),
        (replace(ORGANISATIONS[0], time_zone="UTC"), ORGANISATIONS[1]),
    ),
    "section-keys-before-rules": (
        partial(codec.decode_section, "keys/7f"),
        (replace(KEYS[0], tags=(), priority=PriorityClass.DEFAULT, default_task=None),),
    ),
    "opening-before-rules": (codec.decode_opening, replace(OLD_OPENED, origin=OLD_ORIGIN)),
    "opening-before-experiments": (codec.decode_opening, OLD_OPENED),
    "end-before-rules": (codec.decode_end, replace(BEFORE_CACHES, origin=OLD_ORIGIN)),
    "end-before-caches": (codec.decode_end, BEFORE_CACHES),
    "end-before-experiments": (codec.decode_end, replace(END, exposures=())),
    "end-refused-before-rules": (codec.decode_end, replace(REFUSED_END, origin=OLD_ORIGIN)),
}
WITH_NULLS = {
    "end-with-nulls": (codec.decode_end, BEFORE_CACHES),
    "end-refused-with-nulls": (codec.decode_end, REFUSED_END),
}
OLD_BUDGETS = "section-budgets-before-actions"
OLD_FILES = {
    *(
        OLD_BUDGETS,
        *WITH_NULLS,
        *OLD_VITALS,
        *OLD_POOLS,
        *OLD_ROUTES,
        OLD_OPENING,
        *BEFORE_LATER_FIELDS,
    )
}
# what these hold is data, not fields
MAPPINGS = {
    *("sections", "engine_arguments", "inflight", "decision"),
    *("failures", "first_token_ms", "output_token_ms", "refused"),
    *("worker_restarts", "prefill_tokens", "breakers"),
    *("queued", "oldest_wait_ms", "degraded", "shed", "ttl_s", "parameters"),
}

every_document = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda one: one.file)


def golden(document: Document, version: int = 1) -> bytes:
    return (GOLDEN / f"v{version}" / f"{document.file}.json").read_bytes()


@every_document
def test_the_golden_bytes_are_read_as_the_exact_value(document: Document) -> None:
    assert document.decode(golden(document)) == document.value


@every_document
def test_the_value_is_written_as_the_golden_bytes(document: Document) -> None:
    assert document.encode(document.value) == golden(document)


def read_old(file: str) -> bytes:
    return (GOLDEN / f"v1/{file}.json").read_bytes()


def test_vitals_of_earlier_writers_are_still_read() -> None:
    traffic = tuple(replace(one, shed={}) for one in VITALS.traffic)
    before_tiers = replace(VITALS, tiers=(), top_entries=())
    before_sheds = replace(before_tiers, traffic=traffic)
    before_queues = replace(before_sheds, queued={}, oldest_wait_ms={}, degraded={})
    before_requests = replace(before_queues, directory_token=None, requests=0)
    before_breakers = replace(
        before_requests, prefill_tokens={}, breakers={}, restart_generation=0, is_draining=False
    )
    first, second, third, fourth, fifth, sixth = (
        codec.decode_vitals(read_old(file)) for file in OLD_VITALS
    )
    assert sixth == before_tiers
    assert fifth == before_sheds
    assert fourth == before_queues
    assert third == before_requests
    assert second == before_breakers
    assert first == replace(before_breakers, traffic=(), workers=())


def test_pools_of_earlier_writers_have_the_defaults_of_what_came_later() -> None:
    before_breakers, before_endpoints = (
        codec.decode_section("pools", read_old(file)) for file in OLD_POOLS
    )
    without_endpoints = replace(POOLS[1], endpoints=())
    assert before_endpoints == (POOLS[0], without_endpoints)
    first, second = before_breakers
    assert second == without_endpoints
    assert first == replace(
        POOLS[0],
        cordoned=(),
        worker_restarts={},
        worker_concurrency=None,
        breaker_failure_percent=50,
        breaker_min_requests=5,
        breaker_open_ms=5_000,
        panic_percent=50,
    )


def test_budgets_of_earlier_writers_are_of_the_calendar_and_do_nothing_new() -> None:
    first, second = codec.decode_section("budgets", read_old(OLD_BUDGETS))
    assert second == BUDGETS[1]
    assert first == replace(
        BUDGETS[0],
        is_rolling=False,
        grace_nanousd=0,
        too_long=TooLong.REFUSE,
        acts_at_percent=100,
        throttle_per_minute=60,
        cheaper_model_id=None,
    )


def test_routes_of_earlier_writers_keep_their_strategy_and_their_time_outs() -> None:
    first, second, third, fourth = (
        codec.decode_section("routes", read_old(file)) for file in OLD_ROUTES
    )
    before_caches = replace(ROUTES[0], cache_policy_id=None, similarity_min=None)
    assert fourth == (before_caches,)
    before_rules = replace(
        before_caches,
        targets=tuple(replace(target, tier=0) for target in ROUTES[0].targets),
        aliases=(),
        rules=(),
        default_task=TaskClass.DEFAULT,
        max_queue_wait_ms=30_000,
        max_queued=1_000,
        hedge_after_ms=None,
        degradation=(),
    )
    assert third == (before_rules,)
    before_keep_alive = replace(before_rules, keep_alive_ms=None)
    assert second == (before_keep_alive,)
    older = replace(
        before_keep_alive,
        targets=(TargetRecord("tgt_1", "pool_p", 80), TargetRecord("tgt_2", "pool_s", 20)),
        strategy=Strategy.WEIGHTED,
        retry_budget_percent=20,
        max_wait_penalty=0.5,
    )
    assert first == (older,)


def test_openings_of_earlier_writers_are_of_the_first_attempt() -> None:
    assert codec.decode_opening(read_old(OLD_OPENING)) == replace(
        OLD_OPENED, attempt=1, client_request_id=None, origin=OLD_ORIGIN
    )


@pytest.mark.parametrize("file", BEFORE_LATER_FIELDS)
def test_what_was_written_before_later_fields_has_their_defaults(file: str) -> None:
    decode, value = BEFORE_LATER_FIELDS[file]
    assert decode(read_old(file)) == value


@pytest.mark.parametrize("file", WITH_NULLS)
def test_what_was_written_with_all_that_says_nothing_is_read_as_without(file: str) -> None:
    decode, value = WITH_NULLS[file]
    assert decode(read_old(file)) == value


def test_every_golden_file_is_checked() -> None:
    files = {path.stem for path in (GOLDEN / "v1").iterdir()}
    assert files == {document.file for document in DOCUMENTS} | OLD_FILES


@every_document
def test_a_document_is_one_line(document: Document) -> None:
    assert b"\n" not in document.encode(document.value)


def with_later_fields(value: Any) -> Any:
    if isinstance(value, list):
        return [with_later_fields(item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {
        name: item if name in MAPPINGS else with_later_fields(item) for name, item in value.items()
    }
    return kept | {"a_later_field": {"deep": [1]}}


@every_document
def test_fields_of_later_writers_are_ignored(document: Document) -> None:
    envelope = with_later_fields(json.loads(golden(document)))
    assert document.decode(json.dumps(envelope).encode()) == document.value


@every_document
@pytest.mark.parametrize("version", [0, 2, 99, -1])
def test_an_unknown_version_is_refused_by_name(document: Document, version: int) -> None:
    data = golden(document).replace(b'{"v":1,', b'{"v":%d,' % version, 1)
    with pytest.raises(CodecError, match=f"version {version}$"):
        document.decode(data)


@every_document
@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"null",
        b"7",
        b"[]",
        b"{}",
        b'{"v":1}',
        b'{"d":{}}',
        b'{"v":"1","d":{}}',
        b'{"v":1,"d":null}',
        b'{"v":1,"d":7}',
        b'{"v":1,"d":{"id":7}}',
        b'{"v":1,"d":[{"id":7}]}',
        b"\xff\xfe",
        b'{"v":1,"d":"\xff"}',
        b'{"v":1,"d":' + b"[" * 100_000,
        b'{"v":1,"d":{"decision":' + b'{"a":' * 100_000,
    ],
    ids=range(16),
)
def test_garbage_is_refused(document: Document, garbage: bytes) -> None:
    with pytest.raises(CodecError):
        document.decode(garbage)


@every_document
def test_a_torn_document_is_refused(document: Document) -> None:
    data = golden(document)
    for length in range(0, len(data), 7):
        with pytest.raises(CodecError):
            document.decode(data[:length])


def test_a_kind_outside_the_vocabulary_is_refused() -> None:
    data = (GOLDEN / "v1/section-routes.json").read_bytes()
    with pytest.raises(CodecError):
        codec.decode_section("routes", data.replace(b'"least_work"', b'"clairvoyant"'))


@pytest.mark.parametrize("name", ["prompts", "", "key", "keys2/7f"])
def test_an_unknown_section_is_refused(name: str) -> None:
    with pytest.raises(CodecError, match="unknown section"):
        codec.decode_section(name, b'{"v":1,"d":[]}')


def test_null_and_zero_stay_apart() -> None:
    decoded = codec.decode_section("prices", codec.encode_section(PRICES))
    assert [price.cached_input_nanousd_per_mtok for price in decoded] == [100_000, None, None, None]
    assert [price.input_nanousd_per_mtok for price in decoded[1:]] == [0, 3_000_000, None]


def test_equal_records_give_equal_digests() -> None:
    assert content_digest(codec.encode_section(ROUTES)) == content_digest(
        codec.encode_section(list(ROUTES))
    )


def test_an_empty_section_has_its_bytes() -> None:
    assert codec.encode_section(()) == b'{"v":1,"d":[]}'


def empty_sections() -> dict[str, dict[Any, Any]]:
    return {name: {} for name in SECTIONS}


def test_sections_are_indexed_and_assembled_by_noun() -> None:
    keys = codec.index_section("keys/7f", KEYS)
    prices = codec.index_section("prices", PRICES)
    routes = codec.index_section("routes", ROUTES)
    sections = empty_sections() | {"prices": prices, "routes": routes, "keys/7f": keys}
    snapshot = codec.assemble(MANIFEST, sections)
    assert (snapshot.lineage, snapshot.version) == ("01KB7", 7)
    assert snapshot.routes[("org_a", "chat/default")] is ROUTES[0]
    assert snapshot.prices["prc_a"] is PRICES[0]
    assert snapshot.keys == {"7f": {KEYS[0].id: KEYS[0]}}
    assert snapshot.keys["7f"] is keys


def test_a_snapshot_from_before_gateways_had_records_has_none() -> None:
    sections = empty_sections()
    del sections["gateways"]
    assert codec.assemble(MANIFEST, sections).gateways == {}


def test_a_snapshot_from_before_there_were_caches_has_no_policy() -> None:
    sections = empty_sections()
    del sections["caches"], sections["purges"]
    snapshot = codec.assemble(MANIFEST, sections)
    assert (snapshot.cache_policies, snapshot.purges, snapshot.purged) == ({}, {}, {})


def test_a_snapshot_from_before_there_were_experiments_tries_nothing() -> None:
    sections = empty_sections()
    del sections["experiments"]
    snapshot = codec.assemble(MANIFEST, sections)
    assert (snapshot.experiments, snapshot.tested) == ({}, {})


def test_experiments_that_run_are_found_by_their_route() -> None:
    stopped, running = EXPERIMENTS
    other = replace(running, id="exp_0", layer="more")
    records = codec.index_section("experiments", (stopped, running, other))
    snapshot = codec.assemble(MANIFEST, empty_sections() | {"experiments": records})
    assert snapshot.tested == {"rt_a": (other, running)}
    assert snapshot.experiments["exp_a"] is stopped


def test_purges_are_found_by_what_they_name_the_newest_of_each() -> None:
    stranger = replace(PURGES[0], id="pur_d", organisation_id="org_b", epoch=10)
    records = (*reversed(PURGES), stranger)
    sections = empty_sections() | {"purges": codec.index_section("purges", records)}
    policies = codec.index_section("caches", CACHE_POLICIES)
    snapshot = codec.assemble(MANIFEST, sections | {"caches": policies})
    assert snapshot.purged == {
        "org_a": {(PurgeKind.NAMESPACE, "docs/v1"): 9, (PurgeKind.TAG, "app=search"): 8},
        "org_b": {(PurgeKind.NAMESPACE, "docs/v1"): 10},
    }
    assert snapshot.cache_policies["cch_a"] is CACHE_POLICIES[0]


def test_a_snapshot_without_one_of_its_sections_is_refused() -> None:
    sections = empty_sections()
    del sections["pools"]
    with pytest.raises(CodecError, match="sections missing: pools"):
        codec.assemble(MANIFEST, sections)


def test_an_end_gets_its_number_in_its_bytes() -> None:
    strange = {"text": '"journal":"","seq":0', "deep": {"journal": "", "seq": 0}}
    for decision in (None, strange):
        end = replace(END, journal="", seq=0, decision=decision, client_request_id='"')
        lines = bytearray(b"before\n")
        codec.add_event(lines, end, mark=b"E ", journal="jnl_a", seq=12)
        before, line, rest = lines.split(b"\n")
        assert (before, line[:2], rest) == (b"before", b"E ", b"")
        assert codec.decode_end(bytes(line[2:])) == replace(end, journal="jnl_a", seq=12)


def test_a_numbered_end_gets_no_other_number() -> None:
    with pytest.raises(ValueError, match="number"):
        codec.add_event(
            bytearray(), replace(END, journal="", seq=3), mark=b"E ", journal="jnl_a", seq=4
        )
