"""What is wrong with a configuration: the publisher checks all of it, each gateway again.

A gateway checks section by section: `sections_to_check` names those a change can have broken, and
`steps_in_section` checks one of them against the whole snapshot's indexes, record by record.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from inference.contract.codec import noun_of
from inference.contract.kinds import Provisioner
from inference.contract.params import (
    MAX_REPLICAS,
    MAX_TAGS,
    NAME_PATTERN,
    POOL_BOUNDS,
    PRICE_FIELDS,
    ROUTE_NAME_PATTERN,
    TAG_PATTERN,
)
from inference.contract.sealing import key_bucket
from inference.contract.snapshot import (
    ConfigSnapshot,
    KeyRecord,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    PriceRecord,
)
from inference.contract.wire import section_names
from inference.decisions.cache_problems import cache_problems, purge_problems
from inference.decisions.egress import problem_with_address
from inference.decisions.endpoints import OFFERS, PATHS
from inference.decisions.engine import problems_with
from inference.decisions.experiment_problems import experiment_problems
from inference.decisions.problems import (
    Finding,
    Host,
    Problem,
    is_label,
    named,
    organisation_findings,
    out_of_bounds,
)
from inference.decisions.prompt_problems import prompt_problems
from inference.decisions.route_problems import route_problems
from inference.decisions.traffic_problems import budget_problems, limit_problems, switch_problems

__all__ = [
    "Host",
    "Problem",
    "problems_in",
    "problems_in_section",
    "sections_to_check",
    "steps_in_section",
]

MAX_PRICE_NANOUSD_PER_MTOK = 10**17
"""A hundred dollars a token: nobody means that. What is unusual is asked about in an edit."""
MAX_PRICE_NANOUSD_PER_REQUEST = 10**13
"""Ten thousand dollars for one request."""

MAX_ADDRESSES = 1_000
_LAST_PORT = 65_535
_FIRST_FREE_PORT = 1_024

_DIGEST = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(NAME_PATTERN)
_ROUTE_NAME = re.compile(ROUTE_NAME_PATTERN)
_TAG = re.compile(TAG_PATTERN)

_Check = Callable[[ConfigSnapshot, str, Host], Iterator[Problem | None]]

_REFERS_TO: Mapping[str, frozenset[str]] = {
    "organisations": frozenset(),
    "models": frozenset(("organisations",)),
    "prices": frozenset(("organisations", "models", "pools")),
    "pools": frozenset(("organisations", "models")),
    "routes": frozenset(("organisations", "pools", "caches")),
    "keys": frozenset(("organisations",)),
    "gateways": frozenset(),
    "limits": frozenset(("organisations",)),
    "budgets": frozenset(("organisations",)),
    "switches": frozenset(("organisations",)),
    "caches": frozenset(("organisations",)),
    "purges": frozenset(("organisations",)),
    "experiments": frozenset(("organisations", "pools", "routes", "caches", "prompts")),
    "prompts": frozenset(("organisations",)),
}


def problems_in(
    snapshot: ConfigSnapshot,
    *,
    own_ports: frozenset[int] = frozenset(),
    allow_remote_code: bool = False,
    allow_fake_workers: bool = False,
) -> tuple[Problem, ...]:
    """Return every problem of a whole snapshot; an empty tuple means it may be served."""
    host = Host(own_ports, allow_remote_code, allow_fake_workers)
    return tuple(
        problem
        for name in section_names(tuple(snapshot.keys))
        for problem in problems_in_section(snapshot, name, host)
    )


def problems_in_section(snapshot: ConfigSnapshot, name: str, host: Host) -> tuple[Problem, ...]:
    """Return the problems of one section's records, their references included."""
    steps = steps_in_section(snapshot, name, host)
    return tuple(problem for problem in steps if problem is not None)


def steps_in_section(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    """The same one after the other, with None after each record.

    So a process that serves can stop for a moment in a check of thousands of them.
    """
    return _CHECKS[noun_of(name)](snapshot, name, host)


def sections_to_check(changed: Iterable[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return those of `names` that are in `changed` or refer to something that is."""
    touched = set(changed)
    nouns = {noun_of(name) for name in touched}
    return tuple(
        name for name in names if name in touched or not nouns.isdisjoint(_REFERS_TO[noun_of(name)])
    )


def _organisation_problems(
    snapshot: ConfigSnapshot, name: str, host: Host
) -> Iterator[Problem | None]:
    for organisation in snapshot.organisations.values():
        yield from named(name, organisation.id, _findings_in_organisation(organisation))


def _findings_in_organisation(organisation: OrganisationRecord) -> Iterator[Finding]:
    if not is_label(organisation.name):
        yield "name", "invalid", "A name is 1 to 255 printable characters."
    if not is_label(organisation.time_zone):
        yield "time_zone", "invalid", "It is a time zone such as Europe/Berlin."


def _model_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    taken = _names_taken_twice(snapshot.models.values())
    for model in snapshot.models.values():
        yield from named(name, model.id, _findings_in_model(snapshot, model))
        if (model.organisation_id, model.name) in taken:
            yield _duplicate_name(name, model.id)


def _findings_in_model(snapshot: ConfigSnapshot, model: ModelRecord) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, model.organisation_id)
    if not _ROUTE_NAME.fullmatch(model.name):
        yield "name", "invalid", f"A model's name must match {ROUTE_NAME_PATTERN}."
    if model.max_context_tokens is not None and model.max_context_tokens < 1:
        yield "max_context_tokens", "out_of_range", "It must be at least 1."


def _price_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    for price in snapshot.prices.values():
        yield from named(name, price.id, _findings_in_price(snapshot, price))


def _findings_in_price(snapshot: ConfigSnapshot, price: PriceRecord) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, price.organisation_id)
    yield from _model_findings(snapshot, price.model_id, price.organisation_id)
    if price.pool_id is not None and price.pool_id not in snapshot.pools:
        yield "pool_id", "unknown", "There is no such pool."
    if (price.input_nanousd_per_mtok is None) != (price.output_nanousd_per_mtok is None):
        yield "output_nanousd_per_mtok", "invalid", "A price is of input and output, or of neither."
    for field in PRICE_FIELDS:
        amount = getattr(price, field)
        if amount is None:
            continue
        if amount < 0:
            yield field, "out_of_range", "A price can't be negative."
        elif field == "request_nanousd":
            if amount > MAX_PRICE_NANOUSD_PER_REQUEST:
                yield field, "out_of_range", "A price can't be above $10,000 a request."
        elif amount > MAX_PRICE_NANOUSD_PER_MTOK:
            yield field, "out_of_range", "A price can't be above $100 a token."


def _pool_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    pools = snapshot.pools.values()
    taken = _names_taken_twice(pools)
    for pool in pools:
        yield from named(name, pool.id, _findings_in_pool(snapshot, pool, host))
        if (pool.organisation_id, pool.name) in taken:
            yield _duplicate_name(name, pool.id)
    yield from _overlaps(name, pools)


def _findings_in_pool(snapshot: ConfigSnapshot, pool: PoolRecord, host: Host) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, pool.organisation_id)
    yield from _model_findings(snapshot, pool.model_id, pool.organisation_id)
    if not _NAME.fullmatch(pool.name):
        yield "name", "invalid", f"A pool's name must match {NAME_PATTERN}."
    yield from _bounds_of_pool(pool)
    if pool.provisioner is Provisioner.PROCESS:
        yield from _port_findings(pool, host.own_ports)
        yield from problems_with(pool, host.allow_remote_code)
    elif not is_label(pool.served_model_name):
        yield "served_model_name", "invalid", "It is 1 to 255 printable characters."
    if pool.provisioner is Provisioner.FAKE and not host.allow_fake_workers:
        message = "The host does not allow this; see HEADWORKS_ALLOW_FAKE_WORKERS."
        yield "provisioner", "not_allowed", message
    if pool.provisioner is Provisioner.STATIC:
        yield from _address_findings(pool, host.own_ports)
    yield from _endpoint_findings(pool)


def _bounds_of_pool(pool: PoolRecord) -> Iterator[Finding]:
    yield from out_of_bounds(pool, POOL_BOUNDS)
    for position, ordinal in enumerate(pool.cordoned):
        if not 0 <= ordinal < MAX_REPLICAS:
            message = f"A worker's number is between 0 and {MAX_REPLICAS - 1:,}."
            yield f"cordoned.{position}", "out_of_range", message
    for number, generation in pool.worker_restarts.items():
        if not number.isdigit() or generation < 0:
            yield f"worker_restarts.{number}", "invalid", "It is a worker's number and a count."


def _address_findings(pool: PoolRecord, own_ports: frozenset[int]) -> Iterator[Finding]:
    if not pool.addresses:
        yield "addresses", "required", "A static pool needs at least one address."
    if len(pool.addresses) > MAX_ADDRESSES:
        yield "addresses", "out_of_range", f"A pool has at most {MAX_ADDRESSES:,} addresses."
    for position, address in enumerate(pool.addresses):
        problem = problem_with_address(address, own_ports)
        if problem is None and "?" in address:
            problem = "may not carry a query"
        if problem is not None:
            yield f"addresses.{position}", "forbidden_address", f"The address {problem}."
        if address in pool.addresses[:position]:
            yield f"addresses.{position}", "duplicate", "The address is listed twice."


def _endpoint_findings(pool: PoolRecord) -> Iterator[Finding]:
    if pool.endpoints and pool.provisioner is not Provisioner.STATIC:
        yield "endpoints", "not_allowed", "Only those of a static pool can be named."
    for position, endpoint in enumerate(pool.endpoints):
        if endpoint not in OFFERS[pool.backend]:
            message = f"A backend {pool.backend.value} has no {PATHS[endpoint]}."
            yield f"endpoints.{position}", "not_allowed", message
        if endpoint in pool.endpoints[:position]:
            yield f"endpoints.{position}", "duplicate", "The endpoint is listed twice."


def _port_findings(pool: PoolRecord, own_ports: frozenset[int]) -> Iterator[Finding]:
    ports = _ports(pool)
    if not ports:
        return
    if ports.start < _FIRST_FREE_PORT or ports.stop - 1 > _LAST_PORT:
        yield (
            "port_base",
            "out_of_range",
            f"Ports of workers must be between {_FIRST_FREE_PORT:,} and {_LAST_PORT:,}.",
        )
    for port in sorted(own_ports):
        if port in ports:
            yield "port_base", "overlap", f"Port {port} belongs to this installation."


def _ports(pool: PoolRecord) -> range:
    """The ports the pool's workers listen on; empty when the supervisor picks them."""
    if pool.port_base is None or pool.provisioner is not Provisioner.PROCESS:
        return range(0)
    return range(pool.port_base, pool.port_base + pool.replicas)


def _overlaps(section: str, pools: Iterable[PoolRecord]) -> Iterator[Problem]:
    """Yield both pools of an overlap, neither naming the other: it may belong to a stranger."""
    placed = sorted((pool for pool in pools if _ports(pool)), key=lambda pool: _ports(pool).start)
    found: set[str] = set()
    furthest: PoolRecord | None = None
    for pool in placed:
        if furthest is not None and _ports(pool).start < _ports(furthest).stop:
            found |= {pool.id, furthest.id}
        if furthest is None or _ports(pool).stop > _ports(furthest).stop:
            furthest = pool
    for pool_id in sorted(found):
        message = "Another pool's workers have some of these ports."
        yield Problem(section, pool_id, "port_base", "overlap", message)


def _gateway_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    for gateway in snapshot.gateways.values():
        if not is_label(gateway.id):
            yield Problem(name, gateway.id, "id", "invalid", "It is 1 to 255 printable characters.")
        if gateway.restart_generation < 0:
            message = "It can't be negative."
            yield Problem(name, gateway.id, "restart_generation", "out_of_range", message)


def _key_problems(snapshot: ConfigSnapshot, name: str, host: Host) -> Iterator[Problem | None]:
    bucket = name.partition("/")[2]
    for key in snapshot.keys[bucket].values():
        yield from named("keys", key.id, _findings_in_key(snapshot, key, bucket))


def _findings_in_key(snapshot: ConfigSnapshot, key: KeyRecord, bucket: str) -> Iterator[Finding]:
    yield from organisation_findings(snapshot, key.organisation_id)
    if key_bucket(key.id) != bucket:
        yield "id", "invalid", "The key is in a section where no gateway looks for it."
    for position, digest in enumerate(key.digests):
        if not _DIGEST.fullmatch(digest.digest):
            message = "A digest is 64 lower-case hexadecimal digits."
            yield f"digests.{position}.digest", "invalid", message
        if digest.pepper_version < 1:
            yield f"digests.{position}.pepper_version", "out_of_range", "It must be at least 1."
    if len(key.tags) > MAX_TAGS:
        yield "tags", "out_of_range", f"A key has at most {MAX_TAGS} tags."
    for position, tag in enumerate(key.tags):
        if not _TAG.fullmatch(tag):
            yield f"tags.{position}", "invalid", f"A tag must match {TAG_PATTERN}."


def _model_findings(
    snapshot: ConfigSnapshot, model_id: str, organisation_id: str
) -> Iterator[Finding]:
    model = snapshot.models.get(model_id)
    if model is None:
        yield "model_id", "unknown", "There is no such model."
    elif model.organisation_id != organisation_id:
        yield "model_id", "foreign", "The model belongs to another organisation."


def _names_taken_twice(records: Iterable[ModelRecord | PoolRecord]) -> set[tuple[str, str]]:
    counts = Counter((record.organisation_id, record.name) for record in records)
    return {name for name, count in counts.items() if count > 1}


def _duplicate_name(section: str, record_id: str) -> Problem:
    return Problem(section, record_id, "name", "duplicate", "The organisation has this name twice.")


_CHECKS: Mapping[str, _Check] = {
    "organisations": _organisation_problems,
    "models": _model_problems,
    "prices": _price_problems,
    "pools": _pool_problems,
    "routes": route_problems,
    "keys": _key_problems,
    "gateways": _gateway_problems,
    "limits": limit_problems,
    "budgets": budget_problems,
    "switches": switch_problems,
    "caches": cache_problems,
    "purges": purge_problems,
    "experiments": experiment_problems,
    "prompts": prompt_problems,
}
