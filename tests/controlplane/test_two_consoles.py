"""Two consoles on one database: what one does, the other has, and nothing is lost between them."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.test import override_settings
from redis import Redis
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from controlplane.models import (
    AuditEntry,
    CatalogueModel,
    ConfigRevision,
    Key,
    Organisation,
    Pool,
    Role,
)
from controlplane.services.actors import Actor
from controlplane.services.users import create_user, grant_role
from inference.contract import wire
from tests.controlplane.bridge.conftest import MANAGE, environment_of_process
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.console.flows import inputs_of, words_of
from tests.controlplane.consoles import Console, running_console
from tests.controlplane.snapshots import newest_revision, staged_snapshot
from tests.installation import ROOT

pytestmark = pytest.mark.slow

ROUNDS = 9
PASSWORD = "a-long-enough-passphrase-4"
HASHERS = settings.PASSWORD_HASHERS
"""Those of a console that runs by itself; tests have a quicker one."""
SIGNED_OUT = 4401


@pytest.fixture(scope="module")
def running(
    django_db_setup: None, collected_files: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Console, Console]]:
    logs = tmp_path_factory.mktemp("consoles")
    with running_console(logs / "first") as first, running_console(logs / "second") as second:
        yield first, second


@pytest.fixture
def two(transactional_db: None, running: tuple[Console, Console]) -> tuple[Console, Console]:
    return running


def test_of_patches_through_two_consoles_none_is_lost_but_that_of_an_older_version(
    two: tuple[Console, Console], admin: Caller, state_store: Redis
) -> None:
    headers = {"authorization": f"Bearer {admin.token}"}
    status, pool = two[0].ask("POST", "/api/v1/pools/", POOL, **headers)
    assert status == 201
    path = f"/api/v1/pools/{pool['id']}/"

    def patch(console: Console, change: dict[str, Any]) -> int:
        return console.ask("PATCH", path, change, **headers)[0]

    with ThreadPoolExecutor(2) as threads:
        for number in range(2, 2 + ROUNDS):
            changes = ({"replicas": number}, {"drain_timeout_s": number})
            assert list(threads.map(patch, two, changes)) == [200, 200]
            if number % 5:
                continue
            now = two[1].ask("GET", path, **headers)[1]
            assert (now["replicas"], now["drain_timeout_s"]) == (number, number)
    now = two[1].ask("GET", path, **headers)[1]
    newest = newest_revision()
    staged = staged_snapshot(newest).pools[pool["id"]]
    assert (staged.replicas, staged.drain_timeout_s) == (ROUNDS + 1, ROUNDS + 1)
    assert now["version"] == 1 + 2 * ROUNDS
    versions = ConfigRevision.objects.order_by("id").values_list("version", flat=True)
    assert list(versions) == list(range(1, newest.version + 1))
    assert state_store.hget(wire.MANIFEST, "version") == str(newest.version).encode()

    def patch_known(console: Console, replicas: int) -> int:
        known = {**headers, "If_Match": f'"{now["version"]}"'}
        return console.ask("PATCH", path, {"replicas": replicas}, **known)[0]

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(patch_known, two, (5, 6))) == [200, 412]
    assert two[0].ask("GET", path, **headers)[1]["version"] == now["version"] + 1


def test_one_idempotency_key_through_two_consoles_makes_one_key_with_one_secret(
    two: tuple[Console, Console], admin: Caller
) -> None:
    headers = {"authorization": f"Bearer {admin.token}", "Idempotency_Key": "once"}

    def make(console: Console, name: str = "mine") -> tuple[int, Any]:
        return console.ask("POST", "/api/v1/keys/", {"name": name}, **headers)

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(make, two * 4))
    assert [status for status, _ in answers] == [201] * 8
    assert len({answer["key"] for _, answer in answers}) == 1
    assert Key.objects.count() == 1
    assert make(two[0], "other")[0] == 422


def test_an_answer_of_a_console_that_died_is_told_by_another(
    two: tuple[Console, Console], admin: Caller, tmp_path: Path
) -> None:
    headers = {"authorization": f"Bearer {admin.token}", "Idempotency_Key": "once"}
    with running_console(tmp_path / "dying") as dying:
        status, first = dying.ask("POST", "/api/v1/keys/", {"name": "mine"}, **headers)
        dying.kill()
    assert status == 201
    assert two[1].ask("POST", "/api/v1/keys/", {"name": "mine"}, **headers) == (201, first)
    assert Key.objects.count() == 1


def test_the_calls_of_the_manual_work_as_pasted(
    two: tuple[Console, Console], admin: Caller
) -> None:
    admin.made("/pools/", POOL)
    admin.made("/routes/", ROUTE)
    manual = (ROOT / "docs/api.md").read_text().partition("## The REST API")[2]
    blocks = re.findall(r"^```\n(.*?)^```", manual.partition("### Nouns")[0], re.M | re.S)
    calls = [block for block in blocks if "curl" in block]
    assert len(calls) == 5
    failing = 'curl() { command curl -sS --fail-with-body "$@"; }\n'
    done = subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", failing + "".join(calls)],
        env={
            **os.environ,
            "CONSOLE_URL": f"http://127.0.0.1:{two[0].port}",
            "API_TOKEN": admin.token,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert '"key":"hw_' in done.stdout
    assert CatalogueModel.objects.filter(name__in=("model-a", "model-b")).count() == 2


@dataclass
class Browser:
    """One browser's cookies; every page is asked of whichever console is named."""

    client: httpx.Client = field(default_factory=lambda: httpx.Client(timeout=30))

    def get(self, console: Console, path: str) -> httpx.Response:
        return self.client.get(f"http://127.0.0.1:{console.port}{path}")

    def page(self, console: Console, path: str) -> str:
        answer = self.get(console, path)
        assert answer.status_code == 200, answer.text[:300]
        return answer.text

    def post(self, console: Console, path: str, values: dict[str, Any]) -> httpx.Response:
        headers = {"X-CSRFToken": self.client.cookies[settings.CSRF_COOKIE_NAME]}
        url = f"http://127.0.0.1:{console.port}{path}"
        return self.client.post(url, data=values, headers=headers)

    def sign_in(self, console: Console) -> None:
        self.page(console, "/accounts/login/")
        answer = self.post(console, "/accounts/login/", {"login": "mira", "password": PASSWORD})
        assert answer.status_code == 302, words_of(answer.text)

    def sign_out(self, console: Console) -> None:
        assert self.post(console, "/accounts/logout/", {}).status_code == 302

    def is_signed_in(self, console: Console) -> bool:
        answer = self.get(console, "/me/")
        assert answer.status_code in (200, 302)
        return answer.status_code == 200


@pytest.fixture
def browser(
    two: tuple[Console, Console], admin: Caller, actor: Actor, state_store: Redis
) -> Iterator[Browser]:
    """An operator's browser, not signed in yet."""
    with override_settings(PASSWORD_HASHERS=HASHERS):
        user = create_user(actor, username="mira", password=PASSWORD)
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.OPERATOR)
    found = Browser()
    yield found
    found.client.close()


@contextmanager
def running_feed() -> Iterator[None]:
    feed = subprocess.Popen(
        [sys.executable, str(MANAGE), "run_feed"],
        env=environment_of_process(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
    finally:
        feed.terminate()
        assert feed.wait(120) == 0


def live_page(console: Console, browser: Browser, organisation: Organisation) -> ClientConnection:
    """The socket of the overview, as this browser opens it."""
    name = settings.SESSION_COOKIE_NAME
    return connect(
        f"ws://127.0.0.1:{console.port}/ws/live/overview/?organisation={organisation.pk}",
        additional_headers={"Cookie": f"{name}={browser.client.cookies[name]}"},
        origin=f"http://127.0.0.1:{console.port}",  # type: ignore[arg-type]
    )


def test_who_signs_in_at_one_console_is_in_at_both_until_signing_out_at_either(
    two: tuple[Console, Console], browser: Browser, admin: Caller
) -> None:
    """Pages, and a live page that is open at the other console."""
    first, second = two
    assert [browser.is_signed_in(console) for console in two] == [False, False]
    browser.sign_in(first)
    assert [browser.is_signed_in(console) for console in two] == [True, True]
    held = dict(browser.client.cookies)
    with running_feed(), live_page(second, browser, admin.organisation) as socket:
        assert "seq" in json.loads(socket.recv(timeout=30))
        browser.sign_out(first)
        with suppress(ConnectionClosed):
            while socket.recv(timeout=30):
                pass
        assert socket.close_code == SIGNED_OUT
    assert [browser.is_signed_in(console) for console in two] == [False, False]
    # the session itself is over, whatever the browser still sends
    browser.client.cookies.update(held)
    assert [browser.is_signed_in(console) for console in two] == [False, False]


def test_a_change_of_one_console_is_saved_at_the_other_or_answered_with_both_changes(
    two: tuple[Console, Console], browser: Browser, admin: Caller
) -> None:
    browser.sign_in(two[0])
    a_review_at_one_is_saved_at_the_other(two, browser, admin)
    a_form_older_than_an_edit_at_the_other_tells_both_changes(two, browser, admin)


def a_review_at_one_is_saved_at_the_other(
    two: tuple[Console, Console], browser: Browser, admin: Caller
) -> None:
    first, second = two
    pool = admin.made("/pools/", POOL)
    path = f"/pools/{pool['id']}/edit/"
    secret = "a-credential-nobody-should-read"
    filled = {
        **inputs_of(browser.page(first, path)),
        "name": "upstream",
        "credential": secret,
    }
    reviewed = browser.post(first, path, {**filled, "step": "review"})
    assert reviewed.status_code == 200
    assert "Review changes to pool" in words_of(reviewed.text)
    assert secret not in reviewed.text
    told = {**inputs_of(reviewed.text), "step": "save", "reason": "a new upstream"}
    saved = browser.post(second, path, told)
    assert (saved.status_code, saved.headers["Location"]) == (
        302,
        f"/pools/{pool['id']}/?applied={newest_revision().version}",
    )
    row = Pool.objects.get(pk=pool["id"])
    assert (row.name, row.credential_last4) == ("upstream", secret[-4:])
    entry = AuditEntry.objects.latest("id")
    assert (entry.actor_label, entry.reason) == ("mira", "a new upstream")
    # a second click, at either console, changes nothing twice
    assert [browser.post(console, path, told).status_code for console in two] == [412, 412]
    assert Pool.objects.get(pk=pool["id"]).version == row.version


def a_form_older_than_an_edit_at_the_other_tells_both_changes(
    two: tuple[Console, Console], browser: Browser, admin: Caller
) -> None:
    first, second = two
    model = admin.made("/models/", {"name": "a-model"})
    path = f"/models/{model['id']}/edit/"
    filled = {**inputs_of(browser.page(first, path)), "max_context_tokens": "4096"}
    headers = {"authorization": f"Bearer {admin.token}"}
    theirs = {"max_context_tokens": 8192}
    assert first.ask("PATCH", f"/api/v1/models/{model['id']}/", theirs, **headers)[0] == 200
    stale = browser.post(second, path, {**filled, "step": "save"})
    assert stale.status_code == 412
    assert {"4096", "8192"} <= set(re.findall(r"\d{4}", words_of(stale.text).replace(",", "")))
    row = CatalogueModel.objects.get(pk=model["id"])
    assert row.max_context_tokens == 8192
    reviewed = browser.post(second, path, {**inputs_of(stale.text), "step": "review"})
    told = {**inputs_of(reviewed.text), "step": "save", "reason": "it has to be less"}
    assert browser.post(first, path, told).status_code == 302
    row.refresh_from_db()
    assert row.max_context_tokens == 4096
