"""Rows to snapshot, and back for a roll-back: the single place where the two vocabularies meet.

Nothing is decided here and no clock is read: equal rows give equal bytes.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import msgspec

from controlplane.compiler.caches import cache_policies, live_purges
from controlplane.compiler.keys import keys_by_section, seconds_of
from controlplane.decisions.prices import ahead
from controlplane.models import (
    Budget,
    CatalogueModel,
    GatewaySetting,
    Limit,
    Organisation,
    Pool,
    Price,
    Route,
    RouteTarget,
    Switch,
)
from controlplane.models.keys import public_key_id
from inference.contract import codec, sealing
from inference.contract.kinds import (
    Accounting,
    Backend,
    BudgetAction,
    BudgetPeriod,
    BudgetSubject,
    DegradationStep,
    Endpoint,
    Enforcement,
    LimitSubject,
    LimitUnit,
    LimitWindow,
    PoolPower,
    Provisioner,
    Strategy,
    SwitchSubject,
    Task,
    TaskClass,
    TooLong,
    UnknownPrice,
)
from inference.contract.params import PRICE_FIELDS, TARGET_BOUNDS
from inference.contract.snapshot import (
    BudgetRecord,
    BudgetScope,
    CachePolicyRecord,
    ConfigSnapshot,
    GatewayRecord,
    LimitRecord,
    Manifest,
    ModelRecord,
    OrganisationRecord,
    PoolRecord,
    PriceRecord,
    RouteRecord,
    RuleRecord,
    SwitchRecord,
    TargetRecord,
)

Records = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled configuration: records and their bytes by section, and the bytes' digests."""

    records: Mapping[str, Records]
    contents: Mapping[str, bytes]
    digests: Mapping[str, str]

    def manifest(self, *, lineage: str, version: int, created_at: float) -> Manifest:
        return Manifest(lineage, version, self.digests, created_at)

    def snapshot(self, manifest: Manifest) -> ConfigSnapshot:
        """The value a gateway will hold of this manifest."""
        indexed = {name: codec.index_section(name, rows) for name, rows in self.records.items()}
        return codec.assemble(manifest, indexed)


def compile_configuration() -> Compiled:
    """Compile every row as the caller's transaction sees it."""
    records: dict[str, Records] = {
        "organisations": _sorted(_organisations()),
        "models": _sorted(_models()),
        "prices": _sorted(_prices()),
        "pools": _sorted(_pools()),
        "routes": _sorted(_routes()),
        "gateways": _sorted(_gateways()),
        "limits": _sorted(_limits()),
        "budgets": _sorted(map(budget_record, Budget.objects.all())),
        "switches": _sorted(_switches()),
        "caches": _sorted(cache_policies()),
        "purges": _sorted(live_purges()),
        **keys_by_section(),
    }
    contents = {name: codec.encode_section(rows) for name, rows in records.items()}
    digests = {name: sealing.content_digest(content) for name, content in contents.items()}
    return Compiled(records, contents, digests)


def _sorted(records: Iterable[Any]) -> Records:
    return tuple(sorted(records, key=lambda record: record.id))


def _organisations() -> Iterable[OrganisationRecord]:
    for row in Organisation.objects.all():
        yield OrganisationRecord(
            id=row.pk, name=row.name, is_enabled=row.is_enabled, time_zone=row.time_zone
        )


def _models() -> Iterable[ModelRecord]:
    for row in CatalogueModel.objects.all():
        yield ModelRecord(
            id=row.pk,
            organisation_id=row.organisation_id,
            name=row.name,
            task=Task(row.task),
            max_context_tokens=row.max_context_tokens,
        )


def _prices() -> Iterable[PriceRecord]:
    """Of each what was in force at its last edit and what begins later: time alone changes none."""
    for row in Price.objects.filter(removed_at__isnull=True).prefetch_related("versions"):
        for version in ahead(row.versions.all(), row.updated_at):
            yield PriceRecord(
                id=version.pk,
                organisation_id=row.organisation_id,
                model_id=row.model_id,
                pool_id=row.pool_id,
                effective_from=version.effective_from.timestamp(),
                **{name: getattr(version, name) for name in PRICE_FIELDS},
            )


def _pools() -> Iterable[PoolRecord]:
    for row in Pool.objects.all():
        yield PoolRecord(
            id=row.pk,
            organisation_id=row.organisation_id,
            name=row.name,
            model_id=row.model_id,
            provisioner=Provisioner(row.provisioner),
            backend=Backend(row.backend),
            served_model_name=row.served_model_name,
            power=PoolPower(row.power),
            replicas=row.replicas,
            addresses=tuple(row.addresses),
            credential=row.credential,
            model_source=row.model_source,
            engine_arguments=dict(row.engine_arguments),
            port_base=row.port_base,
            restart_generation=row.restart_generation,
            start_timeout_s=row.start_timeout_s,
            drain_timeout_s=row.drain_timeout_s,
            cordoned=tuple(row.cordoned),
            worker_restarts=dict(row.worker_restarts),
            worker_concurrency=row.worker_concurrency,
            breaker_failure_percent=row.breaker_failure_percent,
            breaker_min_requests=row.breaker_min_requests,
            breaker_open_ms=row.breaker_open_ms,
            panic_percent=row.panic_percent,
            endpoints=tuple(Endpoint(one) for one in row.endpoints),
        )


def _routes() -> Iterable[RouteRecord]:
    targets: dict[str, list[TargetRecord]] = defaultdict(list)
    for target in RouteTarget.objects.order_by("route_id", "position"):
        times = {name: getattr(target, name) for name in TARGET_BOUNDS}
        record = TargetRecord(target.pk, target.pool_id, target.weight, **times, tier=target.tier)
        targets[target.route_id].append(record)
    for row in Route.objects.all():
        yield RouteRecord(
            id=row.pk,
            organisation_id=row.organisation_id,
            name=row.name,
            targets=tuple(targets[row.pk]),
            strategy=Strategy(row.strategy),
            is_enabled=row.is_enabled,
            accounting=Accounting(row.accounting),
            default_max_output_tokens=row.default_max_output_tokens,
            max_attempts=row.max_attempts,
            connect_timeout_ms=row.connect_timeout_ms,
            first_byte_timeout_ms=row.first_byte_timeout_ms,
            idle_timeout_ms=row.idle_timeout_ms,
            total_timeout_ms=row.total_timeout_ms,
            retry_budget_percent=row.retry_budget_percent,
            max_wait_penalty=row.max_wait_penalty,
            keep_alive_ms=row.keep_alive_ms,
            aliases=tuple(row.aliases),
            rules=rules_of(row.rules),
            default_task=TaskClass(row.default_task),
            max_queue_wait_ms=row.max_queue_wait_ms,
            max_queued=row.max_queued,
            hedge_after_ms=row.hedge_after_ms,
            degradation=tuple(DegradationStep(step) for step in row.degradation),
            cache_policy_id=row.cache_policy_id,
            similarity_min=row.similarity_min,
        )


def rules_of(stored: object) -> tuple[RuleRecord, ...]:
    """The rules of a route as they are stored, or msgspec.ValidationError."""
    return msgspec.convert(stored, tuple[RuleRecord, ...])


def stored_rules(rules: Iterable[RuleRecord]) -> list[Any]:
    """Rules as a route's row stores them: plain JSON."""
    stored: list[Any] = _json(tuple(rules))
    return stored


def _json(value: object) -> Any:
    """A record as it comes back from a JSON column, so that equal ones compare as equal."""
    return msgspec.json.decode(msgspec.json.encode(value))


def _limits() -> Iterable[LimitRecord]:
    for row in Limit.objects.all():
        subject = LimitSubject(row.subject)
        yield LimitRecord(
            id=row.pk,
            organisation_id=row.organisation_id,
            name=row.name,
            subject=subject,
            unit=LimitUnit(row.unit),
            amount=row.amount,
            subject_id=_subject_id(row.subject_id, is_key=subject is LimitSubject.KEY),
            window=None if row.window is None else LimitWindow(row.window),
            enforcement=Enforcement(row.enforcement),
            is_enabled=row.is_enabled,
        )


def budget_record(row: Budget) -> BudgetRecord:
    """A budget as gateways read it."""
    return BudgetRecord(
        id=row.pk,
        organisation_id=row.organisation_id,
        name=row.name,
        scopes=tuple(map(_budget_scope, row.scopes)),
        amount_nanousd=row.amount_nanousd,
        period=BudgetPeriod(row.period),
        action=BudgetAction(row.action),
        unknown_price=UnknownPrice(row.unknown_price),
        grace_percent=row.grace_percent,
        raised_to_nanousd=row.raised_to_nanousd,
        raised_until=seconds_of(row.raised_until),
        is_enabled=row.is_enabled,
        is_rolling=row.is_rolling,
        grace_nanousd=row.grace_nanousd,
        too_long=TooLong(row.too_long),
        acts_at_percent=row.acts_at_percent,
        throttle_per_minute=row.throttle_per_minute,
        cheaper_model_id=row.cheaper_model,
    )


def _budget_scope(stored: Mapping[str, Any]) -> BudgetScope:
    subject = BudgetSubject(stored["subject"])
    is_key = subject is BudgetSubject.KEY
    return BudgetScope(subject, _subject_id(stored["subject_id"], is_key=is_key))


def _switches() -> Iterable[SwitchRecord]:
    for row in Switch.objects.all():
        subject = SwitchSubject(row.subject)
        yield SwitchRecord(
            id=row.pk,
            organisation_id=row.organisation_id,
            subject=subject,
            subject_id=_subject_id(row.subject_id, is_key=subject is SwitchSubject.KEY),
            reason=row.reason,
            expires_at=seconds_of(row.expires_at),
        )


def _subject_id(stored: str | None, *, is_key: bool) -> str | None:
    """A subject as gateways know it: keys go by their public id."""
    return public_key_id(stored) if stored and is_key else stored


def _gateways() -> Iterable[GatewayRecord]:
    for row in GatewaySetting.objects.all():
        yield GatewayRecord(
            id=row.name, restart_generation=row.restart_generation, is_drained=row.is_drained
        )


_NOT_COLUMNS = frozenset(("id", "organisation_id", "credential", "targets"))


def values_of_record(
    record: ModelRecord | PoolRecord | CachePolicyRecord | RouteRecord,
) -> dict[str, Any]:
    """The columns of the row a record was compiled from, but for its id and organisation.

    Parents are told as `<name>_id`. A pool's credential is left out: a secret isn't brought back.
    A route's targets are `target_values`.
    """
    return {
        field.name: _plain(getattr(record, field.name))
        for field in fields(record)
        if field.name not in _NOT_COLUMNS
    }


def target_values(record: RouteRecord) -> dict[str, dict[str, Any]]:
    """The columns of a route's targets by their ids, in order."""
    return {
        target.id: {
            "pool_id": target.pool_id,
            "weight": target.weight,
            "position": position,
            "tier": target.tier,
            **{name: getattr(target, name) for name in TARGET_BOUNDS},
        }
        for position, target in enumerate(record.targets)
    }


def _plain(value: object) -> object:
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): one for key, one in value.items()}
    if isinstance(value, tuple):
        return _json(value)
    return value
