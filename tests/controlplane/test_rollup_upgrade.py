"""The upgrade sums from the ledger what the recorder would have counted."""

import random
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import Sum
from django.utils import timezone

from controlplane.models import SpendCorrection, UsageDay, UsageHour, UsageNamed, UsagePriced
from controlplane.services.actors import Actor
from controlplane.services.corrections import create_correction
from controlplane.services.organisations import create_organisation, update_organisation
from controlplane.services.usage import record_usage
from inference.contract.events import Usage
from inference.contract.kinds import Outcome
from tests.controlplane.ledger_events import NOON_MS, make_charge, make_end, make_origin

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

BEFORE = "0017"
HOUR_MS = 3_600_000
THEN = date(2026, 10, 1)
"""Before the ledger begins."""


def rows() -> dict[str, Any]:
    return {
        model.__name__: sorted(model.objects.values_list(*columns(model)), key=repr)
        for model in (UsageHour, UsageDay, UsageNamed, UsagePriced)
    }


def columns(model: Any) -> list[str]:
    """All that is counted, but not when."""
    return [one.name for one in model._meta.concrete_fields if one.name != "changed_at"]


def make_ends(home: str) -> list[Any]:
    draw = random.Random(7)
    unpriced = {"price": None, "cost_nanousd": None, "cost_max_nanousd": None}
    ends = []
    for number in range(200):
        origin = make_origin(
            organisation_id=home,
            project_id=f"proj_{number % 3}",
            route_id=draw.choice(["rt_1", None]),
            end_user=draw.choice(["ann", None]),
            tags=draw.choice([(), ("a",), ("a", "b", "c")]),
        )
        charges = tuple(
            make_charge(
                attempt=attempt + 1,
                pool_id=f"pool_{draw.randrange(2)}",
                usage=draw.choice([Usage(), Usage(10, 5, 2)]),
                **draw.choice([{}, unpriced]),
            )
            for attempt in range(draw.randrange(3))
        )
        at_ms = NOON_MS + draw.randrange(72 * HOUR_MS)
        outcome, status = draw.choice(list(Outcome)), draw.choice([200, 404, 503])
        ends.append(
            make_end(
                number + 1,
                at_ms=at_ms,
                origin=origin,
                charges=charges,
                outcome=outcome,
                http_status=status,
            )
        )
    return ends


def test_an_upgrade_sums_the_ledger_as_the_recorder_does(actor: Actor) -> None:
    home = create_organisation(actor, name="Old", time_zone="Asia/Kathmandu").pk
    record_usage(make_ends(home), now=timezone.now())
    counted = rows()
    assert all(counted.values())
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE kept_day AS TABLE controlplane_usageday")
    call_command("migrate", "controlplane", BEFORE, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO controlplane_usageday (organisation_id, day, dimension, value, label, "
            "requests, errors, attempts, prompt_tokens, completion_tokens, cached_tokens, "
            "cost_nanousd, unknown_usage, unknown_cost) SELECT DISTINCT ON (1, 2, 3, 4) "
            "organisation_id, day, dimension, value, label, 0, 0, 0, 0, 0, 0, 0, 0, 0 FROM kept_day"
        )
        cursor.execute("DROP TABLE kept_day")
        # of a day whose ledger was removed by hand
        for dimension, value in (("team", "team_9"), ("project", "proj_9")):
            cursor.execute(
                "INSERT INTO controlplane_usageday (organisation_id, day, dimension, value, label, "
                "requests, errors, attempts, prompt_tokens, completion_tokens, cached_tokens, "
                "cost_nanousd, unknown_usage, unknown_cost) "
                "VALUES (%s, %s, %s, %s, 'Then', 9, 0, 9, 90, 0, 0, 900, 0, 0)",
                [home, THEN, dimension, value],
            )
    call_command("migrate", verbosity=0)
    told = rows()
    told["UsageDay"] = [row for row in told["UsageDay"] if THEN not in row]
    assert told == counted
    keeps_older_days(actor, home)


def keeps_older_days(actor: Actor, home: str) -> None:
    """Those the ledger can't tell again stay as they were, also in another time zone."""
    older = UsageDay.objects.filter(day=THEN).order_by("dimension")
    kept = list(older)
    assert [(row.value, row.project_id, row.label, row.cost_nanousd) for row in kept] == [
        ("proj_9", "proj_9", "Then", 900),
        ("team_9", "", "Then", 900),
    ]
    summed = UsageDay.objects.aggregate(Sum("attempts"), Sum("cost_nanousd"))
    for zone in ("America/Lima", "Asia/Kathmandu"):
        update_organisation(actor, organisation_id=home, changes={"time_zone": zone})
        assert UsageDay.objects.aggregate(Sum("attempts"), Sum("cost_nanousd")) == summed
        assert [row.attempts for row in older.all()] == [row.attempts for row in kept]


def test_an_upgrade_takes_corrections_in(actor: Actor) -> None:
    home = create_organisation(actor, name="Old")
    team = home.teams.get()
    record_usage(make_ends(home.pk), now=timezone.now())
    finance = replace(actor, reason="it was wrong")
    for amount in (-100, 30):
        create_correction(
            finance, organisation=home, amount_nanousd=amount, subject="team", subject_id=team.pk
        )
    counted = rows()["UsagePriced"]
    assert [row.cost_nanousd for row in UsagePriced.objects.filter(team_id=team.pk)] == [-70]
    call_command("migrate", "controlplane", "0022", verbosity=0)
    call_command("migrate", verbosity=0)
    assert rows()["UsagePriced"] == counted


def test_an_upgrade_leaves_out_what_was_repriced_before_the_ledger_begins(actor: Actor) -> None:
    home = create_organisation(actor, name="Old")
    corrected = SpendCorrection(
        organisation_id=home.pk,
        day=THEN,
        at=datetime(THEN.year, THEN.month, THEN.day, 12, tzinfo=UTC),
        received_at=datetime(THEN.year, THEN.month, THEN.day, 12, tzinfo=UTC),
        repricing_id="rpr_1",
        amount_nanousd=-900,
        was_unknown=True,
    )
    corrected.save()
    for ends in ((), make_ends(home.pk)):
        if ends:
            record_usage(ends, now=timezone.now())
        counted = rows()["UsagePriced"]
        call_command("migrate", "controlplane", "0023", verbosity=0)
        call_command("migrate", verbosity=0)
        assert rows()["UsagePriced"] == counted
        assert bool(counted) == bool(ends)
