"""One message a threshold, window and channel: however many look, and whoever dies meanwhile."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from controlplane.models import AlertStanding, Delivery, Episode, Organisation
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import create_alert_rule
from controlplane.services.budget_accounts import begin_to_count
from controlplane.services.budgets import create_budget
from controlplane.services.channels import create_channel
from tests.controlplane.alerts.sinks import MailSink, Sink, http_sink, smtp_sink
from tests.controlplane.bridge.conftest import Recording, environment_of_process, wait_until
from tests.controlplane.ledger_events import feed, make_charge, make_end, make_origin

pytestmark = pytest.mark.fault

ROOT = Path(__file__).parents[3]
PROCESSES = 4
CENT = 10_000_000
LOOKS = 5


@pytest.fixture
def sinks() -> Iterator[tuple[Sink, MailSink]]:
    with http_sink() as posts, smtp_sink() as mails:
        yield posts, mails


@pytest.fixture
def start_evaluator(
    recording: Recording, sinks: tuple[Sink, MailSink]
) -> Callable[[], subprocess.Popen[bytes]]:
    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.controlplane.alerts.evaluator"],
            cwd=ROOT,
            env={
                **environment_of_process(),
                "HEADWORKS_ALLOW_PRIVATE_WEBHOOKS": "1",
                "HEADWORKS_SMTP_URL": sinks[1].url,
                "HEADWORKS_MAIL_FROM": "headworks@example.com",
            },
            stderr=subprocess.DEVNULL,
        )
        recording.running.append(process)
        return process

    return start


@pytest.fixture
def watched(
    actor: Actor, organisation: Organisation, sinks: tuple[Sink, MailSink], with_private: None
) -> Organisation:
    """A budget of ten cents a month with a rule that tells a webhook and a mail address."""
    budget = create_budget(
        actor,
        organisation=organisation,
        name="main",
        scopes=[{"subject": "organisation", "subject_id": None}],
        amount_nanousd=10 * CENT,
        period="month",
        thresholds_percent=[50, 80, 100],
    )
    begin_to_count(budget, datetime.now(UTC))
    place = {"url": f"{sinks[0].url}/in", "secret": "a-secret-of-16-characters"}
    create_channel(actor, organisation=organisation, name="hook", kind="webhook", **place)
    create_channel(
        actor, organisation=organisation, name="mail", kind="email", recipients=["a@example.com"]
    )
    create_alert_rule(
        actor,
        organisation=organisation,
        name="spent",
        kind="budget_used",
        scope="budget",
        channels=["hook", "mail"],
    )
    return organisation


@pytest.fixture
def with_private(settings: Any) -> None:
    """Let the channels of this process lead to loopback, as those of the others may."""
    told = settings.HEADWORKS.model_copy(update={"allow_private_webhooks": True})
    settings.HEADWORKS = told


def spend(recording: Recording, organisation: Organisation, numbers: range) -> None:
    """Calls of two cents each, put into the stream as gateways do."""
    at_ms = int(datetime.now(UTC).timestamp() * 1000)
    origin = make_origin(organisation_id=organisation.pk)
    charges = (make_charge(cost_nanousd=2 * CENT),)
    feed(
        recording.store,
        *(
            make_end(one, at_ms=at_ms, received_at_ms=at_ms, origin=origin, charges=charges)
            for one in numbers
        ),
    )


def looked_again() -> Callable[[], bool]:
    """Whether everything was looked at several times more."""
    seen: set[object] = set()

    def is_so() -> bool:
        seen.update(AlertStanding.objects.values_list("seen_at", flat=True))
        return len(seen) > LOOKS * AlertStanding.objects.count()

    return is_so


def test_one_message_a_threshold_and_channel_of_four_and_four_and_a_restart(
    recording: Recording,
    watched: Organisation,
    sinks: tuple[Sink, MailSink],
    start_evaluator: Callable[[], subprocess.Popen[bytes]],
) -> None:
    posts, mails = sinks

    def start_all() -> list[subprocess.Popen[bytes]]:
        recorders = [recording.start_process() for _ in range(PROCESSES)]
        return recorders + [start_evaluator() for _ in range(PROCESSES)]

    def heard(count: int) -> Callable[[], bool]:
        # what a killed process has handed over and not written down comes again, under its id
        return lambda: Delivery.objects.filter(state="sent").count() >= 2 * count

    running = start_all()
    spend(recording, watched, range(1, 4))
    wait_until(heard(1), "half of the budget told")
    spend(recording, watched, range(4, 5))
    wait_until(heard(2), "four fifths told")
    for process in running:
        process.kill()
    for process in running:
        process.wait()
    spend(recording, watched, range(5, 11))
    start_all()
    wait_until(heard(3), "all of it told")
    wait_until(looked_again(), "further looks")

    told = [json.loads(one.body) for one in posts.posts]
    assert [one["alerts"][0]["threshold"] for one in told] == [50.0, 80.0, 100.0]
    assert len({one["id"] for one in told}) == 3
    subjects = [str(one["Subject"]) for one in mails.mails]
    assert [one.startswith("Firing: spent, budget main") for one in subjects] == [True] * 3
    assert len({str(one["Message-ID"]) for one in mails.mails}) == 3
    assert Counter(Delivery.objects.values_list("state", flat=True)) == {"sent": 6}
    assert Episode.objects.count() == 3
    text = told[1]["text"]
    assert "80 %; 80 % or more is an alert." in text, "what is used, and of what it is an alert"
    assert "$0.10 until " in text
