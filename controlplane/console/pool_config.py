"""A pool's configuration as its page tells it: each field, how it acts, and what runs already."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from controlplane.bridge.vitals import Fleet
from controlplane.console.diffs import NOT_SET, Line, label_of, shown
from controlplane.console.forms.engine_arguments import DEFAULTS
from controlplane.console.forms.pools import argument_words, credential_words
from controlplane.decisions.pools import Acting, acting_of
from controlplane.models import Pool
from controlplane.selectors.pools import get_pool_records
from controlplane.selectors.snapshots import get_newest_revision
from inference.contract.kinds import ProcessRole, Provisioner
from inference.contract.params import ENGINE_ARGUMENTS
from inference.contract.snapshot import PoolRecord
from inference.contract.vitals import Vitals

_SHARED = ("name", "model", "backend", "served_model_name", "power")
_FAULTS = (
    *("worker_concurrency", "breaker_failure_percent", "breaker_min_requests", "breaker_open_ms"),
    *("panic_percent", "cordoned"),
)
_OF_PROCESSES = (
    *("replicas", "model_source", "port_base", "restart_generation"),
    *("start_timeout_s", "drain_timeout_s", "worker_restarts"),
)
_OF_ADDRESSES = ("endpoints",)
_SECRET = "credential"


@dataclass(frozen=True, slots=True)
class Setting:
    """One field: its value in words, how a change of it acts, and whether it is the default."""

    label: str
    value: str
    acting: Acting
    is_default: bool = False
    is_mono: bool = False
    words: str = ""


@dataclass(frozen=True, slots=True)
class LastApplied:
    """What the data plane runs of a pool. `version` is None if nobody who should has said so.

    `who` applied it: the supervisor for workers we start, the gateways for addresses.
    """

    who: str
    version: int | None
    newest: int | None
    lines: Sequence[Line]
    problem: str = ""

    @property
    def is_current(self) -> bool:
        return self.version is not None and not self.lines and not self.problem


def settings_of(pool: Pool) -> Sequence[Setting]:
    """The pool's own fields."""
    return list(_settings(pool))


def _settings(pool: Pool) -> Iterator[Setting]:
    kind = pool.provisioner
    yield Setting("Provisioner", kind, acting_of("provisioner", kind))
    for name in _SHARED:
        value = pool.model.name if name == "model" else getattr(pool, name)
        yield Setting(label_of(name), shown(name, value), acting_of(name, kind), is_mono=True)
    if kind == Provisioner.STATIC:
        for at, address in enumerate(pool.addresses):
            yield Setting(f"Address {at}", address, acting_of("addresses", kind), is_mono=True)
        yield Setting("Credential", credential_words(pool), acting_of(_SECRET, kind))
    for name in (*(_OF_ADDRESSES if kind == Provisioner.STATIC else _OF_PROCESSES), *_FAULTS):
        value = shown(name, getattr(pool, name))
        yield Setting(label_of(name), value, acting_of(name, kind), is_mono=True)


def arguments_of(pool: Pool) -> Sequence[Setting]:
    """Every engine argument there is, those left to the engine among them."""
    if pool.provisioner == Provisioner.STATIC:
        return ()
    acting = acting_of("engine_arguments", pool.provisioner)
    given = pool.engine_arguments
    return [
        Setting(
            ENGINE_ARGUMENTS[name].flag if name in ENGINE_ARGUMENTS else name,
            argument_words(given[name]) if name in given else DEFAULTS.get(name, NOT_SET),
            acting,
            is_default=name not in given,
            is_mono=True,
            words=ENGINE_ARGUMENTS[name].help if name in ENGINE_ARGUMENTS else "",
        )
        for name in sorted({*given, *ENGINE_ARGUMENTS}, key=lambda one: (one not in given, one))
    ]


def last_applied(pool: Pool, fleet: Fleet | None) -> LastApplied:
    """Compare the pool as saved with the pool as those run it who should."""
    is_static = pool.provisioner == Provisioner.STATIC
    who = "the gateways" if is_static else "the supervisor"
    newest = get_newest_revision()
    if fleet is None or newest is None:
        return LastApplied(who, None, None, (), "the state store is not answering")
    oldest = _oldest(fleet.gateways if is_static else _leaders(fleet))
    if oldest is None:
        missing = "no gateway is running" if is_static else "no supervisor leads"
        return LastApplied(who, None, newest.version, (), missing)
    places = {(newest.lineage, newest.version), oldest}
    records = get_pool_records(pool, places)
    if oldest not in records:
        problem = f"version {oldest[1]}, which runs, is kept no longer"
        return LastApplied(who, oldest[1], newest.version, (), problem)
    lines = _differences(records[oldest], records.get((newest.lineage, newest.version)))
    return LastApplied(who, oldest[1], newest.version, lines)


def _leaders(fleet: Fleet) -> Sequence[Vitals]:
    return [one for one in fleet.vitals if one.role is ProcessRole.POOLS and one.is_leader]


def _oldest(records: Sequence[Vitals]) -> tuple[str, int] | None:
    applied = [
        (one.applied.lineage, one.applied.version)
        for one in records
        if one.applied.lineage is not None and one.applied.version is not None
    ]
    return min(applied, default=None)


def _differences(old: PoolRecord | None, new: PoolRecord | None) -> Sequence[Line]:
    """What differs between the pool that runs and the one that is saved."""
    names = [field.name for field in fields(PoolRecord) if field.name not in ("id",)]
    found = []
    for name in names:
        was, now = (None if one is None else getattr(one, name) for one in (old, new))
        if was != now:
            found.append(Line(label_of(name), _words(name, was, old), _words(name, now, new)))
    return found


def _words(name: str, value: object, record: PoolRecord | None) -> str | None:
    if record is None:
        return None
    if name == _SECRET:
        return NOT_SET if value is None else "set"
    return shown(name, list(value) if isinstance(value, tuple) else value)
