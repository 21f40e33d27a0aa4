"""`/-/metrics`: what it tells, to whom, and without the database."""

import json
import re
from typing import Any

import pytest
from django.test import Client
from pydantic import SecretStr
from redis import Redis

from controlplane.models import Delivery, Organisation
from controlplane.services.actors import Actor
from controlplane.services.channels import create_channel
from controlplane.services.deliveries import send_test
from tests.architecture.sources import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]

NAME = re.compile(r"headworks_control_\w+")


def read(**fields: Any) -> dict[str, float]:
    answer = Client().get("/-/metrics", HTTP_HOST="localhost", **fields)
    assert answer.status_code == 200
    lines = [one for one in answer.content.decode().splitlines() if not one.startswith("#")]
    return {name: float(value) for name, _, value in (one.rpartition(" ") for one in lines)}


def test_it_tells_how_recorder_outbox_and_books_are(
    actor: Actor, organisation: Organisation, state_store: Redis
) -> None:
    channel = create_channel(
        actor, organisation=organisation, name="ops", kind="email", recipients=["a@example.com"]
    )
    for _ in range(3):
        send_test(actor, channel_id=channel.pk)
    dead = Delivery.objects.order_by("pk").first()
    assert dead is not None
    Delivery.objects.filter(pk=dead.pk).update(state="failed")
    told = read()
    assert told['headworks_control_outbox_messages{state="queued"}'] == 2
    assert told['headworks_control_outbox_messages{state="failed"}'] == 1
    assert told['headworks_control_alerts_firing{severity="critical"}'] == 0
    assert told['headworks_control_up{part="database"}'] == 1
    assert told["headworks_control_recorder_lag_seconds"] == 0
    assert told["headworks_control_outbox_oldest_seconds"] >= 0
    assert not any(name.startswith("headworks_control_books_differences") for name in told)


def test_only_this_machine_reads_it_or_who_has_the_token(state_store: Redis, settings: Any) -> None:
    ask = Client().get
    assert ask("/-/metrics", HTTP_HOST="127.0.0.1:8300").status_code == 200
    assert ask("/-/metrics", HTTP_HOST="localhost", REMOTE_ADDR="10.0.0.7").status_code == 403
    # a proxy on this machine hands on the name it was asked by
    assert ask("/-/metrics", HTTP_HOST="testserver").status_code == 403
    token = "t" * 16
    settings.HEADWORKS = settings.HEADWORKS.model_copy(update={"metrics_token": SecretStr(token)})
    assert ask("/-/metrics", HTTP_HOST="localhost").status_code == 403
    allowed = {"HTTP_AUTHORIZATION": f"Bearer {token}", "REMOTE_ADDR": "10.0.0.7"}
    assert ask("/-/metrics", HTTP_HOST="testserver", **allowed).status_code == 200


def test_documents_and_dashboard_name_what_there_is() -> None:
    source = (ROOT / "controlplane" / "bridge" / "control_metrics.py").read_text()
    served = {f"headworks_control_{name}" for name in re.findall(r'yield "(\w+)"', source)}
    assert len(served) > 10
    told = set(NAME.findall((ROOT / "docs" / "operating.md").read_text()))
    assert told == served
    dashboard = json.loads((ROOT / "docs" / "grafana" / "control.json").read_text())
    queries = [each["expr"] for one in dashboard["panels"] for each in one["targets"]]
    assert {name for one in queries for name in NAME.findall(one)} == served
