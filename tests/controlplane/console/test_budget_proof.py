"""A budget put to the test from its page and by REST: each step says what was found."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from controlplane.models import (
    AlertRule,
    AuditEntry,
    Budget,
    BudgetAccount,
    Channel,
    Delivery,
    Episode,
    Role,
)
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import create_alert_rule
from controlplane.services.budgets import create_budget
from controlplane.services.channels import create_channel
from inference.contract import wire
from inference.contract.codec import encode_vitals
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Applied, Vitals
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


def test_it_counts_warns_adds_up_and_blocks(
    admin: Reader, actor: Actor, state_store: Redis
) -> None:
    budget = made(admin, actor)
    before = set(state_store.keys("hw:limits:*"))
    assert "really gets a test message" in words_of(admin.page(f"/budgets/{budget.pk}/test/"))
    words = outcome_of(admin, budget)
    assert "Published Proved Gateways are given it as it is here." in words
    assert "Counts Proved A request of $0.000000001 that is of all its scopes" in words
    assert "Warns Proved An alert rule on a copy fires where each is reached" in words
    assert "and not before: 50 %, 80 %, 100 %." in words
    assert "Accrues Proved Two costs of a copy capped at $0.00000001 were reserved," in words
    assert "Blocks Proved The budget all of this end user and tag and model is" in words
    assert "Gateways Look at it No gateway is up, so none could be asked." in words
    assert "Tells Look at it No alert rule watches it" in words
    assert set(state_store.keys("hw:limits:*")) == before, "nothing of it is left"
    assert not BudgetAccount.objects.exists()
    assert not Episode.objects.exists()
    assert not AlertRule.objects.exists()
    assert list(Budget.objects.values_list("pk", flat=True)) == [budget.pk]
    entry = AuditEntry.objects.filter(noun="budgets", action="test").get()
    assert entry.after["blocks"] == "ok"


def test_it_is_done_so_often_at_most(admin: Reader, actor: Actor, state_store: Redis) -> None:
    budget = made(admin, actor)
    outcome_of(admin, budget)
    answer = admin.client.post(f"/budgets/{budget.pk}/test/")
    assert answer.status_code == 409
    assert "A budget was put to the test just now" in words_of(answer.content.decode())
    assert AuditEntry.objects.filter(noun="budgets", action="test").count() == 1


class Answering(threading.Thread):
    """A gateway process, as far as a test of a budget asks it: it says what it is told to."""

    def __init__(self, store: Redis, words: str) -> None:
        super().__init__(daemon=True)
        self.store, self.words, self.is_over = store, words, threading.Event()

    def run(self) -> None:
        while not self.is_over.wait(0.01):
            for word in self.store.hkeys(wire.BUDGET_PROOFS):
                self.store.hset(wire.budget_proof_key(word.decode()), "gw/0", self.words)

    def __enter__(self) -> None:
        vitals = Vitals(
            role=ProcessRole.GATEWAY,
            gateway="gw",
            process="gw/0",
            pid=1,
            started_at=time.time(),
            written_at=time.time(),
            applied=Applied(),
        )
        self.store.set(wire.vitals_key("gw/0"), encode_vitals(vitals), ex=60)
        self.store.zadd(wire.SEEN, {"gw/0": time.time()})
        self.start()

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        self.join()


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("refused There is no room.", "Gateways Proved All 1 gateway processes; gw/0: There is"),
        ("let_in It lets the next in.", "Gateways Failed 1 of 1 gateway processes do otherwise"),
    ],
)
def test_each_gateway_that_is_up_is_asked(
    admin: Reader, actor: Actor, state_store: Redis, said: str, told: str
) -> None:
    budget = made(admin, actor)
    with Answering(state_store, said):
        assert told in outcome_of(admin, budget)
    assert not state_store.exists(wire.BUDGET_PROOFS)


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
    state_store.delete(*state_store.keys("hw:budget-tests:*"))
    assert "Tells Look at it Switched off: ops." in outcome_of(admin, budget)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"action": "notify"},
            "Acts Proved With all of the copy spent nobody is refused; people are told.",
        ),
        (
            {"action": "throttle", "acts_at_percent": 80, "throttle_per_minute": 5},
            "With all of the copy spent 5 requests a minute have a place.",
        ),
        ({"action": "cheaper"}, "With all of the copy spent requests go to the cheaper model."),
        ({"is_enabled": False}, "Published Look at it Gateways know it, and that it is off"),
        ({"thresholds_percent": []}, "Warns Look at it It has no threshold"),
        ({"is_rolling": True}, "Accrues Proved"),
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
