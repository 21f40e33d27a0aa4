"""Roll-back: rows of one organisation put back to how a version had them, as a new edit.

Keys, prices, limits, budgets, switches, secrets and all else stay as they are now: a revocation is
final, a price decided what requests cost, and what was turned off in need isn't turned on unasked.
So rows and snapshot can't differ afterwards.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import F

from controlplane.compiler import target_values, values_of_record
from controlplane.errors import Conflict, InUse, Invalid, VersionMismatch
from controlplane.models import (
    CachePolicy,
    CatalogueModel,
    ConfigRevision,
    Organisation,
    Pool,
    Route,
    RouteTarget,
)
from controlplane.models.routes import ROUTE_CACHE_BOUNDS
from controlplane.models.rows import VersionedRow
from controlplane.selectors.snapshots import get_newest_revision, get_records, get_revision_of
from controlplane.services import edits, rows, snapshots
from controlplane.services.actors import Actor
from controlplane.services.caches import told_policy
from controlplane.services.pool_workers import grown
from controlplane.services.pools import routes_that_use
from controlplane.services.route_rules import lost_of, parents_of, with_told_rules
from controlplane.services.route_targets import told_targets
from controlplane.services.subjects import remove_what_names
from inference.contract.params import (
    CACHE_BOUNDS,
    POOL_BOUNDS,
    ROUTE_BOUNDS,
    TARGET_BOUNDS,
    Bound,
)

KINDS: Mapping[str, type[VersionedRow]] = {
    "models": CatalogueModel,
    "pools": Pool,
    "caches": CachePolicy,
    "routes": Route,
}
"""What can be put back, parents before what refers to them."""

BOUNDS: Mapping[str, Mapping[str, Bound]] = {
    "pools": POOL_BOUNDS,
    "caches": CACHE_BOUNDS,
    "routes": {**ROUTE_BOUNDS, **ROUTE_CACHE_BOUNDS},
}
"""Within what numbers of a kind must be."""

_UNTOLD: Mapping[str, Mapping[str, Any]] = {"caches": {"false_hits_max_percent": None}}
"""What no version tells, of a row that is made again: nothing that acts unasked."""

_ONE = {"models": "Model", "pools": "Pool", "caches": "Cache policy", "routes": "Route"}


@dataclass(frozen=True, slots=True)
class Restored:
    """What came of a roll-back. `warnings` say in words what could not come back with the rows."""

    revision: ConfigRevision
    is_changed: bool
    warnings: tuple[str, ...]


@dataclass(slots=True)
class _Rows:
    """One noun's rows: those there are, and the columns the version had, by id."""

    noun: str
    present: dict[str, Any]
    wanted: dict[str, dict[str, Any]]
    targets: dict[str, dict[str, dict[str, Any]]]
    warnings: list[str]

    def gone_since(self) -> list[str]:
        return [pk for pk in self.wanted if pk not in self.present]

    def made_since(self) -> list[Any]:
        return [row for pk, row in self.present.items() if pk not in self.wanted]


def restore(
    actor: Actor,
    *,
    organisation: Organisation,
    version: int,
    nouns: Collection[str],
    reason: str,
    expected_version: int | None = None,
) -> Restored:
    """Put the organisation's rows of these nouns back to what they were in a version.

    Rows that are gone are made again with their old ids, rows made since are removed, others get
    their old values; a pool keeps its present credential and counts of restarts. It is one edit
    with one audit entry a row, staged like any. Raises NotFound (no such version), Invalid,
    ProblemsFound, VersionMismatch when an edit of the organisation's made a version after
    `expected_version`, Conflict when something the old rows refer to is gone, or InUse naming what
    depends on a row made since.
    """
    _check_nouns(nouns)
    actor = replace(actor, reason=reason)
    revision = get_revision_of(version)
    records = get_records(revision, organisation.pk)
    with snapshots.configuration_edit():
        before = get_newest_revision()
        if expected_version is not None:
            _refuse_moved(organisation, expected_version)
        chosen = [_read(noun, organisation, records) for noun in KINDS if noun in nouns]
        for one in chosen:
            _park_names(one)
        warnings = [
            text for one in chosen for text in (*one.warnings, *_put_back(actor, organisation, one))
        ]
        for one in reversed(chosen):
            _remove_later_ones(actor, one)
        text = reason or f"restore {', '.join(one.noun for one in chosen)} of version {version}"
        staged = snapshots.stage(actor, text, organisation_id=organisation.pk)
    return Restored(staged, before is None or staged.pk != before.pk, tuple(warnings))


def _refuse_moved(organisation: Organisation, expected_version: int) -> None:
    """Raise VersionMismatch if the organisation was edited after that version.

    Versions count up across organisations, and what others do is no reason to look again.
    """
    rows_of = ConfigRevision.objects.filter(organisation_id=organisation.pk)
    newest = rows_of.order_by("-id").values_list("version", flat=True).first()
    if newest is not None and newest > expected_version:
        raise VersionMismatch(newest)


def _check_nouns(nouns: Collection[str]) -> None:
    unknown = sorted(set(nouns) - set(KINDS))
    if unknown or not nouns:
        raise Invalid.field("nouns", f"Choose from {', '.join(KINDS)}.")


def _read(noun: str, organisation: Organisation, records: Mapping[str, Mapping[str, Any]]) -> _Rows:
    found = KINDS[noun]._default_manager.select_for_update().filter(organisation=organisation)
    old = records.get(noun, {})
    one = _Rows(
        noun,
        {row.pk: row for row in found.order_by("pk")},
        {pk: values_of_record(record) for pk, record in old.items()},
        {pk: target_values(record) for pk, record in old.items()} if noun == "routes" else {},
        [],
    )
    for pk, values in one.wanted.items():
        what = f"{_ONE[noun]} {values['name']}"
        one.warnings += _bring_within(BOUNDS.get(noun, {}), values, what)
        for number, target in enumerate(one.targets.get(pk, {}).values(), 1):
            one.warnings += _bring_within(TARGET_BOUNDS, target, f"{what}, target {number}")
    return one


def _bring_within(bounds: Mapping[str, Bound], values: dict[str, Any], what: str) -> list[str]:
    """Bring numbers that an older release let be within today's bounds; says which, in words."""
    said = []
    for name, bound in bounds.items():
        value = values.get(name)
        if value is None or bound.problem_with(value) is None:
            continue
        most = bound.minimum if value < bound.minimum or bound.maximum is None else bound.maximum
        values[name] = float(most) if isinstance(value, float) else int(most)
        label = name.replace("_", " ")
        said.append(f"{what}: {label} was {value:,} and is {most:,} now. {bound.words}")
    return said


def _park_names(one: _Rows) -> None:
    """Free the names that change hands: until all are written, their holders are named by id.

    The rows in hand keep the names people know, for the audit trail and for messages.
    """
    leaving = [
        pk
        for pk, row in one.present.items()
        if pk not in one.wanted or one.wanted[pk]["name"] != row.name
    ]
    KINDS[one.noun]._default_manager.filter(pk__in=leaving).update(name=F("id"))


def _put_back(actor: Actor, organisation: Organisation, one: _Rows) -> list[str]:
    _refuse_lost_parents(organisation, one)
    warnings = []
    for pk in one.gone_since():
        values = {**one.wanted[pk], **_UNTOLD.get(one.noun, {})}
        row = rows.insert(KINDS[one.noun](id=pk, organisation=organisation, **values))
        told = _place_targets(row, one.targets.get(pk))
        edits.note(actor, "restore", one.noun, row, after=_told(row, told[1]))
        warnings += _warnings_of(row)
    for pk, values in one.wanted.items():
        if pk in one.present:
            _change_back(actor, one, one.present[pk], values)
        for lost in lost_of(organisation.pk, values["rules"]) if one.noun == "routes" else ():
            warnings.append(f"Route {values['name']} has a rule that names {lost}, which is gone.")
    return warnings


def _change_back(actor: Actor, one: _Rows, row: Any, values: Mapping[str, Any]) -> None:
    values = dict(values)
    if isinstance(row, Pool):
        # they only grow: an older one would be no restart, and a later edit could repeat it
        values["restart_generation"] = max(row.restart_generation, values["restart_generation"])
        values["worker_restarts"] = grown(row.worker_restarts, values["worker_restarts"])
    told_before, told_after = _place_targets(row, one.targets.get(row.pk))
    changed = rows.change(row, values, touch=told_before != told_after)
    if changed is not None:
        before, after = map(_in_words, changed)
        if told_before != told_after:
            before, after = {**before, **told_before}, {**after, **told_after}
        edits.note(actor, "restore", one.noun, row, before=before, after=after)


def _told(row: Any, more: Mapping[str, Any]) -> dict[str, Any]:
    """A row that comes or goes, as audited."""
    return {**_in_words(edits.values_of(row)), **more}


def _in_words(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values with their rules and conditions as the audit trail tells them."""
    return told_policy(with_told_rules(values))


def _refuse_lost_parents(organisation: Organisation, one: _Rows) -> None:
    """Raise Conflict if the old rows refer to a model or pool that is gone and not chosen."""
    if one.noun == "pools":
        asked = {values["model_id"] for values in one.wanted.values()}
        there = organisation.models.filter(pk__in=asked)
        _refuse_lost("models", asked, set(there.values_list("pk", flat=True)))
    if one.noun == "routes":
        asked = {to["pool_id"] for targets in one.targets.values() for to in targets.values()}
        for values in one.wanted.values():
            asked |= {pk for kind, pk in parents_of(values["rules"]) if kind == "pools"}
        there = organisation.pools.filter(pk__in=asked)
        _refuse_lost("pools", asked, set(there.values_list("pk", flat=True)))
        kept = {values["cache_policy_id"] for values in one.wanted.values()} - {None}
        policies = organisation.cache_policies.filter(pk__in=kept)
        _refuse_lost("caches", kept, set(policies.values_list("pk", flat=True)))


def _refuse_lost(noun: str, asked: set[str], there: set[str]) -> None:
    lost = sorted(asked - there)
    if lost:
        message = f"Restore {noun} too: {', '.join(lost[:10])} is gone since."
        raise Conflict(f"What these rows refer to is gone: {noun}.", fields={"nouns": [message]})


def _place_targets(
    row: Any, wanted: Mapping[str, dict[str, Any]] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Make a route's targets the wanted ones; returns them before and after, as audited."""
    if wanted is None:
        return {}, {}
    before = told_targets(row)
    RouteTarget.objects.filter(route=row).exclude(pk__in=list(wanted)).delete()
    for pk, values in wanted.items():
        home = {"organisation_id": row.organisation_id, "route": row}
        RouteTarget.objects.update_or_create(pk=pk, defaults=values, create_defaults=home | values)
    return {"targets": before}, {"targets": told_targets(row)}


def _remove_later_ones(actor: Actor, one: _Rows) -> None:
    for row in one.made_since():
        _refuse_if_used(row)
        told = {"targets": told_targets(row)} if isinstance(row, Route) else {}
        before = _told(row, told)
        subject = one.noun.removesuffix("s")
        remove_what_names(actor, row.organisation_id, subject, [row.pk])
        rows.remove(row)
        edits.note(actor, "delete", one.noun, row, before=before)


def _refuse_if_used(row: Any) -> None:
    """Raise InUse if something that is not put back depends on a row made since."""
    if isinstance(row, Pool):
        _refuse_users(f"Pool {row.name}", "routes", routes_that_use(row))
    if isinstance(row, CachePolicy):
        names = row.routes.order_by("name").values_list("name", flat=True)
        _refuse_users(f"Cache policy {row.name}", "routes", list(names))
    if isinstance(row, CatalogueModel):
        names = row.pools.order_by("name").values_list("name", flat=True)
        _refuse_users(f"Model {row.name}", "pools", list(names))
        prices = row.prices.filter(removed_at__isnull=True).values_list("pk", flat=True)
        _refuse_users(f"Model {row.name}", "prices", list(prices))


def _refuse_users(what: str, noun: str, names: list[str]) -> None:
    if names:
        raise InUse.by(what, noun, names)


def _warnings_of(row: Any) -> list[str]:
    if isinstance(row, Pool):
        return [f"Pool {row.name} came back without a credential; give it one if it needs one."]
    if isinstance(row, CatalogueModel):
        return [f"Model {row.name} came back without a price."]
    if isinstance(row, CachePolicy):
        told = "came back without a most of false hits: no threshold rises by itself."
        return [f"Cache policy {row.name} {told}"]
    return []
