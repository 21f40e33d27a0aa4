"""Gateways on the System page: what they say of themselves, and acts on one with their review."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from controlplane.bridge.gateways import GatewayNow, GatewaysNow, read_gateways
from controlplane.console.acting import ActPage
from controlplane.console.formats import count
from controlplane.console.gateway_facts import DRAIN, PUT_BACK, VERBS, gateway_rows
from controlplane.console.nouns import GATEWAYS
from controlplane.console.pages import Crumb, Page
from controlplane.console.reviews import Check, Impact, Reach, checks_of
from controlplane.decisions.propagation import DrainState
from controlplane.errors import Conflict, NotAllowed, NotFound
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.gateways import update_gateway
from inference.contract.params import GATEWAY_DRAIN_S

NOT_SHOWN = (
    "You lack the permission to see how the installation is. "
    "Administrators of the platform or of an organisation have it."
)


class GatewaysPart(Page):
    """The part of the System page that is asked again every two seconds."""

    template_name = "console/system/gateways.html"

    def get(self, request: HttpRequest) -> HttpResponse:
        """Tell what each gateway says of itself now."""
        if not self.scope.access.is_administrator:
            raise NotAllowed(NOT_SHOWN)
        return self.render({"gateways": gateway_rows(self.scope.access)})


class GatewayAct(ActPage):
    """Drain a gateway, put it back, or have its processes replaced one after another."""

    noun = GATEWAYS
    verbs = VERBS
    is_for_tokens = False
    now: GatewaysNow

    def get_row(self, pk: str) -> GatewayNow:
        if not self.scope.access.is_platform_admin:
            raise NotAllowed(
                "You lack the permission to change gateways, which all organisations share. "
                "Administrators of the platform have it."
            )
        self.now = read_gateways()
        try:
            self.row = self.now.named(pk)
        except Conflict as error:
            raise NotFound(error.detail) from error
        return self.row

    def crumbs(self) -> Sequence[Crumb]:
        first = (Crumb(GATEWAYS.group), Crumb(GATEWAYS.title, reverse("system")))
        return (*first, Crumb(self.heading(self.row)))

    def back_url(self, row: GatewayNow) -> str:
        return reverse("system")

    def api_path(self, row: GatewayNow) -> str:
        return GATEWAYS.api_path(row.name)

    def values_of(self, row: GatewayNow) -> Mapping[str, Any]:
        if self.act in (DRAIN, PUT_BACK):
            is_asked = self.act == DRAIN
            if row.is_drained == is_asked:
                raise Conflict(f"The gateway is {'' if is_asked else 'not '}drained already.")
            return {"is_drained": is_asked}
        return {"restart_generation": row.restart_generation + 1}

    def words_of(self, row: GatewayNow, changes: Mapping[str, Any], draft: Draft) -> str:
        if self.act == DRAIN:
            return "It says on /ready that it wants no more, and finishes what it has."
        if self.act == PUT_BACK:
            return "It says on /ready that it serves again, within a second."
        return (
            f"Its processes are replaced one after another. Each has {GATEWAY_DRAIN_S} seconds to "
            "finish its requests; what runs longer is cut off."
        )

    def impact(self, row: GatewayNow, changes: Mapping[str, Any], draft: Draft) -> Impact:
        reach = []
        if row.facts is not None and row.facts.inflight is not None:
            reach.append(Reach("Under way here", f"{count(row.facts.inflight)} requests"))
        others = [one.name for one in self.now.gateways if one.name != row.name and _serves(one)]
        reach.append(Reach("Others that serve", ", ".join(others) or "none"))
        reach.append(Reach("Organisations", "all: gateways are shared"))
        return Impact(
            reach=reach, checks=(*self._warnings(row, others), *checks_of(draft, GATEWAYS.key))
        )

    def _warnings(self, row: GatewayNow, others: Sequence[str]) -> Sequence[Check]:
        found = []
        if row.facts is None:
            found.append(Check("info", "It was not seen lately; it applies when it comes."))
        if self.act == DRAIN and not others:
            words = "No other gateway serves: a balancer that obeys /ready sends nowhere."
            found.append(Check("warn", words))
        return found

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_gateway(
            actor, name=row.name, changes=changes, expected_version=expected_version
        )


def _serves(gateway: GatewayNow) -> bool:
    return gateway.state is DrainState.SERVING


def act_views() -> Mapping[str, Any]:
    """The view of each act, by its name in the address."""
    return {name: GatewayAct.as_view(act=name) for name in VERBS}
