"""A budget put to the test from its page and by REST: each step says what was found."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from controlplane.bridge import budget_proof
from controlplane.bridge.budget_counters import drop_counter
from controlplane.models import (
    AuditEntry,
    Budget,
    BudgetAccount,
    Channel,
    Delivery,
    Role,
)
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import create_alert_rule
from controlplane.services.budgets import create_budget
from controlplane.services.channels import create_channel
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import words_of

pytestmark = pytest.mark.slow

DOLLAR = 10**9


@pytest.fixture
def admin(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ada", Role.ADMIN)


def made(reader: Reader, actor: Actor, **changes: Any) -> Budget:
    told = {
        "name": "all",
        "scopes": [
            {"subject": "end_user", "subject_id": None},
            {"subject": "tag", "subject_id": "gold"},
            {"subject": "model", "subject_id": None},
        ],
        "amount_nanousd": 2 * DOLLAR,
        "period": "month",
        **changes,
    }
    return create_budget(actor, organisation=reader.organisation, **told)


def outcome_of(reader: Reader, budget: Budget) -> str:
    answer = reader.client.post(f"/budgets/{budget.pk}/test/")
    assert answer.status_code == 200
    return words_of(answer.content.decode())


def test_it_counts_adds_up_warns_and_blocks(
    admin: Reader, actor: Actor, state_store: Redis
) -> None:
    budget = made(admin, actor)
    before = set(state_store.keys("hw:limits:*"))
    assert "really gets a test message" in words_of(admin.page(f"/budgets/{budget.pk}/test/"))
    words = outcome_of(admin, budget)
    assert "Published Proved Gateways are given it as it is here." in words
    assert "Counts Proved A request of $0.50 that is of all its scopes" in words
    assert "Accrues Proved Two costs of $0.50 add up to $1.00 in the store." in words
    assert "Blocks Proved The budget all of this end user and tag and model is $2.00" in words
    assert "Warns Proved Each is passed where it is reached: 50 %, 80 %, 100 %." in words
    assert "Tells Look at it No alert rule watches it" in words
    assert set(state_store.keys("hw:limits:*")) == before, "nothing of it is left"
    assert not BudgetAccount.objects.exists()
    entry = AuditEntry.objects.filter(noun="budgets", action="test").get()
    assert entry.after["blocks"] == "ok"


def test_two_tests_of_one_budget_count_at_places_of_their_own(
    admin: Reader, actor: Actor, state_store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[str] = []

    def noting(store: Redis, key: str) -> None:
        dropped.append(key)
        drop_counter(store, key)

    monkeypatch.setattr(budget_proof, "drop_counter", noting)
    budget = made(admin, actor)
    for _ in range(2):
        assert "Accrues Proved" in outcome_of(admin, budget)
    assert len(set(dropped)) == 2


def test_its_channels_really_get_a_message(admin: Reader, actor: Actor, state_store: Redis) -> None:
    budget = made(admin, actor)
    create_channel(
        actor,
        organisation=admin.organisation,
        name="ops",
        kind="email",
        recipients=["ops@example.com"],
    )
    create_alert_rule(
        actor,
        organisation=admin.organisation,
        name="budgets",
        kind="budget_used",
        scope="budget",
        channels=["ops"],
    )
    assert "Tells Proved A test message is on its way by ops" in outcome_of(admin, budget)
    assert [one.kind for one in Delivery.objects.all()] == ["test"]
    Channel.objects.update(is_enabled=False)
    assert "Tells Look at it Switched off: ops." in outcome_of(admin, budget)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"action": "notify"}, "Acts Proved Nobody is refused; people are told."),
        (
            {"action": "throttle", "acts_at_percent": 80, "throttle_per_minute": 5},
            "Once $1.60 are spent, gateways let in 5 requests a minute.",
        ),
        ({"action": "cheaper"}, "Once $2.00 are spent, gateways send requests to the cheaper"),
        ({"is_enabled": False}, "Published Look at it Gateways know it, and that it is off"),
        ({"thresholds_percent": []}, "Warns Look at it It has no threshold"),
        ({"is_rolling": True}, "in the store."),
        ({"amount_nanousd": 0}, "Warns Proved"),
    ],
)
def test_what_it_does_instead_of_blocking_is_told(
    admin: Reader, actor: Actor, state_store: Redis, changes: dict[str, Any], told: str
) -> None:
    words = outcome_of(admin, made(admin, actor, **changes))
    assert told in words
    assert "Failed" not in words


def test_only_who_may_change_it_tests_it(
    make_reader: Callable[..., Reader], admin: Reader, actor: Actor
) -> None:
    budget = made(admin, actor)
    viewer = make_reader("vi", Role.VIEWER)
    assert viewer.client.post(f"/budgets/{budget.pk}/test/").status_code in (403, 404)
    assert not AuditEntry.objects.filter(action="test").exists()


def test_a_store_that_does_not_answer_is_told(
    admin: Reader, actor: Actor, settings: Any, tmp_path: Path
) -> None:
    budget = made(admin, actor)
    settings.HEADWORKS = type(settings.HEADWORKS)(state_url=f"unix://{tmp_path}/none.sock?db=0")
    assert "Accrues Failed The state store does not answer" in outcome_of(admin, budget)
