"""What is edited by REST, as a gateway does it: secrets of keys over time, credentials of pools."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from django.utils import timezone

from controlplane.bridge.vitals import read_fleet
from controlplane.models import AuditEntry, KeyDigest, Role
from controlplane.services.actors import Actor
from controlplane.services.users import create_user, grant_role
from dashboards.documents import encode, message_of
from dashboards.kinds import Page
from dashboards.scenes import read_newest
from dashboards.scopes import LiveScope
from inference.contract.snapshot import ConfigSnapshot
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.snapshots import staged_snapshot
from tests.inference.clocks import HandClock
from tests.inference.gateway.client import chat
from tests.inference.gateway.rig import running_gateway
from tests.upstream.fixtures import Upstream

pytestmark = pytest.mark.slow


OVERLAP_S = 10
CREDENTIAL = "CANARY-upstream-secret-7Qf2"


@pytest.fixture
def served(admin: Caller, upstream: Upstream) -> Any:
    """A pool at the upstream with a credential, and the route `chat` over it."""
    pool = {**POOL, "addresses": [upstream.base_url], "credential": CREDENTIAL}
    made = admin.made("/pools/", pool)
    admin.made("/routes/", ROUTE)
    return made


@pytest.fixture
def rotated(admin: Caller, served: Any) -> tuple[str, str, datetime]:
    """A key's old text and its new one, and when the overlap began."""
    key = admin.made("/keys/", {"name": "app"})
    answer = admin.post(f"/keys/{key['id']}/rotate/", {"overlap_s": OVERLAP_S})
    until = KeyDigest.objects.get(key=key["id"], accepted_until__isnull=False).accepted_until
    return key["key"], answer.json()["key"], until


@pytest.fixture
def snapshot(rotated: tuple[str, str, datetime]) -> ConfigSnapshot:
    return staged_snapshot()


async def statuses(snapshot: ConfigSnapshot, clock: HandClock, *texts: str) -> list[int]:
    """What a gateway of this configuration answers to these keys."""
    async with running_gateway(
        snapshot,
        data_key=settings.HEADWORKS.data_key_bytes,
        peppers=settings.HEADWORKS.peppers,
        clock=clock,
    ) as gateway:
        return [(await chat(gateway.port, model="chat", token=text)).status for text in texts]


async def test_a_rotated_key_has_two_secrets_until_the_overlap_is_over(
    rotated: tuple[str, str, datetime], snapshot: ConfigSnapshot
) -> None:
    old, new, until = rotated
    clock = HandClock(until.timestamp() - OVERLAP_S)
    clock.move(1)
    assert await statuses(snapshot, clock, old, new) == [200, 200]
    clock.move(OVERLAP_S - 1.001)
    assert await statuses(snapshot, clock, old, new) == [200, 200]
    clock.move(0.001)
    assert await statuses(snapshot, clock, old, new) == [401, 200]
    clock.move(1)
    assert await statuses(snapshot, clock, old, new) == [401, 200]


@pytest.fixture
def renamed(admin: Caller, served: Any) -> str:
    """A key's text, after the pool got another name and nothing else."""
    answer = admin.patch(f"/pools/{served['id']}/", {"name": "renamed"})
    assert (answer.status_code, answer.json()["name"]) == (200, "renamed")
    text: str = admin.made("/keys/", {"name": "app"})["key"]
    return text


@pytest.fixture
def renamed_snapshot(renamed: str) -> ConfigSnapshot:
    return staged_snapshot()


async def test_a_pool_that_got_another_name_still_sends_its_credential(
    renamed: str, renamed_snapshot: ConfigSnapshot, upstream: Upstream
) -> None:
    clock = HandClock(datetime.now(UTC).timestamp())
    assert await statuses(renamed_snapshot, clock, renamed) == [200]
    (call,) = upstream.calls
    assert call.headers["authorization"] == f"Bearer {CREDENTIAL}"


def test_no_live_answer_message_or_page_of_a_pool_holds_its_credential(
    admin: Caller, served: Any, renamed: str, actor: Actor, state_store: Any, collected_files: None
) -> None:
    user = create_user(actor, username="ann", password="a long pass 1")
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.ADMIN)
    client = Client()
    client.force_login(user)
    home, pool = admin.organisation.pk, served["id"]
    live = f"organisation={home}&window=5m"
    newest = AuditEntry.objects.filter(noun="pools").latest("pk").pk
    paths = (
        *(f"/live/overview/?{live}", f"/live/pool/?{live}&pool={pool}"),
        *(f"/pools/{pool}/?tab={tab}" for tab in ("live", "replicas", "config", "activity")),
        *("/", "/pools/", f"/pools/{pool}/edit/", "/system/", "/snapshots/", f"/audit/{newest}/"),
    )
    told = {path: client.get(path) for path in paths}
    assert {path: one.status_code for path, one in told.items()} == dict.fromkeys(paths, 200)
    texts = [one.content.decode() for one in told.values()]
    texts += [
        admin.get(path).content.decode()
        for path in (f"/pools/{pool}/", f"/live/?pool={pool}", "/audit/", "/gateways/", "/system/")
    ]
    fleet = read_fleet()
    for scope in (LiveScope(home, Page.OVERVIEW, "", "5m"), LiveScope(home, Page.POOL, pool, "5m")):
        scene = read_newest(scope, timezone.now(), fleet)
        texts.append(encode(message_of(scene, epoch="e", seq=1)))
    assert "renamed" in texts[0]
    assert [one for one in texts if CREDENTIAL in one] == []


@pytest.fixture
def switched(admin: Caller, served: Any) -> tuple[list[str], ConfigSnapshot, float]:
    """Two keys, one of which a switch turns off for an hour, and when that hour ends."""
    keys = [admin.made("/keys/", {"name": name}) for name in ("leaked", "sound")]
    until = timezone.now().replace(microsecond=0) + timedelta(hours=1)
    off = {"subject": "key", "subject_id": "leaked", "expires_at": until.isoformat()}
    admin.made("/switches/", off)
    return [key["key"] for key in keys], staged_snapshot(), until.timestamp()


async def test_a_key_that_is_switched_off_is_refused_until_the_time_is_over(
    switched: tuple[list[str], ConfigSnapshot, float],
) -> None:
    texts, snapshot, until = switched
    clock = HandClock(until - 0.001)
    assert await statuses(snapshot, clock, *texts) == [403, 200]
    clock.move(0.001)
    assert await statuses(snapshot, clock, *texts) == [200, 200]
