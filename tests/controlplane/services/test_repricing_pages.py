"""A repricing goes through the ledger page by page, whatever it is of and however slow that is."""

from datetime import timedelta

import psycopg
import pytest
from django.db import connection

from controlplane.models import Repricing, RepricingState, SpendCorrection
from controlplane.services.repricings import SLOW, TOO_SLOW, request_repricing, step
from controlplane.tasks.prices import reprice
from tests.controlplane.services.test_repricings import KNOWN, World, priced, sums

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


@pytest.fixture
def world(db: None) -> World:
    return World()


def test_a_page_that_is_done_twice_corrects_once(world: World) -> None:
    priced(world)
    world.record(KNOWN)
    job = world.reprice()
    world.book(job)
    Repricing.objects.update(state=RepricingState.BOOKING, cursor=None)
    step(job.pk)
    assert SpendCorrection.objects.count() == 1
    assert sums()[0] == (30, 0, 1, 1)


@pytest.mark.django_db(transaction=True)
def test_a_page_that_takes_too_long_says_so_and_is_tried_smaller(world: World) -> None:
    priced(world)
    for _ in range(12):
        world.record(KNOWN)
    job = request_repricing(
        world.actor,
        organisation=world.home,
        since=world.now - timedelta(hours=1),
        until=world.now,
        scope={},
    )
    with (
        psycopg.connect(**connection.get_connection_params()) as other,
        connection.cursor() as cursor,
    ):
        other.execute("LOCK TABLE controlplane_charge IN ACCESS EXCLUSIVE MODE")
        cursor.execute("SET statement_timeout = '300ms'")
        pages = []
        for _ in range(7):
            assert reprice() == job.pk
            job.refresh_from_db()
            pages.append((job.page, job.detail))
        cursor.execute("RESET statement_timeout")
    assert pages == [*((page, SLOW) for page in (250, 125, 62, 31, 15, 10)), (10, TOO_SLOW)]
    assert reprice() == job.pk
    job.refresh_from_db()
    # by ten and two, and longer ones from then on
    assert (job.state, job.done, job.page, job.detail) == ("ready", 12, 40, "")
    assert job.sums["total"]["changed"] == 12


def test_a_stretch_of_the_ledger_without_anything_to_price_is_passed_over(world: World) -> None:
    priced(world)
    for project in ("proj_1", *["proj_2"] * 12, "proj_1"):
        world.record(KNOWN, project_id=project)
    job = request_repricing(
        world.actor,
        organisation=world.home,
        since=world.now - timedelta(hours=1),
        until=world.now,
        scope={"project_id": "proj_1"},
    )
    Repricing.objects.update(page=3)
    assert step(job.pk)
    job.refresh_from_db()
    assert (job.state, job.total, job.done) == ("summing", 2, 1)
    while step(job.pk):
        pass
    job.refresh_from_db()
    assert (job.state, job.done, job.sums["total"]["changed"]) == ("ready", 2, 2)
