"""Paths of the pages; nouns in the plural, as everywhere.

A noun has five: its list under its plural, making one at `new/`, and one, its `edit/` and its
`delete/` under its id.
"""

from django.urls import path

from controlplane.console.cache_urls import cache_paths
from controlplane.console.propagation import propagation
from controlplane.console.views.alert_rules import (
    RuleCreate,
    RuleDelete,
    RuleDetail,
    RuleEdit,
    RuleList,
    SilenceCreate,
    SilenceDelete,
    SilenceDetail,
    SilenceEdit,
    SilenceList,
)
from controlplane.console.views.alerts import AlertDetail, AlertHistory, AlertList
from controlplane.console.views.alerts import act_views as alert_act_views
from controlplane.console.views.audit import AuditDetail, AuditList
from controlplane.console.views.bindings import (
    BindingCreate,
    BindingDelete,
    BindingDetail,
    BindingList,
)
from controlplane.console.views.budgets import (
    BudgetCreate,
    BudgetDelete,
    BudgetDetail,
    BudgetEdit,
    BudgetList,
    BudgetRaise,
    BudgetTest,
)
from controlplane.console.views.channels import (
    ChannelCreate,
    ChannelDelete,
    ChannelDetail,
    ChannelEdit,
    ChannelList,
    ChannelTest,
    DeliveryDetail,
    DeliveryList,
    DeliveryResend,
)
from controlplane.console.views.explain import ExplainPage
from controlplane.console.views.gateways import GatewaysPart
from controlplane.console.views.gateways import act_views as gateway_act_views
from controlplane.console.views.gpu_costs import (
    GpuPriceCreate,
    GpuPriceDelete,
    GpuPriceDetail,
    GpuPriceList,
    MarginPage,
    OwnCostPage,
)
from controlplane.console.views.keys import (
    KeyCreate,
    KeyDetail,
    KeyEdit,
    KeyList,
    KeyRevoke,
    KeyRotate,
)
from controlplane.console.views.keys import act_views as key_act_views
from controlplane.console.views.limits import (
    LimitCreate,
    LimitDelete,
    LimitDetail,
    LimitEdit,
    LimitList,
)
from controlplane.console.views.me import me, my_password, my_sessions
from controlplane.console.views.models import (
    ModelCreate,
    ModelDelete,
    ModelDetail,
    ModelEdit,
    ModelList,
)
from controlplane.console.views.organisations import (
    OrganisationCreate,
    OrganisationDetail,
    OrganisationEdit,
    OrganisationList,
)
from controlplane.console.views.pool_logs import PoolLog
from controlplane.console.views.pool_workers import worker_act_views
from controlplane.console.views.pools import (
    PoolCreate,
    PoolDelete,
    PoolDetail,
    PoolEdit,
    PoolList,
)
from controlplane.console.views.pools import act_views as pool_act_views
from controlplane.console.views.price_lists import PriceExport, PriceImport
from controlplane.console.views.prices import (
    PriceCreate,
    PriceDelete,
    PriceDetail,
    PriceEdit,
    PriceList,
    PriceTakeBack,
)
from controlplane.console.views.projects import (
    ProjectCreate,
    ProjectDelete,
    ProjectDetail,
    ProjectEdit,
    ProjectList,
)
from controlplane.console.views.replays import ReplayDetail, ReplayList
from controlplane.console.views.report_schedules import (
    ScheduleCreate,
    ScheduleDelete,
    ScheduleDetail,
    ScheduleEdit,
    ScheduleList,
)
from controlplane.console.views.reports import (
    ExportFile,
    ExportsPart,
    MonthClose,
    MonthReopen,
    ReportPage,
)
from controlplane.console.views.repricings import (
    CorrectionCreate,
    CorrectionList,
    RepricingAct,
    RepricingCreate,
    RepricingDetail,
    RepricingList,
)
from controlplane.console.views.requests import request_detail, request_list
from controlplane.console.views.routes import (
    RouteCreate,
    RouteDelete,
    RouteDetail,
    RouteEdit,
    RouteList,
)
from controlplane.console.views.service_accounts import (
    ServiceAccountAct,
    ServiceAccountCreate,
    ServiceAccountDelete,
    ServiceAccountDetail,
    ServiceAccountEdit,
    ServiceAccountList,
    TokenCreate,
    TokenRevoke,
)
from controlplane.console.views.service_levels import LevelList
from controlplane.console.views.snapshots import SnapshotDetail, SnapshotList, SnapshotRestore
from controlplane.console.views.spend import SpendPage
from controlplane.console.views.switches import (
    SwitchBoard,
    SwitchDetail,
    SwitchEdit,
    SwitchPutBack,
    SwitchThrow,
)
from controlplane.console.views.system import SystemPage
from controlplane.console.views.teams import (
    TeamCreate,
    TeamDelete,
    TeamDetail,
    TeamEdit,
    TeamList,
)
from controlplane.console.views.usage import MyUsageExport, MyUsagePage, UsageExport, UsagePage
from controlplane.console.views.users import (
    UserAct,
    UserCreate,
    UserDetail,
    UserEdit,
    UserList,
    UserPassword,
)

urlpatterns = [
    path("propagation/<int:version>/", propagation, name="propagation"),
    path("models/", ModelList.as_view(), name="models"),
    path("models/new/", ModelCreate.as_view(), name="model-create"),
    path("models/<str:pk>/", ModelDetail.as_view(), name="model"),
    path("models/<str:pk>/edit/", ModelEdit.as_view(), name="model-edit"),
    path("models/<str:pk>/delete/", ModelDelete.as_view(), name="model-delete"),
    path("routes/", RouteList.as_view(), name="routes"),
    path("routes/new/", RouteCreate.as_view(), name="route-create"),
    path("routes/<str:pk>/", RouteDetail.as_view(), name="route"),
    path("routes/<str:pk>/edit/", RouteEdit.as_view(), name="route-edit"),
    path("routes/<str:pk>/delete/", RouteDelete.as_view(), name="route-delete"),
    path("prices/", PriceList.as_view(), name="prices"),
    path("prices/import/", PriceImport.as_view(), name="price-import"),
    path("prices/export/", PriceExport.as_view(), name="price-export"),
    path("margins/", MarginPage.as_view(), name="margins"),
    path("own-costs/", OwnCostPage.as_view(), name="own-costs"),
    path("gpu-prices/", GpuPriceList.as_view(), name="gpu_prices"),
    path("gpu-prices/new/", GpuPriceCreate.as_view(), name="gpu-price-create"),
    path("gpu-prices/<str:pk>/", GpuPriceDetail.as_view(), name="gpu-price"),
    path("gpu-prices/<str:pk>/delete/", GpuPriceDelete.as_view(), name="gpu-price-delete"),
    path("repricings/", RepricingList.as_view(), name="repricings"),
    path("repricings/new/", RepricingCreate.as_view(), name="repricing-create"),
    path("repricings/<str:pk>/", RepricingDetail.as_view(), name="repricing"),
    *(
        path(f"repricings/<str:pk>/{act}/", RepricingAct.as_view(act=act), name=f"repricing-{act}")
        for act in RepricingAct.verbs
    ),
    path("corrections/", CorrectionList.as_view(), name="corrections"),
    path("corrections/new/", CorrectionCreate.as_view(), name="correction-create"),
    path("prices/new/", PriceCreate.as_view(), name="price-create"),
    path("prices/<str:pk>/", PriceDetail.as_view(), name="price"),
    path("prices/<str:pk>/edit/", PriceEdit.as_view(), name="price-edit"),
    path("prices/<str:pk>/delete/", PriceDelete.as_view(), name="price-delete"),
    path("prices/<str:pk>/take-back/", PriceTakeBack.as_view(), name="price-take-back"),
    *cache_paths,
    path("limits/", LimitList.as_view(), name="limits"),
    path("limits/new/", LimitCreate.as_view(), name="limit-create"),
    path("limits/<str:pk>/", LimitDetail.as_view(), name="limit"),
    path("limits/<str:pk>/edit/", LimitEdit.as_view(), name="limit-edit"),
    path("limits/<str:pk>/delete/", LimitDelete.as_view(), name="limit-delete"),
    path("budgets/", BudgetList.as_view(), name="budgets"),
    path("budgets/new/", BudgetCreate.as_view(), name="budget-create"),
    path("budgets/<str:pk>/", BudgetDetail.as_view(), name="budget"),
    path("budgets/<str:pk>/edit/", BudgetEdit.as_view(), name="budget-edit"),
    path("budgets/<str:pk>/raise/", BudgetRaise.as_view(), name="budget-raise"),
    path("budgets/<str:pk>/test/", BudgetTest.as_view(), name="budget-test"),
    path("budgets/<str:pk>/delete/", BudgetDelete.as_view(), name="budget-delete"),
    path("switches/", SwitchBoard.as_view(), name="switches"),
    path("switches/new/", SwitchThrow.as_view(), name="switch-create"),
    path("switches/<str:pk>/", SwitchDetail.as_view(), name="switch"),
    path("switches/<str:pk>/edit/", SwitchEdit.as_view(), name="switch-edit"),
    path("switches/<str:pk>/delete/", SwitchPutBack.as_view(), name="switch-delete"),
    path("alerts/", AlertList.as_view(), name="alerts"),
    path("alerts/history/", AlertHistory.as_view(), name="alerts-history"),
    path("alerts/rules/", RuleList.as_view(), name="alert_rules"),
    path("alerts/rules/new/", RuleCreate.as_view(), name="alert-rule-create"),
    path("alerts/rules/<str:pk>/", RuleDetail.as_view(), name="alert-rule"),
    path("alerts/rules/<str:pk>/edit/", RuleEdit.as_view(), name="alert-rule-edit"),
    path("alerts/rules/<str:pk>/delete/", RuleDelete.as_view(), name="alert-rule-delete"),
    path("alerts/levels/", LevelList.as_view(), name="service_levels"),
    path("alerts/silences/", SilenceList.as_view(), name="silences"),
    path("alerts/silences/new/", SilenceCreate.as_view(), name="silence-create"),
    path("alerts/silences/<str:pk>/", SilenceDetail.as_view(), name="silence"),
    path("alerts/silences/<str:pk>/edit/", SilenceEdit.as_view(), name="silence-edit"),
    path("alerts/silences/<str:pk>/delete/", SilenceDelete.as_view(), name="silence-delete"),
    path("alerts/channels/", ChannelList.as_view(), name="channels"),
    path("alerts/channels/new/", ChannelCreate.as_view(), name="channel-create"),
    path("alerts/channels/<str:pk>/", ChannelDetail.as_view(), name="channel"),
    path("alerts/channels/<str:pk>/edit/", ChannelEdit.as_view(), name="channel-edit"),
    path("alerts/channels/<str:pk>/delete/", ChannelDelete.as_view(), name="channel-delete"),
    path("alerts/channels/<str:pk>/test/", ChannelTest.as_view(), name="channel-test"),
    path("alerts/deliveries/", DeliveryList.as_view(), name="deliveries"),
    path("alerts/deliveries/<str:pk>/", DeliveryDetail.as_view(), name="delivery"),
    path("alerts/deliveries/<str:pk>/resend/", DeliveryResend.as_view(), name="delivery-resend"),
    path("alerts/<str:pk>/", AlertDetail.as_view(), name="alert"),
    *(
        path(f"alerts/<str:pk>/{act}/", view, name=f"alert-{act}")
        for act, view in alert_act_views().items()
    ),
    path("organisations/", OrganisationList.as_view(), name="organisations"),
    path("organisations/new/", OrganisationCreate.as_view(), name="organisation-create"),
    path("organisations/<str:pk>/", OrganisationDetail.as_view(), name="organisation"),
    path("organisations/<str:pk>/edit/", OrganisationEdit.as_view(), name="organisation-edit"),
    path("teams/", TeamList.as_view(), name="teams"),
    path("teams/new/", TeamCreate.as_view(), name="team-create"),
    path("teams/<str:pk>/", TeamDetail.as_view(), name="team"),
    path("teams/<str:pk>/edit/", TeamEdit.as_view(), name="team-edit"),
    path("teams/<str:pk>/delete/", TeamDelete.as_view(), name="team-delete"),
    path("projects/", ProjectList.as_view(), name="projects"),
    path("projects/new/", ProjectCreate.as_view(), name="project-create"),
    path("projects/<str:pk>/", ProjectDetail.as_view(), name="project"),
    path("projects/<str:pk>/edit/", ProjectEdit.as_view(), name="project-edit"),
    path("projects/<str:pk>/delete/", ProjectDelete.as_view(), name="project-delete"),
    path("snapshots/", SnapshotList.as_view(), name="snapshots"),
    path("snapshots/<int:version>/", SnapshotDetail.as_view(), name="snapshot"),
    path("snapshots/<int:version>/restore/", SnapshotRestore.as_view(), name="snapshot-restore"),
    path("audit/", AuditList.as_view(), name="audit"),
    path("audit/<int:pk>/", AuditDetail.as_view(), name="audit-entry"),
    path("pools/", PoolList.as_view(), name="pools"),
    path("pools/new/", PoolCreate.as_view(), name="pool-create"),
    path("pools/<str:pk>/", PoolDetail.as_view(), name="pool"),
    path("pools/<str:pk>/edit/", PoolEdit.as_view(), name="pool-edit"),
    path("pools/<str:pk>/delete/", PoolDelete.as_view(), name="pool-delete"),
    path("pools/<str:pk>/log/", PoolLog.as_view(), name="pool-log"),
    *(
        path(f"pools/<str:pk>/{act}/", view, name=f"pool-{act}")
        for act, view in pool_act_views().items()
    ),
    *(
        path(f"pools/<str:pk>/workers/<int:number>/{act}/", view, name=f"pool-worker-{act}")
        for act, view in worker_act_views().items()
    ),
    path("keys/", KeyList.as_view(), name="keys"),
    path("keys/new/", KeyCreate.as_view(), name="key-create"),
    path("keys/<str:pk>/", KeyDetail.as_view(), name="key"),
    path("keys/<str:pk>/edit/", KeyEdit.as_view(), name="key-edit"),
    path("keys/<str:pk>/rotate/", KeyRotate.as_view(), name="key-rotate"),
    path("keys/<str:pk>/revoke/", KeyRevoke.as_view(), name="key-revoke"),
    *(
        path(f"keys/<str:pk>/{act}/", view, name=f"key-{act}")
        for act, view in key_act_views().items()
    ),
    path("explain/", ExplainPage.as_view(), name="explain"),
    path("replay/", ReplayList.as_view(), name="replays"),
    path("replay/<str:pk>/", ReplayDetail.as_view(), name="replay"),
    path("system/", SystemPage.as_view(), name="system"),
    path("system/gateways/", GatewaysPart.as_view(), name="gateways"),
    *(
        path(f"system/gateways/<path:pk>/{act}/", view, name=f"gateway-{act}")
        for act, view in gateway_act_views().items()
    ),
    path("requests/", request_list, name="requests"),
    path("requests/<str:event_id>/", request_detail, name="request"),
    path("reports/", ReportPage.as_view(), name="reports"),
    path("reports/close/", MonthClose.as_view(), name="report-close"),
    path("reports/reopen/", MonthReopen.as_view(), name="report-reopen"),
    path("reports/files/", ExportsPart.as_view(), name="report-files"),
    path("reports/files/<str:pk>/", ExportFile.as_view(), name="report-export"),
    path("reports/schedules/", ScheduleList.as_view(), name="report_schedules"),
    path("reports/schedules/new/", ScheduleCreate.as_view(), name="report-schedule-create"),
    path("reports/schedules/<str:pk>/", ScheduleDetail.as_view(), name="report-schedule"),
    path("reports/schedules/<str:pk>/edit/", ScheduleEdit.as_view(), name="report-schedule-edit"),
    path(
        "reports/schedules/<str:pk>/delete/",
        ScheduleDelete.as_view(),
        name="report-schedule-delete",
    ),
    path("spend/", SpendPage.as_view(), name="spend"),
    path("usage/", UsagePage.as_view(), name="usage"),
    path("usage/export.csv", UsageExport.as_view(), name="usage-export"),
    path("users/", UserList.as_view(), name="users"),
    path("users/new/", UserCreate.as_view(), name="user-create"),
    path("users/bindings/", BindingList.as_view(), name="bindings"),
    path("users/bindings/new/", BindingCreate.as_view(), name="binding-create"),
    path("users/bindings/<str:pk>/", BindingDetail.as_view(), name="binding"),
    path("users/bindings/<str:pk>/delete/", BindingDelete.as_view(), name="binding-delete"),
    path("users/service-accounts/", ServiceAccountList.as_view(), name="service_accounts"),
    path(
        "users/service-accounts/new/",
        ServiceAccountCreate.as_view(),
        name="service-account-create",
    ),
    path(
        "users/service-accounts/<str:pk>/",
        ServiceAccountDetail.as_view(),
        name="service-account",
    ),
    path(
        "users/service-accounts/<str:pk>/edit/",
        ServiceAccountEdit.as_view(),
        name="service-account-edit",
    ),
    path(
        "users/service-accounts/<str:pk>/delete/",
        ServiceAccountDelete.as_view(),
        name="service-account-delete",
    ),
    *(
        path(
            f"users/service-accounts/<str:pk>/{act}/",
            ServiceAccountAct.as_view(act=act),
            name=f"service-account-{act}",
        )
        for act in ServiceAccountAct.verbs
    ),
    path("users/service-accounts/<str:pk>/tokens/new/", TokenCreate.as_view(), name="token-create"),
    path(
        "users/service-accounts/<str:pk>/tokens/<str:token>/revoke/",
        TokenRevoke.as_view(),
        name="token-revoke",
    ),
    path("users/<str:pk>/", UserDetail.as_view(), name="user"),
    path("users/<str:pk>/edit/", UserEdit.as_view(), name="user-edit"),
    path("users/<str:pk>/password/", UserPassword.as_view(), name="user-password"),
    *(
        path(f"users/<str:pk>/{act}/", UserAct.as_view(act=act), name=f"user-{act}")
        for act in UserAct.verbs
    ),
    path("me/", me, name="me"),
    path("me/password/", my_password, name="my-password"),
    path("me/sessions/", my_sessions, name="my-sessions"),
    path("me/usage/", MyUsagePage.as_view(), name="my-usage"),
    path("me/usage/export.csv", MyUsageExport.as_view(), name="my-usage-export"),
]
