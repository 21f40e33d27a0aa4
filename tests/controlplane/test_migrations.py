"""What an upgrade makes of the rows that are there."""

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connection
from django.utils import timezone

from controlplane.models import Route
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

BEFORE = "0006"


@pytest.fixture
def before(actor: Actor) -> Iterator[str]:
    """The database as the release before left it, with an organisation: its id."""
    home = create_organisation(actor, name="Old").pk
    call_command("migrate", "controlplane", BEFORE, verbosity=0)
    yield home
    call_command("migrate", verbosity=0)


def test_a_route_keeps_its_strategy_and_comes_down_to_what_can_be_configured(
    before: str,
) -> None:
    now = timezone.now()
    columns = (
        "id, organisation_id, name, strategy, is_enabled, accounting, default_max_output_tokens,"
        " max_attempts, connect_timeout_ms, first_byte_timeout_ms, idle_timeout_ms,"
        " total_timeout_ms, version, created_at, updated_at"
    )
    row = [
        "rt_1",
        before,
        "chat",
        "weighted",
        True,
        "lenient",
        1,
        50,
        10**8,
        1,
        1,
        None,
        1,
        now,
        now,
    ]
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO controlplane_route ({columns}) VALUES ({', '.join(['%s'] * len(row))})",
            row,
        )
    call_command("migrate", verbosity=0)
    route = Route.objects.get()
    assert (route.strategy, route.max_attempts) == ("weighted", 10)
    assert (route.connect_timeout_ms, route.total_timeout_ms) == (86_400_000, None)
    assert (route.retry_budget_percent, route.max_wait_penalty) == (20, 0.5)
    assert route.keep_alive_ms is None
