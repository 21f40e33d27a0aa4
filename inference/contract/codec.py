"""Bytes of every shared document and back. Each carries its version; old ones decode for ever.

A document is `{"v": 1, "d": …}`; one that comes where ends do and is none says its kind as `k`.
Readers ignore fields they do not know; a version that would be misread by an old reader gets a new
number and its own entry in `_READERS`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from inference.contract import events, fleet, snapshot, vitals
from inference.contract.kinds import PurgeKind
from inference.contract.wire import LATER_SECTIONS, SECTIONS

VERSION = 1


class CodecError(ValueError):
    """The bytes are not a document of this kind in a version this reader knows."""


class _Envelope(msgspec.Struct):
    v: int
    d: msgspec.Raw
    k: str = ""


Reader = Callable[[bytes], Any]


def _reader(kind: Any) -> Reader:
    decoder = msgspec.json.Decoder(kind)
    return decoder.decode


def _each(kind: Any) -> Reader:
    """Read a sequence of these, each as it is asked for."""
    split, read = _reader(tuple[msgspec.Raw, ...]), _reader(kind)
    return lambda data: map(read, split(data))


_SECTION_RECORDS: Mapping[str, Any] = {
    "organisations": snapshot.OrganisationRecord,
    "models": snapshot.ModelRecord,
    "prices": snapshot.PriceRecord,
    "pools": snapshot.PoolRecord,
    "routes": snapshot.RouteRecord,
    "keys": snapshot.KeyRecord,
    "gateways": snapshot.GatewayRecord,
    "limits": snapshot.LimitRecord,
    "budgets": snapshot.BudgetRecord,
    "switches": snapshot.SwitchRecord,
    "caches": snapshot.CachePolicyRecord,
    "purges": snapshot.PurgeRecord,
    "experiments": snapshot.ExperimentRecord,
}

_READERS: Mapping[tuple[str, int], Reader] = {
    ("manifest", 1): _reader(snapshot.Manifest),
    ("opening", 1): _reader(events.Opening),
    ("end", 1): _reader(events.End),
    ("feedback", 1): _reader(events.Feedback),
    ("directory", 1): _reader(fleet.Directory),
    ("vitals", 1): _reader(vitals.Vitals),
    **{(f"section:{noun}", 1): _each(record) for noun, record in _SECTION_RECORDS.items()},
}

_envelope = msgspec.json.Decoder(_Envelope)
_encode = msgspec.json.Encoder(order="deterministic").encode
_encode_unordered = msgspec.json.Encoder().encode
"""For what nobody compares by its bytes: sorting takes a third of the time an event's end does. And
for histograms: the ordered one takes no mapping of numbers."""


def _write(document: object, encode: Callable[[object], bytes] = _encode) -> bytes:
    return b'{"v":%d,"d":%b}' % (VERSION, encode(document))


def _read(kind: str, data: bytes) -> Any:
    return _read_kind(data, lambda _: kind)


def _read_kind(data: bytes, kind_of: Callable[[_Envelope], str]) -> Any:
    kind = "document"
    try:
        envelope = _envelope.decode(data)
        kind = kind_of(envelope)
        reader = _READERS.get((kind, envelope.v))
        if reader is None:
            raise CodecError(f"no reader for {kind} version {envelope.v}")
        return reader(bytes(envelope.d))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"not a {kind}: {error}") from error


def noun_of(section: str) -> str:
    """The noun a section holds: `keys` for `keys/7f`."""
    return section.partition("/")[0]


def encode_section(records: Iterable[object]) -> bytes:
    """Encode one section; equal records in equal order give equal bytes, so equal digests."""
    return _write(tuple(records))


def decode_section(name: str, data: bytes) -> tuple[Any, ...]:
    """Decode one section into the records of its noun, or raise CodecError."""
    return tuple(decode_records(name, data))


def decode_records(name: str, data: bytes) -> Iterator[Any]:
    """The same one record after the other; where one is bad, CodecError comes in its place."""
    if noun_of(name) not in _SECTION_RECORDS:
        raise CodecError(f"unknown section {name}")
    records = _read(f"section:{noun_of(name)}", data)
    try:
        yield from records
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CodecError(f"not a section:{noun_of(name)}: {error}") from error


def encode_manifest(value: snapshot.Manifest) -> bytes:
    return _write(value)


def decode_manifest(data: bytes) -> snapshot.Manifest:
    value: snapshot.Manifest = _read("manifest", data)
    return value


_OPEN_EVENT = b'{"v":%d,"d":' % VERSION
_OPEN_FEEDBACK = b'{"v":%d,"k":"feedback","d":' % VERSION
_encode_event_into = msgspec.json.Encoder().encode_into


def encode_event(value: events.Fact) -> bytes:
    """Encode a fact on one line, without a line end."""
    if isinstance(value, events.Feedback):
        return b"%b%b}" % (_OPEN_FEEDBACK, _encode_unordered(value))
    return _write(value, _encode_unordered)


def add_event(
    lines: bytearray,
    value: events.Fact,
    *,
    mark: bytes,
    journal: str = "",
    seq: int = 0,
) -> None:
    """Add a fact's line to others: after a mark, and with its place in a journal if it has one.

    One that is given one must not have another: that is a ValueError. After any error the lines
    hold some of it.
    """
    is_feedback = type(value) is events.Feedback
    lines += mark + (_OPEN_FEEDBACK if is_feedback else _OPEN_EVENT)
    _encode_event_into(value, lines, -1)
    if seq:
        if isinstance(value, events.Numbered) and value.seq:
            raise ValueError("it has a number already")
        lines[-1:] = b',"journal":"%b","seq":%d}}\n' % (journal.encode(), seq)
    else:
        lines += b"}\n"


def decode_opening(data: bytes) -> events.Opening:
    value: events.Opening = _read("opening", data)
    return value


def decode_end(data: bytes) -> events.End:
    value: events.End = _read("end", data)
    return value


def decode_numbered(data: bytes) -> events.Numbered:
    """Decode what comes where ends do: an end, or feedback."""
    value: events.Numbered = _read_kind(
        data, lambda envelope: "feedback" if envelope.k == "feedback" else "end"
    )
    return value


def encode_directory(value: fleet.Directory) -> bytes:
    return _write(value)


def decode_directory(data: bytes) -> fleet.Directory:
    value: fleet.Directory = _read("directory", data)
    return value


def encode_vitals(value: vitals.Vitals) -> bytes:
    return _write(value, _encode_unordered)


def decode_vitals(data: bytes) -> vitals.Vitals:
    value: vitals.Vitals = _read("vitals", data)
    return value


_INDEXES: Mapping[str, Callable[[Any], Any]] = {
    "organisations": lambda record: record.id,
    "models": lambda record: record.id,
    "prices": lambda record: record.id,
    "pools": lambda record: record.id,
    "routes": lambda record: (record.organisation_id, record.name),
    "keys": lambda record: record.id,
    "gateways": lambda record: record.id,
    "limits": lambda record: record.id,
    "budgets": lambda record: record.id,
    "switches": lambda record: record.id,
    "caches": lambda record: record.id,
    "purges": lambda record: record.id,
    "experiments": lambda record: record.id,
}


def index_section(name: str, records: Iterable[Any]) -> Mapping[Any, Any]:
    """Index one section's records the way `ConfigSnapshot` holds them."""
    index = _INDEXES[noun_of(name)]
    return {index(record): record for record in records}


def assemble(
    manifest: snapshot.Manifest, sections: Mapping[str, Mapping[Any, Any]]
) -> snapshot.ConfigSnapshot:
    """Put indexed sections together under their manifest; every fixed section must be there."""
    missing = [name for name in SECTIONS if name not in sections and name not in LATER_SECTIONS]
    if missing:
        raise CodecError(f"sections missing: {', '.join(missing)}")
    keys = {
        name.partition("/")[2]: index for name, index in sections.items() if noun_of(name) == "keys"
    }
    fixed = {name: sections.get(name, {}) for name in SECTIONS}
    fixed["cache_policies"] = fixed.pop("caches")
    aliases = {
        (route.organisation_id, alias): route
        for route in fixed["routes"].values()
        for alias in route.aliases
    }
    thrown = {
        (one.organisation_id, one.subject, one.subject_id): one
        for one in fixed["switches"].values()
    }
    return snapshot.ConfigSnapshot(
        manifest.lineage,
        manifest.version,
        keys=keys,
        aliases=aliases,
        thrown=thrown,
        purged=_newest_epochs(fixed["purges"].values()),
        tested=_running(fixed["experiments"].values()),
        **fixed,
    )


def _newest_epochs(
    purges: Iterable[snapshot.PurgeRecord],
) -> Mapping[str, Mapping[tuple[PurgeKind, str], int]]:
    newest: dict[str, dict[tuple[PurgeKind, str], int]] = {}
    for one in purges:
        of_organisation = newest.setdefault(one.organisation_id, {})
        place = (one.kind, one.value)
        of_organisation[place] = max(one.epoch, of_organisation.get(place, 0))
    return newest


def _running(
    experiments: Iterable[snapshot.ExperimentRecord],
) -> Mapping[str, tuple[snapshot.ExperimentRecord, ...]]:
    running: dict[str, list[snapshot.ExperimentRecord]] = {}
    for one in sorted(experiments, key=lambda one: one.id):
        if one.is_running:
            running.setdefault(one.route_id, []).append(one)
    return {route_id: tuple(those) for route_id, those in running.items()}
