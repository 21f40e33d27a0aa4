"""A month of spending by REST: exact sums of the zone's month, forecast, prices and roles."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.console.spend_figure import change_words
from controlplane.models import Budget, Organisation, PriceVersion
from controlplane.selectors.access import Access
from controlplane.selectors.spend import SpendQuery, get_spend
from tests.controlplane.api.test_requests import record
from tests.controlplane.api.test_usage import told
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

pytestmark = pytest.mark.slow


def ms(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def charged(number: int, at: str, nanousd: int | None, **origin: Any) -> Any:
    charge = make_charge(cost_nanousd=nanousd, cost_max_nanousd=nanousd)
    return make_end(number, at_ms=ms(at), charges=(charge,), origin=make_origin(**origin))


@pytest.mark.parametrize(
    ("zone", "month", "spent"),
    [
        ("UTC", "2026-03", "110"),
        ("Asia/Kathmandu", "2026-03", "1110"),
        ("America/New_York", "2026-03", "10"),
        ("Pacific/Kiritimati", "2026-04", "0"),
        ("America/New_York", "2026-02", "1100"),
    ],
)
def test_a_month_is_the_zones_own_to_the_minute_on_both_sides_of_utc(
    admin: Caller, zone: str, month: str, spent: str
) -> None:
    Organisation.objects.filter(pk=admin.organisation.pk).update(time_zone=zone)
    record(
        admin,
        charged(1, "2026-02-28T18:30", 1_000),  # 00:15 of the next day in Kathmandu
        charged(2, "2026-03-01T04:59", 100),  # 23:59 of the day before in New York
        charged(3, "2026-03-08T07:00", 10),  # the hour New York skips
    )
    document = admin.get(f"/spend/?month={month}").json()
    assert document["time_zone"] == zone
    assert (document["spent_nanousd"], document["is_reconciled"]) == (spent, True)


def test_a_day_of_twenty_five_hours_leads_to_each_of_them(admin: Caller) -> None:
    Organisation.objects.filter(pk=admin.organisation.pk).update(time_zone="Europe/Berlin")
    record(
        admin,
        charged(1, "2026-10-25T00:30", 1),
        charged(2, "2026-10-25T01:30", 2),
        charged(3, "2026-10-25T22:59", 4),
        charged(4, "2026-10-25T23:00", 8),
    )
    document = admin.get("/spend/?day=2026-10-25").json()
    assert (document["month"], document["spent_nanousd"]) == ("2026-10", "15")
    hours = [(row["at"], row["cost_nanousd"]) for row in document["hours"]]
    assert hours == [
        ("2026-10-25T00:00:00Z", "1"),
        ("2026-10-25T01:00:00Z", "2"),
        ("2026-10-25T22:00:00Z", "4"),
    ]


def test_what_has_no_price_is_no_zero_and_lowers_no_unit_cost(admin: Caller) -> None:
    record(admin, charged(1, "2026-11-10T12:00", None))
    document = admin.get("/spend/?month=2026-11").json()
    assert document["spent_nanousd"] is None
    assert document["nanousd_per_request"] is None
    record(admin, charged(2, "2026-11-10T12:00", 4_056))
    document = admin.get("/spend/?month=2026-11&group_by=model").json()
    assert (document["spent_nanousd"], document["nanousd_per_request"]) == ("4056", "4056")
    assert document["nanousd_per_mtok"] == "1000000"
    assert document["total"]["unknown_cost"] == 1
    assert told(document, "at", "value", "cost_nanousd") == [
        ("2026-11-10T00:00:00Z", "mdl_1", "4056")
    ]


def test_the_month_under_way_has_a_forecast_and_a_budget(admin: Caller) -> None:
    organisation = admin.organisation
    now = timezone.now()
    record(admin, charged(1, f"{now:%Y-%m-%d}T00:00", 1_000))
    Budget.objects.create(
        organisation=organisation,
        name="All",
        scopes=[{"subject": "organisation", "subject_id": None}],
        amount_nanousd=5_000,
        period="month",
    )
    document = admin.get("/spend/").json()
    assert document["budget"]["amount_nanousd"] == "5000"
    assert int(document["forecast"]["at_end_nanousd"]) >= 1_000
    assert admin.get("/spend/?month=2026-01").json()["forecast"] is None


def test_changes_of_prices_are_told_by_the_models_name(admin: Caller, pool: Any) -> None:
    model = admin.get("/models/").json()["results"][0]
    price = admin.made(
        "/prices/",
        {
            "model": model["id"],
            "input_nanousd_per_mtok": "300000000",
            "output_nanousd_per_mtok": "900000000",
        },
    )
    response = admin.patch(f"/prices/{price['id']}/", {"input_nanousd_per_mtok": "1"})
    assert response.status_code == 200
    assert PriceVersion.objects.count() == 2
    made, changed = admin.get("/spend/").json()["price_changes"]
    assert (made["model"], made["action"]) == (model["name"], "create")
    assert changed["before"] == {"input_nanousd_per_mtok": "300000000"}
    assert changed["after"] == {"input_nanousd_per_mtok": "1"}


def test_a_change_of_a_price_is_told_where_it_begins_with_all_it_changes(
    admin: Caller, pool: Any
) -> None:
    model = admin.get("/models/").json()["results"][0]
    begins = datetime(2026, 3, 10, 12, tzinfo=UTC)
    amounts = {"input_nanousd_per_mtok": "1000000000", "output_nanousd_per_mtok": "2000000000"}
    asked = {"model": model["id"], **amounts, "effective_from": begins.isoformat()}
    price = admin.made("/prices/", asked)
    later = {
        "reasoning_output_nanousd_per_mtok": "3000000000",
        "request_nanousd": "1000000",
        "customer_input_nanousd_per_mtok": "5000000000",
        "effective_from": (begins + timedelta(days=60)).isoformat(),
    }
    assert admin.patch(f"/prices/{price['id']}/", later).status_code == 200

    def told_of(month: int) -> list[str]:
        query = SpendQuery(begins.date().replace(month=month, day=1))
        access = Access(is_platform_admin=True)
        spend = get_spend(access, admin.organisation, query, timezone.now())
        return [change_words(one, spend) for one in spend.price_changes]

    name = model["name"]
    (made,) = told_of(3)
    assert made.endswith(f"12:00: {name} gets a price, in $1.00, out $2.00")
    assert told_of(4) == []
    (changed,) = told_of(5)
    assert changed.endswith(
        f"{name} reasoning as the output, a request none, customers' in none, "
        "from then on reasoning $3.00, a request $0.001, customers' in $5.00"
    )
    assert admin.delete(f"/prices/{price['id']}/").status_code == 204
    ended = admin.get("/spend/").json()["price_changes"]
    assert [(one["action"], one["after"]) for one in ended] == [("delete", {})]
    assert ended[0]["before"]["request_nanousd"] == "1000000"


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("month=2026-13", "month"),
        ("month=0001-01", "month"),
        ("month=2026-11&day=2026-10-31", "day"),
        ("day=9999-12-31", "day"),
        ("group_by=colour", "group_by"),
        ("year=2026", "year"),
    ],
)
def test_a_question_that_cannot_be_answered_names_its_field(
    admin: Caller, query: str, field: str
) -> None:
    response = admin.get(f"/spend/?{query}")
    assert (response.status_code, list(response.json()["fields"])) == (400, [field])


def test_a_role_in_a_team_sees_its_projects_part_and_no_budget(
    admin: Caller, narrow: Caller
) -> None:
    document = narrow.get("/spend/").json()
    assert document["budget"] is None
    assert document["spent_nanousd"] == "0"
