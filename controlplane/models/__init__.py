"""Rows: fields, constraints and simple properties, one file a noun.

Belongs here: what the database holds and what it enforces. Does not belong here: reads (selectors),
writes (services) or anything that knows a request. To add a noun: a file, its import below, its
composite foreign keys in the migration if it refers to other rows of its organisation.
"""

from controlplane.models.alerts import AlertRule, AlertStanding, Episode, Silence
from controlplane.models.audit import AuditEntry
from controlplane.models.budgets import (
    Budget,
    BudgetAccount,
    BudgetBucket,
    BudgetCorrection,
    BudgetCount,
    BudgetEffect,
    BudgetReading,
    BudgetUpkeep,
)
from controlplane.models.cache_usage import CacheHour, CacheSimilarity, FalseHit
from controlplane.models.caches import CachePolicy, Purge
from controlplane.models.channels import Channel, Delivery, RuleChannel, SlackCall
from controlplane.models.corrections import Repricing, RepricingState, SpendCorrection
from controlplane.models.gateways import GatewaySetting
from controlplane.models.gpu_costs import GpuPrice, OwnCost
from controlplane.models.idempotency import KeptAnswer
from controlplane.models.keys import Key, KeyDigest, KeyRoute
from controlplane.models.limits import Limit
from controlplane.models.live import LiveCoverage, LivePeak, LiveTraffic, LiveWorker
from controlplane.models.models import CatalogueModel
from controlplane.models.organisations import Organisation
from controlplane.models.pools import Pool
from controlplane.models.prices import Price, PriceVersion
from controlplane.models.projects import Project
from controlplane.models.replays import Replay, ReplayState
from controlplane.models.reports import (
    ReportExport,
    ReportRun,
    ReportSchedule,
    Statement,
    StatementRow,
)
from controlplane.models.requests import Charge, Request
from controlplane.models.routes import Route, RouteTarget
from controlplane.models.snapshots import ConfigRevision, ConfigSection, Installation
from controlplane.models.switches import Switch
from controlplane.models.teams import Team
from controlplane.models.usage import (
    JournalMark,
    LedgerCheck,
    PoisonRecord,
    RuleMinute,
    UsageDay,
    UsageHour,
    UsageMinute,
    UsageNamed,
    UsagePriced,
)
from controlplane.models.users import ApiToken, Role, RoleBinding, ServiceAccount, User

__all__ = [
    "AlertRule",
    "AlertStanding",
    "ApiToken",
    "AuditEntry",
    "Budget",
    "BudgetAccount",
    "BudgetBucket",
    "BudgetCorrection",
    "BudgetCount",
    "BudgetEffect",
    "BudgetReading",
    "BudgetUpkeep",
    "CacheHour",
    "CachePolicy",
    "CacheSimilarity",
    "CatalogueModel",
    "Channel",
    "Charge",
    "ConfigRevision",
    "ConfigSection",
    "Delivery",
    "Episode",
    "FalseHit",
    "GatewaySetting",
    "GpuPrice",
    "Installation",
    "JournalMark",
    "KeptAnswer",
    "Key",
    "KeyDigest",
    "KeyRoute",
    "LedgerCheck",
    "Limit",
    "LiveCoverage",
    "LivePeak",
    "LiveTraffic",
    "LiveWorker",
    "Organisation",
    "OwnCost",
    "PoisonRecord",
    "Pool",
    "Price",
    "PriceVersion",
    "Project",
    "Purge",
    "Replay",
    "ReplayState",
    "ReportExport",
    "ReportRun",
    "ReportSchedule",
    "Repricing",
    "RepricingState",
    "Request",
    "Role",
    "RoleBinding",
    "Route",
    "RouteTarget",
    "RuleChannel",
    "RuleMinute",
    "ServiceAccount",
    "Silence",
    "SlackCall",
    "SpendCorrection",
    "Statement",
    "StatementRow",
    "Switch",
    "Team",
    "UsageDay",
    "UsageHour",
    "UsageMinute",
    "UsageNamed",
    "UsagePriced",
    "User",
]
