"""Changing pools by their pages: acts, edits, credentials, copies, removal."""

import pytest

from controlplane.models import AuditEntry, Pool
from controlplane.services.actors import Actor
from controlplane.services.routes import TargetChoice, create_route
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.test_pools import (
    SECRET,
    hidden_in,
    operator,
    post,
    process_pool,
    static_pool,
)
from tests.controlplane.console.test_request_pages import words_of

pytestmark = pytest.mark.slow


__all__ = ["operator"]

FAULTS = {
    "worker_concurrency": "",
    "breaker_failure_percent": "50",
    "breaker_min_requests": "5",
    "breaker_open_ms": "5000",
    "panic_percent": "50",
}
"""What every pool's form has, as it comes."""


@pytest.mark.parametrize(
    ("act", "is_reason_needed", "field", "value"),
    [
        ("restart", True, "restart_generation", 1),
        ("stop", True, "power", "stopped"),
        ("drain", True, "power", "drained"),
        ("add-replica", False, "replicas", 3),
        ("remove-replica", True, "replicas", 1),
    ],
)
def test_an_act_is_reviewed_with_its_impact_and_saved_with_its_reason(
    act: str, is_reason_needed: bool, field: str, value: object, operator: Reader, actor: Actor
) -> None:
    pool = process_pool(operator, actor)
    create_route(
        actor, organisation=operator.organisation, name="chat",
        targets=[TargetChoice(pool, 1)],
    )  # fmt: skip
    path = f"/pools/{pool.pk}/{act}/"
    page = operator.page(path)
    words = words_of(page)
    assert "chat" in words
    if act == "restart":
        assert "Rolling restart of 2 workers, usually about 90 s." in words
    base = hidden_in(page)
    response = post(operator, path, {**base, "step": "save"})
    if is_reason_needed:
        assert "Give a reason." in response.content.decode()
        assert getattr(Pool.objects.get(), field) == getattr(pool, field)
        response = post(operator, path, {**base, "step": "save", "reason": "tests"})
    assert response.status_code == 302
    assert response.headers["Location"].startswith(f"/pools/{pool.pk}/?applied=")
    assert getattr(Pool.objects.get(), field) == value
    entry = AuditEntry.objects.order_by("-id")[0]
    assert (entry.via, entry.reason) == ("console", "tests" if is_reason_needed else "")


def test_a_restart_that_was_reviewed_before_another_edit_is_reviewed_again(
    operator: Reader, actor: Actor
) -> None:
    pool = process_pool(operator, actor)
    path = f"/pools/{pool.pk}/restart/"
    base = hidden_in(operator.page(path))
    Pool.objects.update(version=7, restart_generation=4)
    response = post(operator, path, {**base, "step": "save", "reason": "tests"})
    assert response.status_code == 412
    words = words_of(response.content.decode())
    assert "Somebody changed it meanwhile." in words
    assert "4 5" in words.replace("Restart generation", "")
    again = {**hidden_in(response.content.decode()), "step": "save", "reason": "tests"}
    assert post(operator, path, again).status_code == 302
    assert Pool.objects.get().restart_generation == 5


def test_there_is_nothing_to_stop_in_a_stopped_pool(operator: Reader, actor: Actor) -> None:
    pool = process_pool(operator, actor, power="stopped")
    page = operator.page(f"/pools/{pool.pk}/stop/")
    assert "The pool is stopped already." in words_of(page)
    assert 'value="save"' not in page


def test_a_viewer_sees_pools_and_may_not_change_them(reader: Reader, actor: Actor) -> None:
    pool = process_pool(reader, actor)
    page = reader.page(f"/pools/{pool.pk}/?tab=replicas")
    assert "restart/" not in page
    assert "New pool" not in reader.page("/pools/")
    for path in ("new/", f"{pool.pk}/edit/", f"{pool.pk}/delete/", f"{pool.pk}/stop/"):
        assert reader.get(f"/pools/{path}").status_code == 403


def test_an_edit_is_reviewed_argument_by_argument_and_says_that_it_rolls(
    operator: Reader, actor: Actor
) -> None:
    pool = process_pool(operator, actor, engine_arguments={"max_num_seqs": 8})
    path = f"/pools/{pool.pk}/edit/"
    page = operator.page(path)
    assert "--max-model-len, default the model's own; 16 to 10,000,000" in words_of(page)
    fields = {
        **hidden_in(page), **FAULTS, "name": "small", "model": "smollm2",
        "served_model_name": "smollm2", "replicas": "2", "model_source": "smollm2-135m-instruct",
        "start_timeout_s": "600", "drain_timeout_s": "30", "arg_max_num_seqs": "16",
        "arg_enforce_eager": "on",
    }  # fmt: skip
    review = post(operator, path, {**fields, "step": "review"}).content.decode()
    words = words_of(review)
    assert "enforce_eager engine's default on max_num_seqs 8 16" in words
    assert "Rolling restart of 2 workers, usually about 90 s." in words
    saved = post(operator, path, {**fields, "step": "save", "reason": "more at once"})
    assert saved.status_code == 302
    assert Pool.objects.get().engine_arguments == {"max_num_seqs": 16, "enforce_eager": True}


def test_a_problem_of_one_argument_stands_at_its_field(operator: Reader, actor: Actor) -> None:
    pool = process_pool(operator, actor)
    path = f"/pools/{pool.pk}/edit/"
    fields = {
        **hidden_in(operator.page(path)), **FAULTS, "name": "small", "model": "smollm2",
        "served_model_name": "smollm2", "replicas": "2",
        "model_source": "smollm2-135m-instruct", "start_timeout_s": "600", "drain_timeout_s": "30",
        "arg_tool_call_parser": "hermes",
    }  # fmt: skip
    page = post(operator, path, {**fields, "step": "review"}).content.decode()
    assert 'id="id_arg_tool_call_parser_error"' in page
    assert "Switch on enable_auto_tool_choice too." in page


def test_a_pool_is_made_of_either_kind_and_copied_without_its_credential(
    operator: Reader, actor: Actor
) -> None:
    page = operator.page("/pools/new/?provisioner=static")
    fields = {
        **hidden_in(page), **FAULTS, "provisioner": "static", "name": "far", "model": "gpt-x",
        "backend": "openai", "addresses": "http://127.0.0.1:9000/v1\nhttp://127.0.0.1:9001/v1",
        "credential": SECRET, "step": "save",
    }  # fmt: skip
    made = post(operator, "/pools/new/", fields)
    assert made.status_code == 302, made.content
    pool = Pool.objects.get()
    assert len(pool.addresses) == 2
    assert pool.credential_last4 == SECRET[-4:]
    copy = operator.page(f"/pools/new/?from={pool.pk}")
    assert 'value="far-copy"' in copy
    assert "http://127.0.0.1:9001/v1" in copy
    assert "Its credential is not: type it again." in words_of(copy)


def test_a_credential_is_kept_replaced_or_removed_and_never_shown(
    operator: Reader, actor: Actor
) -> None:
    pool = static_pool(operator, actor, credential=SECRET)
    path = f"/pools/{pool.pk}/edit/"
    page = operator.page(path)
    assert SECRET not in page
    assert f"It is set, ends in {SECRET[-4:]}." in words_of(page)
    fields = {
        **hidden_in(page), **FAULTS, "name": "far", "model": "gpt-x", "served_model_name": "gpt-x",
        "backend": "openai", "addresses": "http://127.0.0.1:9000/v1",
    }  # fmt: skip
    kept = post(operator, path, {**fields, "step": "review"})
    assert "Nothing differs from what is saved." in words_of(kept.content.decode())
    another = f"another-{SECRET}"
    review = post(operator, path, {**fields, "credential": another, "step": "review"})
    shown = review.content.decode()
    assert another not in shown
    assert f"Credential set, ends in {SECRET[-4:]} a new one" in words_of(shown)
    mark = 'name="sealed-credential" value="'
    sealed = {"sealed-credential": shown.partition(mark)[2].partition('"')[0]}
    save = {"step": "save", "reason": "rotated upstream"}
    before = Pool.objects.get().credential
    assert post(operator, path, {**fields, **sealed, **save}).status_code == 302
    assert Pool.objects.get().credential not in (None, before)
    fields |= hidden_in(operator.page(path))
    assert post(operator, path, {**fields, "remove_credential": "on", **save}).status_code == 302
    assert not Pool.objects.get().has_credential
    told = "".join(str((one.before, one.after)) for one in AuditEntry.objects.all())
    assert SECRET not in told


def test_a_pool_that_routes_use_is_not_deleted_and_they_are_named(
    operator: Reader, actor: Actor
) -> None:
    pool = static_pool(operator, actor)
    create_route(
        actor, organisation=operator.organisation, name="chat",
        targets=[TargetChoice(pool, 1)],
    )  # fmt: skip
    path = f"/pools/{pool.pk}/delete/"
    page = operator.page(path)
    assert "Pool far is used by routes: chat." in words_of(page)
    fields = {**hidden_in(page), "step": "save", "confirm": "far", "reason": "unused"}
    assert "used by routes: chat" in words_of(post(operator, path, fields).content.decode())
    assert Pool.objects.count() == 1


def test_deleting_takes_the_name_and_a_reason(operator: Reader, actor: Actor) -> None:
    pool = process_pool(operator, actor)
    path = f"/pools/{pool.pk}/delete/"
    fields = {**hidden_in(operator.page(path)), "step": "save", "reason": "unused"}
    assert "Type small to confirm." in words_of(post(operator, path, fields).content.decode())
    assert post(operator, path, {**fields, "confirm": "small"}).status_code == 302
    assert Pool.objects.count() == 0
