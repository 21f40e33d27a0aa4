"""Paths of the API, below `/api/`: one line a noun."""

from django.urls import include, path
from rest_framework.routers import SimpleRouter

from controlplane.api.views.audit import AuditView
from controlplane.api.views.docs import DocsView, SchemaView
from controlplane.api.views.keys import KeyView
from controlplane.api.views.models import ModelView
from controlplane.api.views.organisations import OrganisationView
from controlplane.api.views.pools import PoolView
from controlplane.api.views.prices import PriceView
from controlplane.api.views.projects import ProjectView
from controlplane.api.views.requests import RequestView
from controlplane.api.views.routes import RouteView
from controlplane.api.views.snapshots import SnapshotView
from controlplane.api.views.teams import TeamView
from controlplane.api.views.usage import UsageView

router = SimpleRouter()
router.register("organisations", OrganisationView, basename="api-organisation")
router.register("teams", TeamView, basename="api-team")
router.register("projects", ProjectView, basename="api-project")
router.register("models", ModelView, basename="api-model")
router.register("prices", PriceView, basename="api-price")
router.register("pools", PoolView, basename="api-pool")
router.register("routes", RouteView, basename="api-route")
router.register("keys", KeyView, basename="api-key")
router.register("snapshots", SnapshotView, basename="api-snapshot")
router.register("audit", AuditView, basename="api-audit")
router.register("requests", RequestView, basename="api-request")
router.register("usage", UsageView, basename="api-usage")

urlpatterns = [
    path("v1/", include(router.urls)),
    path("schema/", SchemaView.as_view(), name="api-schema"),
    path("docs/", DocsView.as_view(), name="api-docs"),
]
