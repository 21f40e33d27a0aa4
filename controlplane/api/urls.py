"""Paths of the API, below `/api/`: one line a noun."""

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from controlplane.api.views.alerts import (
    AlertRuleView,
    AlertView,
    ChannelView,
    DeliveryView,
    SilenceView,
)
from controlplane.api.views.audit import AuditView
from controlplane.api.views.bindings import BindingView
from controlplane.api.views.budgets import BudgetView
from controlplane.api.views.caches import PolicyView, PurgeView
from controlplane.api.views.docs import DocsView, SchemaView
from controlplane.api.views.explain import ExplainView
from controlplane.api.views.gateways import GatewayView
from controlplane.api.views.gpu_costs import GpuPriceView, MarginView, OwnCostView
from controlplane.api.views.keys import KeyView
from controlplane.api.views.limits import LimitView
from controlplane.api.views.live import LiveView
from controlplane.api.views.me import MeView
from controlplane.api.views.models import ModelView
from controlplane.api.views.organisations import OrganisationView
from controlplane.api.views.pools import PoolView
from controlplane.api.views.prices import PriceView
from controlplane.api.views.projects import ProjectView
from controlplane.api.views.replays import ReplayView
from controlplane.api.views.reports import (
    ReportExportView,
    ReportScheduleView,
    ReportView,
    StatementView,
)
from controlplane.api.views.repricings import CorrectionView, RepricingView
from controlplane.api.views.requests import RequestView
from controlplane.api.views.routes import RouteView
from controlplane.api.views.service_accounts import ServiceAccountView
from controlplane.api.views.service_levels import ServiceLevelView
from controlplane.api.views.snapshots import SnapshotView
from controlplane.api.views.spend import SpendView
from controlplane.api.views.switches import SwitchView
from controlplane.api.views.system import SystemView
from controlplane.api.views.teams import TeamView
from controlplane.api.views.tokens import TokenView
from controlplane.api.views.usage import UsageView
from controlplane.api.views.users import UserView

router = SimpleRouter()
router.register("organisations", OrganisationView, basename="api-organisation")
router.register("teams", TeamView, basename="api-team")
router.register("projects", ProjectView, basename="api-project")
router.register("models", ModelView, basename="api-model")
router.register("prices", PriceView, basename="api-price")
router.register("repricings", RepricingView, basename="api-repricing")
router.register("corrections", CorrectionView, basename="api-correction")
router.register("gpu-prices", GpuPriceView, basename="api-gpu-price")
router.register("own-costs", OwnCostView, basename="api-own-cost")
router.register("margins", MarginView, basename="api-margin")
router.register("pools", PoolView, basename="api-pool")
router.register("routes", RouteView, basename="api-route")
router.register("keys", KeyView, basename="api-key")
router.register("caches", PolicyView, basename="api-cache-policy")
router.register("purges", PurgeView, basename="api-purge")
router.register("limits", LimitView, basename="api-limit")
router.register("budgets", BudgetView, basename="api-budget")
router.register("switches", SwitchView, basename="api-switch")
router.register("alerts", AlertView, basename="api-alert")
router.register("alert-rules", AlertRuleView, basename="api-alert-rule")
router.register("service-levels", ServiceLevelView, basename="api-service-level")
router.register("silences", SilenceView, basename="api-silence")
router.register("channels", ChannelView, basename="api-channel")
router.register("deliveries", DeliveryView, basename="api-delivery")
router.register("snapshots", SnapshotView, basename="api-snapshot")
router.register("audit", AuditView, basename="api-audit")
router.register("explain", ExplainView, basename="api-explain")
router.register("replays", ReplayView, basename="api-replay")
router.register("requests", RequestView, basename="api-request")
router.register("users", UserView, basename="api-user")
router.register("bindings", BindingView, basename="api-binding")
router.register("service-accounts", ServiceAccountView, basename="api-service-account")
router.register("tokens", TokenView, basename="api-token")
router.register("me", MeView, basename="api-me")
router.register("spend", SpendView, basename="api-spend")
router.register("reports", ReportView, basename="api-report")
router.register("statements", StatementView, basename="api-statement")
router.register("report-exports", ReportExportView, basename="api-report-export")
router.register("report-schedules", ReportScheduleView, basename="api-report-schedule")
router.register("usage", UsageView, basename="api-usage")
router.register("live", LiveView, basename="api-live")
router.register("gateways", GatewayView, basename="api-gateway")
router.register("system", SystemView, basename="api-system")

urlpatterns = [
    path("v1/", include(router.urls)),
    path("schema/", SchemaView.as_view(), name="api-schema"),
    path("docs/", DocsView.as_view(), name="api-docs"),
]
