"""The pages of API keys: a text is shown once, and nothing keeps it."""

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.models import AuditEntry, Key, KeyDigest, Project, Role
from controlplane.services.actors import Actor
from controlplane.services.keys import create_key, revoke_key, update_key
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from inference.contract.kinds import Outcome
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.test_pools import hidden_in, post
from tests.controlplane.console.test_request_pages import rows_of, words_of
from tests.controlplane.ledger_events import make_end, make_origin

pytestmark = pytest.mark.slow


TEXT = re.compile(r"hw_[0-9a-z]{26}\.[A-Za-z0-9_-]{43}")


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ola", Role.OPERATOR)


def make_key(reader: Reader, actor: Actor, name: str = "app", **fields: Any) -> Key:
    return create_key(actor, organisation=reader.organisation, name=name, **fields).key


def use(reader: Reader, key: Key, *, now: Any = None, requests: int = 1, **changes: Any) -> None:
    """Record requests that came with this key."""
    at = now or timezone.now()
    origin = make_origin(organisation_id=reader.organisation.pk, key_id=key.public_id)
    ends = [
        make_end(number, origin=origin, at_ms=int(at.timestamp() * 1000), **changes)
        for number in range(1, requests + 1)
    ]
    reader.record(*ends, now=at)


def make_route(reader: Reader, actor: Actor, name: str = "chat") -> None:
    pool = create_pool(
        actor,
        organisation=reader.organisation,
        name=f"pool-of-{name}",
        model="gpt-x",
        provisioner="static",
        addresses=["http://127.0.0.1:9000/v1"],
    )
    create_route(
        actor, organisation=reader.organisation, name=name, targets=[TargetChoice(pool, 1)]
    )


def create_fields(reader: Reader, page: str, **changes: Any) -> dict[str, Any]:
    project = Project.objects.get(organisation=reader.organisation)
    fields = {"name": "app", "project": project.pk, "scopes": ["inference"], "reach": "every"}
    fields["priority"] = "default"
    return {**hidden_in(page), **fields, "step": "save", **changes}


def test_a_new_key_is_shown_once_and_is_nowhere_else(operator: Reader) -> None:
    fields = create_fields(operator, operator.page("/keys/new/"))
    made = post(operator, "/keys/new/", fields)
    page = made.content.decode()
    assert made.headers["Cache-Control"] == "private, no-store"
    (text,) = set(TEXT.findall(page))
    assert f"OPENAI_API_KEY={text}" in page
    key = Key.objects.get()
    assert f'data-shown-once="/keys/{key.pk}/"' in page
    secret = text.partition(".")[2]
    for path in ("/keys/", f"/keys/{key.pk}/", f"/keys/{key.pk}/?tab=activity"):
        assert secret not in operator.page(path)
    kept = [str((one.before, one.after, one.reason)) for one in AuditEntry.objects.all()]
    kept += [str(vars(one)) for one in KeyDigest.objects.all()]
    assert all(secret not in one for one in kept)
    again = post(operator, "/keys/new/", fields).content.decode()
    assert "has a live key of this name already" in again
    assert secret not in again


def test_a_key_is_made_for_chosen_routes_or_for_none(operator: Reader, actor: Actor) -> None:
    make_route(operator, actor)
    page = operator.page("/keys/new/")
    post(operator, "/keys/new/", create_fields(operator, page, reach="some", routes=["chat"]))
    post(operator, "/keys/new/", create_fields(operator, page, name="none", reach="some"))
    rows = {row.split()[0]: row for row in rows_of(operator.page("/keys/"))}
    assert " inference chat never " in rows["app"]
    assert " inference none never " in rows["none"]


def test_a_row_tells_prefix_project_reach_use_and_state(operator: Reader, actor: Actor) -> None:
    key = make_key(operator, actor)
    use(operator, key, requests=3)
    (row,) = rows_of(operator.page("/keys/"))
    started = f"app hw_{key.public_id[:10]}… Default inference all never today 3 Active "
    assert row.startswith(started)


def test_states_can_be_filtered_and_are_never_guessed(operator: Reader, actor: Actor) -> None:
    now = timezone.now()
    make_key(operator, actor, "plain")
    make_key(operator, actor, "soon", expires_at=now + timedelta(days=3))
    old = make_key(operator, actor, "old", expires_at=now + timedelta(days=1))
    Key.objects.filter(pk=old.pk).update(expires_at=now - timedelta(days=1))
    make_key(operator, actor, "off", is_enabled=False)
    revoke_key(actor, key_id=make_key(operator, actor, "gone").pk)

    def named(query: str) -> dict[str, str]:
        words = ("Active", "Expires soon", "Expired", "Disabled", "Revoked")
        rows = rows_of(operator.page(f"/keys/?{query}"))
        return {row.split()[0]: next(one for one in words if f" {one}" in row) for row in rows}

    assert named("") == {
        "plain": "Active", "soon": "Expires soon", "old": "Expired", "off": "Disabled",
        "gone": "Revoked",
    }  # fmt: skip
    assert set(named("state=live")) == {"plain", "soon", "off"}
    assert set(named("state=expiring")) == {"soon"}
    assert set(named("state=revoked")) == {"gone"}


def test_more_keys_take_no_more_queries(operator: Reader, actor: Actor) -> None:
    make_route(operator, actor)

    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            operator.page("/keys/")
        return len(seen)

    make_key(operator, actor, "first", routes=["chat"])
    operator.page("/keys/")
    first = queries()
    for number in range(5):
        make_key(operator, actor, f"more-{number}", routes=["chat"])
    assert queries() == first


def test_another_organisation_s_key_is_not_there(
    operator: Reader, make_reader: Callable[..., Reader], actor: Actor
) -> None:
    other = make_reader("eve", Role.ADMIN)
    key = make_key(other, actor, "theirs")
    assert "theirs" not in operator.page("/keys/")
    for path in ("", "edit/", "rotate/", "revoke/", "disable/"):
        assert operator.get(f"/keys/{key.pk}/{path}").status_code == 404


def test_a_viewer_sees_keys_and_may_not_change_them(reader: Reader, actor: Actor) -> None:
    key = make_key(reader, actor)
    assert "New key" not in reader.page("/keys/")
    page = reader.page(f"/keys/{key.pk}/")
    assert f"/keys/{key.pk}/revoke/" not in page
    for path in ("new/", f"{key.pk}/edit/", f"{key.pk}/rotate/", f"{key.pk}/revoke/"):
        assert reader.get(f"/keys/{path}").status_code == 403


@pytest.mark.parametrize(("overlap_s", "accepted"), [("0", 1), ("3600", 2)])
def test_a_rotation_shows_the_new_text_once_and_until_when_the_old_one_works(
    overlap_s: str, accepted: int, operator: Reader, actor: Actor
) -> None:
    key = make_key(operator, actor)
    path = f"/keys/{key.pk}/rotate/"
    page = operator.page(path)
    assert "the current one, made" in words_of(page)
    fields = {**hidden_in(page), "overlap_s": overlap_s, "reason": "every month", "step": "save"}
    shown = post(operator, path, fields).content.decode()
    (text,) = set(TEXT.findall(shown))
    until = "Old secrets are accepted until" if accepted == 2 else "accepted no longer"
    assert until in words_of(shown)
    assert KeyDigest.objects.count() == accepted
    detail = operator.page(f"/keys/{key.pk}/")
    assert words_of(detail).count("Ends in ") == accepted
    assert f"Ends in {text[-4:]} Made" in words_of(detail)
    assert text not in detail
    assert AuditEntry.objects.order_by("-id")[0].reason == "every month"
    again = post(operator, path, fields).content.decode()
    assert "Somebody changed the key meanwhile" in words_of(again)
    assert TEXT.search(again) is None


def test_ending_the_old_secret_now_takes_a_reason(operator: Reader, actor: Actor) -> None:
    key = make_key(operator, actor)
    path = f"/keys/{key.pk}/rotate/"
    fields = {**hidden_in(operator.page(path)), "overlap_s": "0", "step": "save"}
    assert "(optional, unless the old secret ends now)" in operator.page(path)
    unsaid = post(operator, path, fields).content.decode()
    assert "Give a reason." in unsaid
    assert TEXT.search(unsaid) is None
    assert KeyDigest.objects.get().accepted_until is None
    assert TEXT.search(post(operator, path, {**fields, "reason": "leaked"}).content.decode())


def test_a_rotation_without_a_free_place_for_a_secret_says_so(
    operator: Reader, actor: Actor
) -> None:
    key = make_key(operator, actor)
    path = f"/keys/{key.pk}/rotate/"
    for _ in range(4):
        fields = {**hidden_in(operator.page(path)), "overlap_s": "3600", "step": "save"}
        assert TEXT.search(post(operator, path, fields).content.decode())
    fields = {**hidden_in(operator.page(path)), "overlap_s": "3600", "step": "save"}
    told = post(operator, path, fields).content.decode()
    assert "5 secrets of this key are accepted already." in words_of(told)


def test_an_edit_tells_reach_and_use_and_needs_a_reason_for_what_callers_feel(
    operator: Reader, actor: Actor
) -> None:
    make_route(operator, actor)
    key = make_key(operator, actor)
    use(operator, key)
    path = f"/keys/{key.pk}/edit/"
    fields = {
        **hidden_in(operator.page(path)), "name": "app", "scopes": ["inference"],
        "reach": "some", "routes": ["chat"], "priority": "default",
    }  # fmt: skip
    words = words_of(post(operator, path, {**fields, "step": "review"}).content.decode())
    assert "Routes every route chat" in words
    assert "1 requests in 30 days, last today" in words
    unsaid = post(operator, path, {**fields, "step": "save"})
    assert "Give a reason." in unsaid.content.decode()
    assert post(operator, path, {**fields, "step": "save", "reason": "narrow"}).status_code == 302
    key.refresh_from_db()
    assert (key.is_restricted, [one.name for one in key.routes.all()]) == (True, ["chat"])


def test_an_unchanged_form_changes_nothing_not_even_the_seconds_of_a_time(
    operator: Reader, actor: Actor
) -> None:
    at = (timezone.now() + timedelta(days=90)).replace(second=37, microsecond=0)
    key = make_key(operator, actor, expires_at=at)
    path = f"/keys/{key.pk}/edit/"
    page = operator.page(path)
    value = re.search(r'name="expires_at" value="([^"]+)"', page)
    assert value is not None
    fields = {
        **hidden_in(page), "name": "app", "scopes": ["inference"], "reach": "every",
        "expires_at": value[1], "priority": "default", "step": "review",
    }  # fmt: skip
    words = words_of(post(operator, path, fields).content.decode())
    assert "Nothing differs from what is saved." in words


def test_a_key_is_disabled_and_enabled_by_review(operator: Reader, actor: Actor) -> None:
    key = make_key(operator, actor)
    path = f"/keys/{key.pk}/disable/"
    fields = {**hidden_in(operator.page(path)), "step": "save"}
    assert "Give a reason." in post(operator, path, fields).content.decode()
    assert post(operator, path, {**fields, "reason": "leak"}).status_code == 302
    key.refresh_from_db()
    assert not key.is_enabled
    path = f"/keys/{key.pk}/enable/"
    fields = {**hidden_in(operator.page(path)), "step": "save"}
    assert post(operator, path, fields).status_code == 302


def test_revoking_a_key_in_use_takes_its_name_and_one_that_rests_only_a_reason(
    operator: Reader, actor: Actor
) -> None:
    busy, idle = make_key(operator, actor, "busy"), make_key(operator, actor, "idle")
    use(operator, busy, outcome=Outcome.REFUSED, charges=())
    use(operator, idle, now=timezone.now() - timedelta(hours=2))
    for key, is_confirmed in ((busy, True), (idle, False)):
        path = f"/keys/{key.pk}/revoke/"
        page = operator.page(path)
        assert ("It was used in the last hour." in words_of(page)) is is_confirmed
        assert "curl -X POST" in page
        assert f"/api/v1/keys/{key.pk}/revoke/" in page
        fields = {**hidden_in(page), "step": "save"}
        assert "Give a reason." in post(operator, path, fields).content.decode()
        fields["reason"] = "no longer needed"
        if is_confirmed:
            told = post(operator, path, fields).content.decode()
            assert f"Type {key.name} to confirm." in words_of(told)
            fields["confirm"] = key.name
        assert post(operator, path, fields).status_code == 302
        key.refresh_from_db()
        assert key.revoked_at is not None
        assert key.digests.count() == 0
    detail = operator.page(f"/keys/{busy.pk}/")
    assert "its secrets are forgotten" in words_of(detail)
    assert f"/keys/{busy.pk}/edit/" not in detail


def test_what_became_of_a_key_is_in_its_activity(operator: Reader, actor: Actor) -> None:
    key = make_key(operator, actor)
    update_key(actor, key_id=key.pk, changes={"name": "renamed"})
    words = words_of(operator.page(f"/keys/{key.pk}/?tab=activity"))
    assert "Changed by tests via command" in words
    assert "Name app renamed" in words
