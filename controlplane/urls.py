"""Every path of the console. Plain `/-/` paths need no login and no database."""

from django.urls import include, path

from controlplane.status import status

handler400 = "controlplane.error_responses.bad_request"
handler404 = "controlplane.error_responses.page_not_found"
handler500 = "controlplane.error_responses.server_error"

urlpatterns = [
    path("-/status", status, name="status"),
    path("api/", include("controlplane.api.urls")),
    path("accounts/", include("allauth.urls")),
    path("", include("controlplane.console.urls")),
]
