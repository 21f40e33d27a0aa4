"""The names of things known by id alone, as audit trail and versions mention them."""

from collections.abc import Collection, Mapping

from django.db.models import Model, QuerySet

from controlplane.decisions.subjects import subject_words
from controlplane.models import (
    AlertRule,
    Budget,
    CachePolicy,
    CatalogueModel,
    Channel,
    Delivery,
    Episode,
    GatewaySetting,
    Key,
    Limit,
    Organisation,
    Pool,
    Price,
    Project,
    Purge,
    Route,
    Silence,
    Switch,
    Team,
)
from controlplane.selectors.access import Access

_NAMED: tuple[type[Model], ...] = (
    *(Pool, CatalogueModel, Route, Project, Team, Key),
    *(Limit, Budget, CachePolicy, AlertRule, Channel),
)
_SWITCH = "sw_"
"""How the id of a switch begins, see `rows.switch_id`."""


def list_names(access: Access, ids: Collection[str]) -> dict[str, str]:
    """The names of these objects, a price by its model's; by one query.

    A switch goes by what it turns off, which takes two more where the ids of switches are asked.

    What is gone, or belongs to an organisation the caller has no role in, is left out.
    """
    if not ids:
        return {}
    wanted = sorted(ids)
    found = [
        access.visible(kind._default_manager.filter(pk__in=wanted)).values_list("pk", "name")
        for kind in _NAMED
    ]
    prices = Price.objects.filter(pk__in=wanted).values_list("pk", "model__name")
    homes = Organisation.objects.filter(pk__in=wanted).values_list("pk", "name")
    found += [access.visible(prices), access.visible(homes, "id")]
    found.append(_gateways(access).filter(pk__in=wanted).values_list("pk", "name"))
    names = dict(found[0].union(*found[1:], all=True))
    switches = [one for one in wanted if one.startswith(_SWITCH)]
    return {**names, **_names_of_switches(access, switches)} if switches else names


def _names_of_switches(access: Access, ids: Collection[str]) -> dict[str, str]:
    rows = list(access.visible(Switch.objects.filter(pk__in=ids)))
    names = list_names(access, {row.subject_id for row in rows if row.subject_id})
    return {
        row.pk: subject_words(row.subject, row.subject_id, names.get(row.subject_id or ""))
        for row in rows
    }


def _gateways(access: Access) -> QuerySet[GatewaySetting]:
    """They are the platform's, and so are their names in the trail."""
    rows = GatewaySetting.objects.all()
    return rows if access.is_platform_admin else rows.none()


_BY_NOUN: Mapping[str, type[Model]] = {
    "models": CatalogueModel,
    "prices": Price,
    "pools": Pool,
    "routes": Route,
    "teams": Team,
    "projects": Project,
    "keys": Key,
    "organisations": Organisation,
    "caches": CachePolicy,
    "purges": Purge,
    "limits": Limit,
    "budgets": Budget,
    "switches": Switch,
    "alert_rules": AlertRule,
    "channels": Channel,
    "silences": Silence,
    "alerts": Episode,
    "deliveries": Delivery,
}


def get_named(access: Access, noun: str, pk: str) -> Model | None:
    """The object an audit entry speaks of, or None: gone, of no such noun, or not the caller's."""
    if noun == "gateways":
        return _gateways(access).filter(pk=pk).first()
    kind = _BY_NOUN.get(noun)
    if kind is None:
        return None
    field = "id" if kind is Organisation else "organisation_id"
    return access.visible(kind._default_manager.filter(pk=pk), field).first()
