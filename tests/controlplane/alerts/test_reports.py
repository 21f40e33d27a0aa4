"""A scheduled report reaches a real mail server, once, with its figures."""

from datetime import UTC, datetime

import pytest

from controlplane.decisions.ledger import read_fact
from controlplane.models import Organisation, ReportSchedule
from controlplane.services.actors import Actor
from controlplane.services.channels import create_channel
from controlplane.services.schedules import create_schedule, send_due
from controlplane.services.usage import record_usage
from inference.contract.codec import encode_event
from tests.controlplane.alerts.conftest import Clock
from tests.controlplane.alerts.sinks import MailSink
from tests.controlplane.ledger_events import NOON, make_end, make_origin

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


def test_a_report_is_mailed_once_with_who_used_what(
    mail: MailSink, organisation: Organisation, actor: Actor, clock: Clock
) -> None:
    origin = make_origin(organisation_id=organisation.pk, end_user="<b>ann</b>\0")
    # as the recorder reads it: what PostgreSQL can't store is replaced
    end = read_fact(encode_event(make_end(1, origin=origin)))
    record_usage([end], now=NOON)
    channel = create_channel(
        actor, organisation=organisation, name="cfo", kind="email", recipients=["cfo@example.com"]
    )
    create_schedule(
        actor,
        organisation=organisation,
        name="Who used what",
        group_by="end_user",
        cadence="daily",
        channel=channel,
    )
    ReportSchedule.objects.update(since=datetime(2026, 1, 1, tzinfo=UTC))
    morning = datetime(2026, 11, 25, 7, tzinfo=UTC)
    for _ in range(2):
        send_due(morning)
        clock.sends()
    (sent,) = mail.mails
    assert sent["Subject"] == "Who used what: 24 November 2026"
    text, markup = (part.get_content() for part in sent.iter_parts())
    assert "$0.0004872, 1 request in all, 24 November 2026, days of UTC." in text
    assert "<b>ann</b>\ufffd" in text
    assert "&lt;b&gt;ann&lt;/b&gt;" in markup
