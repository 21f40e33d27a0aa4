"""The navigation: the pages that exist, in their groups, as far as their reader may see them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from controlplane.console.scope import Scope
from controlplane.selectors.alerts import count_firing


class Needs(StrEnum):
    """What it takes to see a page: any role, one of the whole organisation, an administrator's."""

    ANY_ROLE = "any_role"
    WHOLE_ORGANISATION = "whole_organisation"
    ADMINISTRATION = "administration"


@dataclass(frozen=True, slots=True)
class Item:
    """One entry; current on the page of `url_name`, on those it begins, and on those of `also`."""

    label: str
    url_name: str
    icon: str
    also: tuple[str, ...] = ()
    needs: Needs = Needs.ANY_ROLE
    count: Callable[[Scope], int] | None = None

    def is_current(self, url_name: str) -> bool:
        """Tell whether the page of this name belongs to the entry."""
        own = (self.url_name, *self.also)
        return any(url_name == one or url_name.startswith(f"{one}-") for one in own)


@dataclass(frozen=True, slots=True)
class Group:
    """Entries under one word, or under none."""

    label: str
    items: tuple[Item, ...]


GROUPS = (
    Group("", (Item("Overview", "overview", "home"),)),
    Group(
        "Serve",
        (
            Item("Pools", "pools", "pool", ("pool",)),
            Item("Models", "models", "model", ("model",)),
            Item("Routes", "routes", "route", ("route",)),
            Item("Caches", "caches", "snapshot", ("cache", "purges", "purge")),
            Item("Explain", "explain", "info"),
            Item("Replay", "replays", "restart", ("replay",), Needs.WHOLE_ORGANISATION),
        ),
    ),
    Group(
        "Observe",
        (
            Item("Requests", "requests", "list", ("request",)),
            Item("Usage", "usage", "chart"),
        ),
    ),
    Group(
        "Cost",
        (
            Item("Spend", "spend", "chart"),
            Item(
                "Reports",
                "reports",
                "list",
                ("report", "report_schedules"),
                Needs.WHOLE_ORGANISATION,
            ),
            Item("Budgets", "budgets", "budget", ("budget",)),
            Item("Prices", "prices", "price", ("price",)),
            Item("Margin", "margins", "chart", (), Needs.WHOLE_ORGANISATION),
            Item("GPU cost", "own-costs", "system", (), Needs.WHOLE_ORGANISATION),
            Item("GPU prices", "gpu_prices", "price", ("gpu-price",)),
            Item("Repricings", "repricings", "restart", ("repricing",), Needs.WHOLE_ORGANISATION),
            Item("Corrections", "corrections", "edit", ("correction",), Needs.WHOLE_ORGANISATION),
        ),
    ),
    Group(
        "Alerts",
        (
            Item(
                "Alerts",
                "alerts",
                "bell",
                (
                    *("alert", "alert_rules", "service_levels", "silences", "silence"),
                    *("channels", "channel", "deliveries", "delivery"),
                ),
                Needs.WHOLE_ORGANISATION,
                lambda scope: count_firing(scope.access, scope.organisation),
            ),
        ),
    ),
    Group(
        "Govern",
        (
            Item("Limits", "limits", "limit", ("limit",)),
            Item("Kill switches", "switches", "power", ("switch",)),
            Item("Snapshots", "snapshots", "snapshot", ("snapshot",), Needs.WHOLE_ORGANISATION),
            Item("Audit", "audit", "audit", ("audit-entry",), Needs.WHOLE_ORGANISATION),
        ),
    ),
    Group(
        "Admin",
        (
            Item(
                "Organisations",
                "organisations",
                "organisation",
                ("organisation", "teams", "team", "projects", "project"),
            ),
            Item("Keys", "keys", "key", ("key",)),
            Item(
                "Users and roles",
                "users",
                "person",
                ("user", "bindings", "binding", "service_accounts", "service-account", "token"),
                Needs.WHOLE_ORGANISATION,
            ),
            Item("System", "system", "system", (), Needs.ADMINISTRATION),
        ),
    ),
)


def groups_for(scope: Scope | None) -> Iterator[Group]:
    """The groups and entries the reader of a page may see."""
    for group in GROUPS:
        items = tuple(item for item in group.items if _may_see(item, scope))
        if items:
            yield Group(group.label, items)


def count_at(item: Item, scope: Scope | None) -> int:
    """How many things wait behind an entry, 0 for most."""
    return 0 if item.count is None or scope is None else item.count(scope)


def _may_see(item: Item, scope: Scope | None) -> bool:
    if item.needs is Needs.ANY_ROLE:
        return True
    if item.needs is Needs.ADMINISTRATION:
        return scope is not None and scope.access.is_administrator
    return scope is not None and scope.access.reads_organisation(scope.organisation.pk)
