"""The System page: every part of the installation, for those who run it."""

from collections.abc import Sequence
from dataclasses import replace

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from controlplane.bridge.system import read_system
from controlplane.console.api_calls import reading
from controlplane.console.gateway_facts import gateway_rows
from controlplane.console.pages import Crumb, Page
from controlplane.console.propagation import applied_context
from controlplane.console.system_facts import told
from controlplane.console.views.gateways import NOT_SHOWN
from controlplane.errors import NotAllowed


class SystemPage(Page):
    template_name = "console/system/page.html"

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb("Admin"), Crumb("System"))

    def get(self, request: HttpRequest) -> HttpResponse:
        """Ask every part once and show what it says."""
        if not self.scope.access.is_administrator:
            raise NotAllowed(NOT_SHOWN)
        now = timezone.now()
        parts = [told(part) for part in read_system(now)]
        troubles = [part for part in parts if part.state.tone != "ok"]
        context = {
            "parts": parts,
            "troubles": troubles,
            "as_of": now,
            "gateways": gateway_rows(self.scope.access),
            **applied_context(request),
            # it is about no organisation, so none is asked for
            "api": reading(
                request,
                replace(self.scope, organisations=(self.scope.organisation,)),
                reverse("api-system-list"),
            ),
        }
        return self.render(context)
