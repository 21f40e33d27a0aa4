"""Versions of the configuration: compile, check, store, and publish once it's committed.

One advisory lock makes edits of the configuration one after another: whoever gets the later
version has compiled the earlier edit with it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import structlog
from django.conf import settings
from django.db import connection, transaction

from controlplane.bridge import publisher
from controlplane.bridge.epochs import Others, advice_if_behind, read_others
from controlplane.compiler import Compiled, compile_configuration
from controlplane.decisions.epochs import Position
from controlplane.errors import Conflict, DatabaseBehind, Invalid, ProblemsFound
from controlplane.identifiers import new_ulid
from controlplane.models import ConfigRevision, ConfigSection, Installation
from controlplane.redaction import scrub_text
from controlplane.services.actors import Actor
from inference.contract import codec
from inference.contract.codec import noun_of
from inference.contract.snapshot import ConfigSnapshot
from inference.decisions.validation import Problem, problems_in

CONFIGURATION_LOCK = 0x48574346
"""Key of the advisory lock of configuration edits ("HWCF"), the same for every process."""

_others: ContextVar[Others | None] = ContextVar("others_of_an_edit", default=None)
_postponed: ContextVar["Postponed | None"] = ContextVar("postponed_edits", default=None)

log = structlog.get_logger(__name__)


@dataclass(slots=True)
class Postponed:
    """Edits that are staged together: ids of their records in the snapshot, and whose they are."""

    subjects: list[str] = field(default_factory=list)
    organisations: set[str] = field(default_factory=set)


@contextmanager
def staged_once(actor: Actor, reason: str) -> Iterator[Postponed]:
    """Edits made inside, of one organisation, become one version; all of them or none.

    What is yielded grows as they are made. Raises ProblemsFound, whose fields name each record by
    its section.
    """
    with configuration_edit():
        postponed = Postponed()
        token = _postponed.set(postponed)
        try:
            yield postponed
        finally:
            _postponed.reset(token)
        if len(postponed.organisations) > 1:
            raise Invalid("These edits are of several organisations; make them one by one.")
        for organisation_id in postponed.organisations:
            stage(actor, reason, organisation_id=organisation_id)


def stage_or_postpone(actor: Actor, reason: str, *, organisation_id: str, subject_id: str) -> None:
    """Stage an edit, or leave that to the end of the `staged_once` it is made in."""
    postponed = _postponed.get()
    if postponed is None:
        stage(actor, reason, organisation_id=organisation_id, subject_id=subject_id)
    else:
        postponed.subjects.append(subject_id)
        postponed.organisations.add(organisation_id)


@contextmanager
def configuration_edit() -> Iterator[None]:
    """A transaction in which nobody else edits the configuration.

    The store is asked before the lock, or all edits would queue behind one that waits for it. What
    it held a moment ago will do: versions of the database only grow meanwhile.
    """
    token = _others.set(_others.get() or read_others())
    try:
        with transaction.atomic():
            _take_lock()
            yield
    finally:
        _others.reset(token)


def _take_lock() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CONFIGURATION_LOCK])


def stage(
    actor: Actor,
    reason: str,
    *,
    organisation_id: str | None = None,
    subject_id: str | None = None,
) -> ConfigRevision:
    """Make the rows of this transaction the next version, to be published when it commits.

    `organisation_id` and `subject_id` say whose edit it is and of which record. Returns the
    current version if the data plane would see no difference. Raises ProblemsFound or, while
    somebody holds a newer configuration than the database, DatabaseBehind; with either, the
    caller's transaction is to be rolled back.
    """
    if not connection.in_atomic_block:
        raise RuntimeError("a snapshot is staged inside the transaction of its edit")
    others = _others.get() or read_others()
    _take_lock()
    compiled = compile_configuration()
    latest = ConfigRevision.objects.order_by("-id").first()
    if latest is not None and latest.manifest == dict(compiled.digests):
        return latest
    lineage = get_or_create_lineage()
    version = latest.version + 1 if latest is not None and latest.lineage == lineage else 1
    if latest is not None:
        _refuse_behind((latest.lineage, latest.version), others)
    _refuse_problems(compiled, lineage, version, organisation_id, subject_id)
    known = set() if latest is None else set(latest.manifest.values())
    _check_legible(compiled, known)
    _store_sections(compiled, known)
    return _add_revision(actor, reason, compiled, (lineage, version), organisation_id)


def stage_at(actor: Actor, reason: str, position: Position) -> ConfigRevision:
    """Make the rows of this transaction the version at this place in history, whatever was before.

    For a database that was put back: its configuration begins a lineage of its own. Raises
    ProblemsFound like `stage`.
    """
    _take_lock()
    compiled = compile_configuration()
    _refuse_problems(compiled, *position, None, None)
    _check_legible(compiled, set())
    _store_sections(compiled, set())
    Installation.objects.update_or_create(pk=1, defaults={"lineage": position[0]})
    return _add_revision(actor, reason, compiled, position, None)


def _add_revision(
    actor: Actor,
    reason: str,
    compiled: Compiled,
    position: Position,
    organisation_id: str | None,
) -> ConfigRevision:
    lineage, version = position
    revision = ConfigRevision.objects.create(
        lineage=lineage,
        version=version,
        manifest=dict(compiled.digests),
        organisation_id=organisation_id,
        actor_kind=actor.kind.value,
        actor_id=actor.id,
        actor_label=scrub_text(actor.label),
        reason=scrub_text(reason),
        request_id=actor.request_id,
    )
    transaction.on_commit(publisher.publish, robust=True)
    return revision


def stage_current(actor: Actor) -> ConfigRevision | None:
    """See that the newest version is what the rows are now, and that there is one at all.

    A gateway of an empty installation can't start without one, and a new release may have changed
    rows that gateways refuse as they were. Where that can't be done now, it's logged and the
    version stays that there is: pages must come up for somebody to mend it.
    """
    latest = ConfigRevision.objects.order_by("-id").first()
    try:
        with configuration_edit():
            return stage(actor, "first start" if latest is None else "brought up to this release")
    except (DatabaseBehind, Invalid) as error:
        log.error("configuration not staged", why=error.detail, fields=sorted(error.fields))
    return latest


def get_or_create_lineage() -> str:
    """The lineage of this database's versions, made with the first of them; greater is newer."""
    row, _ = Installation.objects.get_or_create(pk=1, defaults={"lineage": new_ulid()})
    return row.lineage


def _refuse_behind(ours: Position, others: Others) -> None:
    """Raise DatabaseBehind rather than give a number twice, of which gateways know one content."""
    advice = advice_if_behind(ours, others)
    if advice is not None:
        raise DatabaseBehind(f"Nothing can be edited now: {advice}.")


def _refuse_problems(
    compiled: Compiled,
    lineage: str,
    version: int,
    organisation_id: str | None,
    subject_id: str | None,
) -> None:
    manifest = compiled.manifest(lineage=lineage, version=version, created_at=0.0)
    snapshot = compiled.snapshot(manifest)
    problems = problems_in(
        snapshot,
        own_ports=settings.HEADWORKS.reserved_ports,
        allow_remote_code=settings.HEADWORKS.allow_remote_code,
        allow_fake_workers=settings.HEADWORKS.allow_fake_workers,
    )
    if not problems:
        return
    owners = _owners(snapshot)
    own = [
        problem
        for problem in problems
        if organisation_id is None
        or owners.get((noun_of(problem.section), problem.record_id)) == organisation_id
    ]
    if own:
        raise ProblemsFound(own, subject_id=subject_id)
    log.error("another organisation's configuration is not valid", problems=_named(problems))
    raise Conflict("Another organisation's configuration isn't valid on this host.")


def _owners(snapshot: ConfigSnapshot) -> dict[tuple[str, str], str]:
    """The organisation of every record a problem may name."""
    owners = {("organisations", one): one for one in snapshot.organisations}
    sections = {
        "models": snapshot.models.values(),
        "prices": snapshot.prices.values(),
        "pools": snapshot.pools.values(),
        "routes": snapshot.routes.values(),
        "limits": snapshot.limits.values(),
        "budgets": snapshot.budgets.values(),
        "switches": snapshot.switches.values(),
        "caches": snapshot.cache_policies.values(),
        "purges": snapshot.purges.values(),
    }
    for noun, records in sections.items():
        owners.update({(noun, record.id): record.organisation_id for record in records})
    for bucket in snapshot.keys.values():
        owners.update({("keys", key.id): key.organisation_id for key in bucket.values()})
    return owners


def _named(problems: tuple[Problem, ...]) -> list[str]:
    return [f"{one.section}/{one.record_id}.{one.field}: {one.code}" for one in problems]


def _check_legible(compiled: Compiled, known: set[str]) -> None:
    """Read what is new as a gateway will: one that can't would keep every later version out."""
    for name, content in compiled.contents.items():
        if compiled.digests[name] in known:
            continue
        try:
            codec.decode_section(name, content)
        except codec.CodecError as error:
            raise Invalid(f"No gateway could read the section {name}.") from error


def _store_sections(compiled: Compiled, known: set[str]) -> None:
    """Store the contents the version before didn't have; most edits have one."""
    ConfigSection.objects.bulk_create(
        [
            ConfigSection(digest=compiled.digests[name], content=content)
            for name, content in compiled.contents.items()
            if compiled.digests[name] not in known
        ],
        ignore_conflicts=True,
    )
