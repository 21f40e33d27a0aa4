"""Every path of the console. Plain `/-/` paths need no login and no database."""

from django.urls import include, path, re_path
from django.views.generic import RedirectView

from controlplane.console.views.me import reset_is_off
from controlplane.console.views.slack_acts import slack_acts
from controlplane.metrics import metrics
from controlplane.status import status

handler400 = "controlplane.error_responses.bad_request"
handler404 = "controlplane.error_responses.page_not_found"
handler500 = "controlplane.error_responses.server_error"

urlpatterns = [
    path("-/status", status, name="status"),
    path("-/metrics", metrics, name="metrics"),
    path("hooks/slack/<str:pk>/", slack_acts, name="slack-acts"),
    path("api/", include("controlplane.api.urls")),
    # no mail can be sent, so nobody can be told a link; and a password changes on one page alone
    re_path("^accounts/password/reset/", reset_is_off, name="account_reset_is_off"),
    path(
        "accounts/password/change/",
        RedirectView.as_view(pattern_name="my-password"),
        name="account_change_is_mine",
    ),
    path("accounts/", include("allauth.urls")),
    path("", include("dashboards.urls")),
    path("", include("controlplane.console.urls")),
]
