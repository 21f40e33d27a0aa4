"""The addresses of the caches' pages."""

from django.urls import path

from controlplane.console.views.cache_savings import SavingsPage
from controlplane.console.views.caches import (
    PolicyCreate,
    PolicyDelete,
    PolicyDetail,
    PolicyEdit,
    PolicyList,
    PurgeCreate,
    PurgeDetail,
    PurgeList,
)
from controlplane.console.views.wrong_answer import WrongAnswerPage

cache_paths = (
    path("caches/", PolicyList.as_view(), name="caches"),
    path("caches/new/", PolicyCreate.as_view(), name="cache-policy-create"),
    path(
        "requests/<str:event_id>/wrong-answer/",
        WrongAnswerPage.as_view(),
        name="request-wrong-answer",
    ),
    path("caches/savings/", SavingsPage.as_view(), name="cache-savings"),
    path("caches/purges/", PurgeList.as_view(), name="purges"),
    path("caches/purges/new/", PurgeCreate.as_view(), name="purge-create"),
    path("caches/purges/<str:pk>/", PurgeDetail.as_view(), name="purge"),
    path("caches/<str:pk>/", PolicyDetail.as_view(), name="cache-policy"),
    path("caches/<str:pk>/edit/", PolicyEdit.as_view(), name="cache-policy-edit"),
    path("caches/<str:pk>/delete/", PolicyDelete.as_view(), name="cache-policy-delete"),
)
