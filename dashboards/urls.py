"""Paths of the live pages; `home` is the name of where signing in leads."""

from django.urls import path

from dashboards.api import AttentionView
from dashboards.views import live_document, overview

urlpatterns = [
    path("", overview, name="overview"),
    path("", overview, name="home"),
    path("live/<slug:page>/", live_document, name="live-document"),
    path("api/v1/attention/", AttentionView.as_view({"get": "list"}), name="api-attention-list"),
]
