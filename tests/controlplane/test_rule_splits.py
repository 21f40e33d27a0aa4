"""What rules took: counted as it is recorded, told by page and API, forgotten after a week."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from controlplane.models import Role, Route, RuleMinute
from controlplane.services.actors import Actor
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.usage import RULES_KEPT, forget_rules
from controlplane.services.users import create_service_account, grant_role, issue_token
from tests.controlplane.conftest import Caller
from tests.controlplane.console.conftest import Reader, make_reader
from tests.controlplane.console.flows import words_of
from tests.controlplane.ledger_events import make_end, make_origin

pytestmark = pytest.mark.slow

__all__ = ["make_reader"]

NOW = timezone.now()


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ines", Role.OPERATOR)


@pytest.fixture
def route(operator: Reader, actor: Actor) -> Route:
    """A route with the rules `gold` and `batch`."""
    pools = [
        create_pool(
            actor,
            organisation=operator.organisation,
            name=name,
            model=name,
            provisioner="static",
            addresses=[f"http://127.0.0.1:{port}/v1"],
        )
        for name, port in (("large", 9_101), ("small", 9_102))
    ]
    rules = [
        {"name": name, "when": {"tags": [name]}, "targets": [TargetChoice(pool, 1)]}
        for name, pool in zip(("gold", "batch"), pools, strict=True)
    ]
    return create_route(
        actor,
        organisation=operator.organisation,
        name="chat",
        targets=[TargetChoice(pools[0], 3), TargetChoice(pools[1], 1)],
        rules=rules,
    )


def rule_ids(route: Route) -> Mapping[str, str]:
    return {one["name"]: one["id"] for one in route.rules}


def came(reader: Reader, route: Route, at: datetime, **by_rule: int) -> None:
    """Record so many requests that the rules of these names took; `none` are those of none."""
    ids = {**rule_ids(route), "none": None, "former": "rule_gone"}
    taken = [ids[name] for name, number in by_rule.items() for _ in range(number)]
    begun = int(at.timestamp() * 1000)
    reader.record(
        *(
            make_end(
                begun % 1_000_000_000 + place,
                event_id=f"req_{begun:013}{place:013}",
                at_ms=begun,
                origin=make_origin(route_id=route.pk, rule_id=rule_id),
            )
            for place, rule_id in enumerate(taken)
        ),
        now=NOW,
    )


def split(operator: Reader, actor: Actor, route: Route) -> Any:
    account = create_service_account(actor, organisation=operator.organisation, name="reads")
    grant_role(actor, subject=account, organisation=operator.organisation, role=Role.VIEWER)
    token = issue_token(actor, service_account=account).text
    return Caller(token, operator.organisation, "viewer").get(f"/routes/{route.pk}/split/").json()


def test_the_page_tells_beside_the_configured_split_what_each_rule_took(
    operator: Reader, route: Route
) -> None:
    assert "gold large 100.0 % no requests" in words_of(operator.page(f"/routes/{route.pk}/"))
    came(operator, route, NOW - timedelta(minutes=10), gold=3, none=1)
    came(operator, route, NOW - timedelta(hours=5), gold=1, batch=2, none=1)
    words = words_of(operator.page(f"/routes/{route.pk}/"))
    assert "what each took of 8 requests of the last 24 h" in words
    assert "gold large 100.0 % 75.0 % 3 50.0 % 4" in words
    assert "batch small 100.0 % 0.0 % 0 25.0 % 2" in words
    assert "Everything else large 75.0 % , small 25.0 % 25.0 % 1 25.0 % 2" in words
    assert "tagged gold took 75.0 % in 1 h, 50.0 % in 24 h" in words
    form = words_of(operator.page(f"/routes/{route.pk}/edit/"))
    assert "Conditions of rule 1 tags gold" in form
    assert "Measured: took 75.0 % in 1 h, 50.0 % in 24 h of the route's requests." in form


def test_what_rules_took_that_are_gone_is_a_line_of_its_own(operator: Reader, route: Route) -> None:
    came(operator, route, NOW - timedelta(minutes=10), gold=1, former=3)
    words = words_of(operator.page(f"/routes/{route.pk}/"))
    assert "Rules that are gone not told any more 75.0 % 3 75.0 % 3" in words
    assert "Everything else large 75.0 % , small 25.0 % 0.0 % 0" in words


def test_the_api_tells_the_same(operator: Reader, route: Route, actor: Actor) -> None:
    came(operator, route, NOW - timedelta(minutes=10), gold=3, none=1, former=1)
    told = split(operator, actor, route)
    assert told["route_id"] == route.pk
    hour, day = told["spans"]
    ids = rule_ids(route)
    assert (hour["window"], day["window"], hour["requests"]) == ("1h", "24h", 5)
    assert [tuple(one.values()) for one in hour["rules"]] == [
        (ids["gold"], "gold", 3, 0.6),
        (ids["batch"], "batch", 0, 0.0),
        ("rule_gone", None, 1, 0.2),
        (None, None, 1, 0.2),
    ]


def test_without_a_request_shares_are_unknown(operator: Reader, route: Route, actor: Actor) -> None:
    (hour, _) = split(operator, actor, route)["spans"]
    assert {one["share"] for one in hour["rules"]} == {None}


def test_a_role_of_a_team_alone_is_not_told(narrow: Caller, route: Route, admin: Caller) -> None:
    pool = {"name": "p", "provisioner": "static", "addresses": ["http://127.0.0.1:9/v1"]}
    admin.made("/pools/", {**pool, "model": "m"})
    mine = admin.made("/routes/", {"name": "r", "targets": [{"pool": "p", "weight": 1}]})["id"]
    assert admin.get(f"/routes/{mine}/split/").status_code == 200
    assert narrow.get(f"/routes/{mine}/split/").status_code == 403
    assert admin.get(f"/routes/{route.pk}/split/").status_code == 404


def test_what_is_older_than_a_week_is_forgotten(operator: Reader, route: Route) -> None:
    came(operator, route, NOW - RULES_KEPT - timedelta(days=2), gold=1)
    came(operator, route, NOW - RULES_KEPT - timedelta(hours=1), gold=1)
    came(operator, route, NOW - timedelta(days=1), gold=1)
    assert forget_rules(NOW) == 2
    assert RuleMinute.objects.count() == 1
    assert forget_rules(NOW) == 0


@pytest.mark.django_db(transaction=True)
def test_an_upgrade_takes_the_last_day_from_the_ledger(operator: Reader, route: Route) -> None:
    came(operator, route, NOW - timedelta(hours=3), gold=2, none=1)
    came(operator, route, NOW - timedelta(hours=30), gold=1)
    (recent,) = RuleMinute.objects.filter(minute__gt=NOW - timedelta(hours=25)).values()
    call_command("migrate", "controlplane", "0012", verbosity=0)
    call_command("migrate", verbosity=0)
    assert [*RuleMinute.objects.values()] == [recent]
