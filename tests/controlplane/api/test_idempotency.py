"""A POST repeated under its Idempotency-Key is done once and answered alike."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import AuditEntry, KeptAnswer, Key, Pool, Role, RoleBinding
from controlplane.services.actors import Actor
from controlplane.services.idempotency import forget_old_answers
from controlplane.services.users import create_user, grant_role
from tests.controlplane.conftest import POOL, Caller


def test_a_repeated_call_is_done_once_and_answered_alike(admin: Caller) -> None:
    first = admin.post("/pools/", POOL, Idempotency_Key="one")
    second = admin.post("/pools/", POOL, Idempotency_Key="one")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.content == second.content
    assert first["ETag"] == second["ETag"] == '"1"'
    assert "Idempotency-Replayed" not in first
    assert second["Idempotency-Replayed"] == "true"
    assert Pool.objects.count() == 1
    assert AuditEntry.objects.filter(noun="pools").count() == 1


def test_a_key_made_twice_is_one_key_with_one_secret_kept_sealed(admin: Caller) -> None:
    first = admin.post("/keys/", {"name": "mine"}, Idempotency_Key="one").json()
    second = admin.post("/keys/", {"name": "mine"}, Idempotency_Key="one").json()
    assert first == second
    assert first["key"].startswith("hw_")
    assert Key.objects.count() == 1
    kept = KeptAnswer.objects.get()
    assert first["key"] not in f"{kept.answer}{kept.key}{kept.fingerprint}"


@pytest.mark.parametrize(
    ("path", "document"), [("/pools/", {**POOL, "replicas": 2}), ("/keys/", {"name": "mine"})]
)
def test_another_call_under_a_used_key_is_refused(
    path: str, document: dict[str, Any], admin: Caller
) -> None:
    admin.post("/pools/", POOL, Idempotency_Key="one")
    response = admin.post(path, document, Idempotency_Key="one")
    assert response.status_code == 422
    assert response.json()["code"] == "idempotency_key_reused"


def test_a_refused_call_leaves_its_key_free(admin: Caller) -> None:
    refused = admin.post("/pools/", {**POOL, "name": "no name"}, Idempotency_Key="one")
    assert refused.status_code == 400
    assert admin.post("/pools/", POOL, Idempotency_Key="one").status_code == 201


def test_a_key_is_its_callers_own(admin: Caller, make_caller: Any) -> None:
    other = make_caller("admin")
    assert admin.post("/pools/", POOL, Idempotency_Key="one").status_code == 201
    theirs = other.post("/pools/", POOL, Idempotency_Key="one")
    assert theirs.status_code == 201
    assert theirs.json()["organisation_id"] == other.organisation.pk


def test_actions_are_done_once_too(admin: Caller) -> None:
    key = admin.made("/keys/", {"name": "mine"})
    path = f"/keys/{key['id']}/rotate/"
    first = admin.post(path, {"overlap_s": 60}, Idempotency_Key="one").json()
    assert admin.post(path, {"overlap_s": 60}, Idempotency_Key="one").json() == first
    assert admin.get(f"/keys/{key['id']}/").json()["version"] == 2


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there"])
def test_a_key_that_is_no_key_is_refused(key: str, admin: Caller) -> None:
    response = admin.post("/pools/", POOL, Idempotency_Key=key)
    assert response.status_code == 400
    assert list(response.json()["fields"]) == ["Idempotency-Key"]


def test_an_answer_is_kept_for_a_day(admin: Caller) -> None:
    admin.post("/pools/", POOL, Idempotency_Key="old")
    long_ago = timezone.now() - timedelta(hours=24, seconds=1)
    KeptAnswer.objects.update(created_at=long_ago)
    renamed = {**POOL, "name": "other"}
    assert admin.post("/pools/", renamed, Idempotency_Key="old").status_code == 201
    KeptAnswer.objects.update(created_at=long_ago)
    admin.post("/keys/", {"name": "mine"}, Idempotency_Key="new")
    assert forget_old_answers(timezone.now()) == 1
    assert [kept.key for kept in KeptAnswer.objects.all()] == ["new"]


def test_an_answer_is_not_repeated_to_who_lost_the_role_it_took(admin: Caller) -> None:
    first = admin.post("/keys/", {"name": "mine"}, Idempotency_Key="one")
    RoleBinding.objects.filter(organisation=admin.organisation).update(role=Role.VIEWER)
    refused = admin.post("/keys/", {"name": "mine"}, Idempotency_Key="one")
    assert refused.status_code == 403
    assert first.json()["key"] not in refused.content.decode()
    RoleBinding.objects.filter(organisation=admin.organisation).update(role=Role.OPERATOR)
    assert admin.post("/keys/", {"name": "mine"}, Idempotency_Key="one").json() == first.json()


def test_a_password_is_not_repeated_to_who_is_no_longer_in_charge(
    admin: Caller, make_caller: Any, actor: Actor
) -> None:
    user = create_user(actor, username="mira", password="a long pass 1")
    grant_role(actor, subject=user, organisation=admin.organisation, role=Role.VIEWER)
    path = f"/users/{user.pk}/reset-password/"
    assert admin.post(path, Idempotency_Key="one").status_code == 200
    assert admin.post(path, Idempotency_Key="one").status_code == 200
    RoleBinding.objects.filter(service_account__isnull=False).update(role=Role.OPERATOR)
    refused = admin.post(path, Idempotency_Key="one")
    assert (refused.status_code, "password" in refused.json()) == (403, False)


def test_many_at_once_are_repeated_only_to_who_may_do_all(admin: Caller) -> None:
    operations = [{"action": "create", "data": {"name": one}} for one in ("a", "b")]
    document = {"operations": operations}
    first = admin.post("/keys/bulk/", document, Idempotency_Key="one").json()
    assert admin.post("/keys/bulk/", document, Idempotency_Key="one").json() == first
    RoleBinding.objects.update(role=Role.FINANCE)
    assert admin.post("/keys/bulk/", document, Idempotency_Key="one").status_code == 403
