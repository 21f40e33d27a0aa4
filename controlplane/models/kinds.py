"""The data plane's vocabularies as choices; callable, so that a new kind needs no migration."""

from enum import StrEnum

from controlplane.decisions.alert_kinds import (
    AlertKind,
    AlertScope,
    ChannelKind,
    DeliveryKind,
    DeliveryState,
    EpisodeState,
    NoData,
    Severity,
)
from controlplane.decisions.budgets import BudgetState
from controlplane.decisions.gpu_costs import CapacityClass
from controlplane.decisions.report_kinds import (
    Cadence,
    ExportFormat,
    ExportState,
    ReportPart,
    StatementState,
)
from controlplane.decisions.rollups import DIMENSIONS, NAMED
from inference.contract.kinds import (
    Accounting,
    Backend,
    BudgetAction,
    BudgetPeriod,
    BudgetSubject,
    CacheOutcome,
    CacheScope,
    CacheTier,
    DegradationStep,
    Endpoint,
    Enforcement,
    LimitSubject,
    LimitUnit,
    LimitWindow,
    Outcome,
    PoolPower,
    PriorityClass,
    Provisioner,
    PurgeKind,
    Scope,
    Strategy,
    SwitchSubject,
    Task,
    TaskClass,
    TooLong,
    UnknownPrice,
)
from inference.decisions.endpoints import PATHS

Choices = list[tuple[str, str]]


def choices_of(kind: type[StrEnum]) -> Choices:
    """Each member as value and label."""
    return [(member.value, member.value.replace("_", " ")) for member in kind]


def tasks() -> Choices:
    return choices_of(Task)


def provisioners() -> Choices:
    return choices_of(Provisioner)


def backends() -> Choices:
    return choices_of(Backend)


def endpoints() -> Choices:
    """Each with the path at which the gateway offers it."""
    return [(member.value, PATHS[member]) for member in Endpoint]


def powers() -> Choices:
    return choices_of(PoolPower)


def strategies() -> Choices:
    return choices_of(Strategy)


def accountings() -> Choices:
    return choices_of(Accounting)


def scopes() -> Choices:
    return choices_of(Scope)


def priorities() -> Choices:
    return choices_of(PriorityClass)


def task_classes() -> Choices:
    return choices_of(TaskClass)


def limit_subjects() -> Choices:
    return choices_of(LimitSubject)


def limit_units() -> Choices:
    return choices_of(LimitUnit)


def limit_windows() -> Choices:
    return choices_of(LimitWindow)


def enforcements() -> Choices:
    return choices_of(Enforcement)


def budget_subjects() -> Choices:
    return choices_of(BudgetSubject)


def budget_periods() -> Choices:
    return choices_of(BudgetPeriod)


def budget_actions() -> Choices:
    return choices_of(BudgetAction)


def budget_states() -> Choices:
    return choices_of(BudgetState)


def too_long_policies() -> Choices:
    return choices_of(TooLong)


def capacity_classes() -> Choices:
    return choices_of(CapacityClass)


def unknown_prices() -> Choices:
    return choices_of(UnknownPrice)


def switch_subjects() -> Choices:
    return choices_of(SwitchSubject)


def degradation_steps() -> Choices:
    return choices_of(DegradationStep)


def alert_kinds() -> Choices:
    return choices_of(AlertKind)


def alert_scopes() -> Choices:
    return choices_of(AlertScope)


def no_data_policies() -> Choices:
    return choices_of(NoData)


def severities() -> Choices:
    return choices_of(Severity)


def episode_states() -> Choices:
    return choices_of(EpisodeState)


def channel_kinds() -> Choices:
    return choices_of(ChannelKind)


def delivery_kinds() -> Choices:
    return choices_of(DeliveryKind)


def delivery_states() -> Choices:
    return choices_of(DeliveryState)


def report_groups() -> Choices:
    return [(one, one) for one in (*DIMENSIONS, *NAMED)]


def report_cadences() -> Choices:
    return choices_of(Cadence)


def report_parts() -> Choices:
    return choices_of(ReportPart)


def export_formats() -> Choices:
    return choices_of(ExportFormat)


def export_states() -> Choices:
    return choices_of(ExportState)


def statement_states() -> Choices:
    return choices_of(StatementState)


def cache_tiers() -> Choices:
    return choices_of(CacheTier)


def cache_scopes() -> Choices:
    return choices_of(CacheScope)


def outcomes() -> Choices:
    return choices_of(Outcome)


def cache_outcomes() -> Choices:
    return choices_of(CacheOutcome)


def purge_kinds() -> Choices:
    return choices_of(PurgeKind)
