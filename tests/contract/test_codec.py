"""Shared documents, byte for byte: what is written today is read for ever."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inference.contract import codec
from inference.contract.codec import CodecError
from inference.contract.sealing import content_digest
from inference.contract.wire import SECTIONS
from tests.contract.samples import DOCUMENTS, KEYS, MANIFEST, PRICES, ROUTES, VITALS, Document

GOLDEN = Path(__file__).parent / "golden"
FIRST_VITALS = "vitals-without-gauges"
# what these hold is data, not fields
MAPPINGS = {
    *("sections", "engine_arguments", "inflight", "decision"),
    *("failures", "first_token_ms", "output_token_ms"),
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


def test_vitals_of_the_first_writers_are_still_read() -> None:
    data = (GOLDEN / f"v1/{FIRST_VITALS}.json").read_bytes()
    assert codec.decode_vitals(data) == replace(VITALS, traffic=(), workers=())


def test_every_golden_file_is_checked() -> None:
    files = {path.stem for path in (GOLDEN / "v1").iterdir()}
    assert files == {document.file for document in DOCUMENTS} | {FIRST_VITALS}


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
        codec.decode_section("routes", data.replace(b'"weighted"', b'"clairvoyant"'))


@pytest.mark.parametrize("name", ["budgets", "", "key", "keys2/7f"])
def test_an_unknown_section_is_refused(name: str) -> None:
    with pytest.raises(CodecError, match="unknown section"):
        codec.decode_section(name, b'{"v":1,"d":[]}')


def test_null_and_zero_stay_apart() -> None:
    decoded = codec.decode_section("prices", codec.encode_section(PRICES))
    assert [price.cached_input_nanousd_per_mtok for price in decoded] == [100_000, None]
    assert decoded[1].input_nanousd_per_mtok == 0


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
    assert snapshot.prices["mdl_a"] is PRICES[0]
    assert snapshot.keys == {"7f": {KEYS[0].id: KEYS[0]}}
    assert snapshot.keys["7f"] is keys


def test_a_snapshot_without_one_of_its_sections_is_refused() -> None:
    sections = empty_sections()
    del sections["pools"]
    with pytest.raises(CodecError, match="sections missing: pools"):
        codec.assemble(MANIFEST, sections)
