"""Banners about budgets on the pages of what they count for, and on My usage."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from redis import Redis

from controlplane.compiler import budget_record
from controlplane.models import Budget, BudgetAccount, Key, Role
from controlplane.selectors.budget_warnings import MOST_WARNINGS, list_warned
from controlplane.selectors.budgets import ledger_id
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.keys import create_key
from controlplane.services.users import create_user
from inference.decisions.budgets import window_of
from inference.decisions.rules import zone_of
from tests.controlplane.console.conftest import PASSWORD, Reader
from tests.controlplane.console.flows import words_of
from tests.controlplane.console.test_budget_pages import budget, spend

pytestmark = pytest.mark.slow


@pytest.fixture
def key(admin: Reader, actor: Actor) -> Key:
    return create_key(actor, organisation=admin.organisation, name="app").key


@pytest.fixture
def admin(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ada", Role.ADMIN)


def counted(reader: Reader, actor: Actor, key: Key, dollars: float, **fields: Any) -> Budget:
    """A budget of each key of $10 a day, of which a key has spent so much."""
    told = {"scopes": [{"subject": "key", "subject_id": None}], **fields}
    made = budget(reader, actor, "each", **told)
    begin_to_count(made, timezone.now())
    origin = {
        "team_id": key.project.team_id,
        "project_id": key.project_id,
        "key_id": key.pk.partition("_")[2],
    }
    spend(reader, 1, dollars, **origin)
    return made


def pages_of(key: Key) -> list[str]:
    return [
        f"/organisations/{key.organisation_id}/",
        f"/teams/{key.project.team_id}/",
        f"/projects/{key.project_id}/",
        f"/keys/{key.pk}/",
        "/me/usage/",
    ]


def told_on(reader: Reader, paths: list[str]) -> list[bool]:
    return ["See the budget" in words_of(reader.page(one)) for one in paths]


@pytest.mark.parametrize(
    ("dollars", "fields", "told"),
    [
        (10, {}, "is used up: $10.00 of $10.00. Requests that cost anything are refused until"),
        (8, {}, "is nearly used up: $8.00 of $10.00. Once it is, requests that cost anything"),
        (11, {"action": "notify"}, "$11.00 of $10.00. Every request is still served."),
        (
            6,
            {"action": "throttle", "acts_at_percent": 50, "throttle_per_minute": 7},
            "7 requests a minute are let in and others wait, until",
        ),
        (9, {"is_rolling": True}, "is nearly used up: $9.00 of $10.00."),
    ],
)
def test_a_page_tells_what_its_budget_does_and_what_to_do(
    admin: Reader,
    actor: Actor,
    key: Key,
    state_store: Redis,
    dollars: float,
    fields: dict[str, Any],
    told: str,
) -> None:
    counted(admin, actor, key, dollars, **fields)
    words = words_of(admin.page(f"/keys/{key.pk}/"))
    assert "Budget each (key app)" in words
    assert told in words
    assert "Raise it for a time, or edit its amount, on its page. See the budget" in words


def test_a_budget_shows_on_the_pages_of_what_it_counts_and_no_others(
    admin: Reader, actor: Actor, key: Key, state_store: Redis
) -> None:
    other = create_key(actor, organisation=admin.organisation, name="other").key
    counted(admin, actor, key, 10)
    assert told_on(admin, pages_of(key)) == [False, False, False, True, True]
    assert told_on(admin, [f"/keys/{other.pk}/"]) == [False]
    Budget.objects.update(is_enabled=False)
    assert not any(told_on(admin, pages_of(key)))


def test_a_budget_of_the_whole_organisation_shows_on_all_of_them(
    admin: Reader, actor: Actor, key: Key, state_store: Redis
) -> None:
    counted(admin, actor, key, 10, scopes=[{"subject": "organisation", "subject_id": None}])
    assert all(told_on(admin, pages_of(key)))


def test_many_accounts_of_a_large_budget_dont_crowd_out_a_small_one(
    admin: Reader, actor: Actor
) -> None:
    now = timezone.now()
    each = [{"subject": "key", "subject_id": None}]
    made = [
        budget(admin, actor, name, scopes=each, amount_nanousd=amount)
        for name, amount in (("large", 10**12), ("small", 10**7))
    ]
    told = [(one, budget_record(one)) for one in made]
    window = window_of(told[0][1], zone_of(admin.organisation.time_zone), now.timestamp())
    begins, ends = (datetime.fromtimestamp(one, UTC) for one in (window.starts_s, window.ends_s))
    keys = [f"key_{number}" for number in range(5 * MOST_WARNINGS)]
    for one in made:
        for pk in keys[: 1 if one.name == "small" else None]:
            BudgetAccount.objects.create(
                key=f"{one.pk}:{pk}",
                budget_id=one.pk,
                organisation_id=admin.organisation.pk,
                subjects=[ledger_id("key", pk)],
                starts_at=begins,
                ends_at=ends,
                spent_nanousd=one.amount_nanousd,
                updated_at=now,
            )
    found = list_warned(told, admin.organisation, {"key": keys}, now)
    assert [one.name for one, *_ in found] == ["large"] * MOST_WARNINGS + ["small"]


@pytest.mark.parametrize("subject", ["end_user", "tag"])
def test_what_callers_name_shows_nowhere(
    admin: Reader, actor: Actor, key: Key, state_store: Redis, subject: str
) -> None:
    scopes = [{"subject": subject, "subject_id": None}]
    counted(admin, actor, key, 0, scopes=scopes, amount_nanousd=0)
    assert not any(told_on(admin, pages_of(key)))


def test_my_usage_of_whoever_is_out_of_money_stays_readable_and_tells_no_sums_of_others(
    admin: Reader, actor: Actor, key: Key, state_store: Redis
) -> None:
    whole = [{"subject": "organisation", "subject_id": None}]
    counted(admin, actor, key, 10, scopes=whole, owner="Finn")
    user = create_user(actor, username="vi", password=PASSWORD)
    grant_role(
        actor,
        subject=user,
        organisation=admin.organisation,
        project=key.project,
        role=Role.VIEWER,
    )
    client = Client()
    client.force_login(user)
    viewer = Reader(client, admin.organisation)
    words = words_of(viewer.page("/me/usage/"))
    assert "Budget each (the whole organisation) is used up. Requests that cost" in words
    assert "$10.00 of $10.00" not in words
    assert "Ask Finn, who answers for it, for more." in words
    assert "Requests by" in words
    assert words.count("$10.00") > 0, "his own project's usage is there"


def test_a_store_that_does_not_answer_costs_no_page(
    admin: Reader, actor: Actor, key: Key, settings: Any, tmp_path: Any
) -> None:
    counted(admin, actor, key, 10)
    settings.HEADWORKS = type(settings.HEADWORKS)(state_url=f"unix://{tmp_path}/none.sock?db=0")
    assert "is used up: $10.00 of $10.00." in words_of(admin.page(f"/keys/{key.pk}/"))


def test_what_pages_warn_of_is_had_by_rest(
    admin: Reader, actor: Actor, key: Key, state_store: Redis
) -> None:
    made = counted(admin, actor, key, 10)
    for asked, count in ((f"?key={key.pk}", 1), (f"?project={key.project_id}", 0), ("", 1)):
        answer = admin.client.get(f"/api/v1/budgets/warnings/{asked}")
        assert answer.status_code == 200
        assert len(answer.json()) == count
    told = answer.json()[0]
    assert (told["budget"], told["state"], told["about"]) == (made.pk, "blocked", "key app")
    assert (told["spent_nanousd"], told["used_percent"]) == (str(10 * 10**9), 100.0)
    assert admin.client.get("/api/v1/budgets/warnings/?key=none").status_code == 400
