"""An organisation whose channels lead to sinks on loopback, and a clock of its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone
from pydantic import SecretStr
from redis import Redis

from controlplane.alerting.evaluation import evaluate
from controlplane.alerting.outbox import send_due
from controlplane.models import AlertRule, Channel, Episode, Organisation
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import create_alert_rule
from controlplane.services.channels import create_channel
from inference.contract.kinds import WorkerState
from tests.controlplane.alerts.sinks import MailSink, Sink, http_sink, smtp_sink
from tests.controlplane.alerts.slack_sink import CONVERSATION, SIGNING, TOKEN, SlackSink, slack_sink
from tests.controlplane.fleet import put_directory, worker

Fleet = Callable[[WorkerState], None]

SECRET = "s3cr3t-CANARY-of-the-hook"


@dataclass
class Clock:
    """A time that moves when it is told to.

    It begins some minutes ahead: what services queue by the real clock is due by then, however slow
    the machine is.
    """

    now: datetime

    def __call__(self) -> datetime:
        return self.now

    def pass_s(self, seconds: float) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now

    def looks(self, count: int = 1, *, every_s: float = 10.0) -> None:
        """Look at all rules so often, each after some seconds."""
        for _ in range(count):
            evaluate(self.pass_s(every_s))

    def sends(self) -> int:
        """Send what is due now."""
        return send_due(self)


@pytest.fixture
def clock() -> Clock:
    return Clock(timezone.now() + timedelta(minutes=5))


@pytest.fixture
def sink() -> Iterator[Sink]:
    with http_sink() as found:
        yield found


@pytest.fixture(scope="session")
def mail_server() -> Iterator[MailSink]:
    with smtp_sink() as found:
        yield found


@pytest.fixture
def with_settings(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change process settings for a test."""

    def change(**values: Any) -> None:
        monkeypatch.setattr(settings, "HEADWORKS", settings.HEADWORKS.model_copy(update=values))

    return change


@pytest.fixture
def mail(mail_server: MailSink, with_settings: Callable[..., None]) -> MailSink:
    """The mail server, empty, and the settings that lead there."""
    mail_server.mails.clear()
    mail_server.recipients.clear()
    mail_server.refusals.clear()
    with_settings(smtp_url=SecretStr(mail_server.url), mail_from="headworks@example.com")
    return mail_server


@pytest.fixture
def hook(
    with_settings: Callable[..., None],
    actor: Actor,
    organisation: Organisation,
    sink: Sink,
    state_store: Redis,
) -> Channel:
    """A webhook that leads to the sink."""
    with_settings(allow_private_webhooks=True)
    return create_channel(
        actor,
        organisation=organisation,
        name="hook",
        kind="webhook",
        url=f"{sink.url}/in",
        secret=SECRET,
    )


@pytest.fixture
def slack(with_settings: Callable[..., None]) -> Iterator[SlackSink]:
    """Slack's API, and the setting that leads there."""
    with slack_sink() as found:
        with_settings(slack_api_url=found.url)
        yield found


@pytest.fixture
def make_rule(actor: Actor, organisation: Organisation) -> Callable[..., AlertRule]:
    """A rule that fires at once when a pool is down, unless it is told otherwise."""

    def make(**fields: Any) -> AlertRule:
        told = {"name": "down", "kind": "pool_down", "scope": "pool", **fields}
        return create_alert_rule(actor, organisation=organisation, **told)

    return make


@pytest.fixture
def bot(slack: SlackSink, actor: Actor, organisation: Organisation, state_store: Redis) -> Channel:
    return create_channel(
        actor,
        organisation=organisation,
        name="bot",
        kind="slack_bot",
        secret=TOKEN,
        conversation=CONVERSATION,
        signing_secret=SIGNING,
    )


@pytest.fixture
def fleet(pool: Any, state_store: Redis) -> Fleet:
    return lambda state: put_directory(state_store, worker(f"{pool['id']}-0", state))


@pytest.fixture
def fired(make_rule: Callable[..., Any], bot: Channel, fleet: Fleet, clock: Clock) -> Episode:
    """An alert that was told by the bot."""
    make_rule(channels=["bot"], runbook="https://wiki.example.com/down")
    fleet(WorkerState.FAILED)
    clock.looks(1)
    clock.sends()
    return Episode.objects.get()
