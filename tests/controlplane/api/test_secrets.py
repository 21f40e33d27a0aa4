"""A credential goes in and never comes out, by whatever door."""

from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from controlplane.models import AuditEntry, Pool, Role
from controlplane.services.actors import Actor
from controlplane.services.pools import update_pool
from controlplane.services.users import create_user, grant_role
from inference.contract.sealing import decrypt
from tests.controlplane.conftest import POOL, Caller
from tests.controlplane.snapshots import staged_snapshot

pytestmark = pytest.mark.slow


CANARY = "CANARY-upstream-secret-7Qf2"


@pytest.fixture
def guarded(admin: Caller) -> dict[str, Any]:
    made: dict[str, Any] = admin.made("/pools/", {**POOL, "credential": CANARY})
    return made


def sent_upstream(pool: dict[str, Any]) -> str | None:
    sealed = staged_snapshot().pools[pool["id"]].credential
    return None if sealed is None else decrypt(settings.HEADWORKS.data_key_bytes, sealed)


def test_no_answer_holds_the_credential_or_its_ciphertext(
    admin: Caller, guarded: dict[str, Any]
) -> None:
    sealed = Pool.objects.get().credential
    assert sealed is not None
    path = f"/pools/{guarded['id']}/"
    answers = [
        admin.get("/pools/"),
        admin.get(path),
        admin.patch(path, {"name": "renamed"}),
        admin.patch(path, {"name": "Not A Name"}),
        admin.get("/audit/"),
        admin.get("/snapshots/"),
    ]
    for answer in answers:
        assert CANARY not in answer.content.decode()
        assert sealed not in answer.content.decode()
    assert (guarded["has_credential"], guarded["credential_last4"]) == (True, CANARY[-4:])
    assert "credential" not in guarded


def test_the_audit_table_holds_neither(guarded: dict[str, Any]) -> None:
    sealed = Pool.objects.get().credential
    rows = str(list(AuditEntry.objects.values()))
    assert CANARY not in rows
    assert str(sealed) not in rows
    assert "[redacted]" in rows


def test_no_page_holds_the_credential(
    actor: Actor, admin: Caller, guarded: dict[str, Any], collected_files: None
) -> None:
    user = create_user(actor, username="ann", password="a long pass 1")
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.ADMIN)
    client = Client()
    client.force_login(user)
    for path in ("/", "/requests/", "/api/docs/", "/-/status"):
        page = client.get(path, follow=True, headers={"accept": "text/html"})
        assert page.status_code == 200
        assert CANARY not in page.content.decode()


def test_a_patch_without_the_credential_keeps_it(admin: Caller, guarded: dict[str, Any]) -> None:
    admin.patch(f"/pools/{guarded['id']}/", {"name": "renamed"})
    assert sent_upstream(guarded) == CANARY


@pytest.mark.parametrize(
    "document",
    [
        {"credential": "***7Qf2"},
        {"credential": "••••7Qf2"},
        {"credential_last4": "0000"},
        {"has_credential": False},
        {"credential": ""},
    ],
)
def test_a_mask_sent_back_does_not_overwrite_the_secret(
    document: dict[str, object], admin: Caller, guarded: dict[str, Any]
) -> None:
    assert admin.patch(f"/pools/{guarded['id']}/", document).status_code == 400
    assert sent_upstream(guarded) == CANARY


def test_a_new_credential_replaces_the_old_and_null_takes_it_away(
    admin: Caller, guarded: dict[str, Any]
) -> None:
    path = f"/pools/{guarded['id']}/"
    admin.patch(path, {"credential": "another-secret-1234"})
    assert sent_upstream(guarded) == "another-secret-1234"
    admin.patch(path, {"credential": None})
    assert sent_upstream(guarded) is None


def test_the_same_credential_again_is_no_change(admin: Caller, guarded: dict[str, Any]) -> None:
    response = admin.patch(f"/pools/{guarded['id']}/", {"credential": CANARY})
    assert response.json()["version"] == 1


def test_a_short_credential_shows_nothing_of_itself(admin: Caller) -> None:
    pool = admin.made("/pools/", {**POOL, "credential": "short"})
    assert (pool["has_credential"], pool["credential_last4"]) == (True, "")


def test_a_credential_of_a_lost_data_key_can_be_replaced(
    admin: Caller, actor: Any, guarded: dict[str, Any]
) -> None:
    Pool.objects.update(credential="AAAA")
    update_pool(actor, pool_id=guarded["id"], changes={"credential": CANARY})
    assert sent_upstream(guarded) == CANARY


def test_a_token_in_a_reason_is_masked(admin: Caller, guarded: dict[str, Any]) -> None:
    path = f"/pools/{guarded['id']}/"
    admin.patch(path, {"replicas": 2}, X_Headworks_Reason=f"as {admin.token} said")
    for noun in ("audit", "snapshots"):
        newest = admin.get(f"/{noun}/").json()["results"][0]
        assert newest["reason"] == "as [redacted] said"
