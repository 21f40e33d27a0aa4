"""Versions, who runs them, the way back, and the audit trail of all of it."""

import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.template.loader import render_to_string
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from redis import Redis

from controlplane.console import propagation
from controlplane.console.propagation import WAIT_S, find_applied
from controlplane.models import (
    AuditEntry,
    CatalogueModel,
    ConfigRevision,
    Installation,
    Role,
    RoleBinding,
    Team,
    User,
)
from controlplane.selectors.access import get_access_of_user
from controlplane.selectors.revisions import get_revision_of_request
from controlplane.services.actors import Actor
from controlplane.services.models import create_model, delete_model, update_model
from controlplane.services.pools import create_pool, update_pool
from controlplane.services.prices import create_price, update_price
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.teams import create_team
from controlplane.services.users import create_user, grant_role
from inference.contract import codec, wire
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Applied, Vitals
from tests.controlplane.console.conftest import PASSWORD, Reader
from tests.controlplane.console.flows import Flow, words_of

pytestmark = pytest.mark.slow


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ines", Role.OPERATOR)


@pytest.fixture
def history(operator: Reader, actor: Actor) -> tuple[CatalogueModel, int]:
    """A model whose context grew; the version before it did."""
    model = create_model(actor, organisation=operator.organisation, name="qwen3-32b")
    version = newest()
    update_model(actor, model_id=model.pk, changes={"max_context_tokens": 8_192})
    return model, version


def newest() -> int:
    return ConfigRevision.objects.order_by("-id")[0].version


def gateway_says(store: Redis, version: int, name: str = "gw-1") -> None:
    """A gateway of one child that runs this version."""
    store.hset(
        wire.MANIFEST,
        mapping={"lineage": Installation.objects.get().lineage, "version": newest()},
    )
    now = time.time()
    record = Vitals(
        process=f"{name}/0",
        role=ProcessRole.GATEWAY,
        pid=1,
        gateway=name,
        started_at=now,
        written_at=now,
        applied=Applied(Installation.objects.get().lineage, version),
    )
    store.set(wire.vitals_key(record.process), codec.encode_vitals(record), ex=60)
    store.zadd(wire.SEEN, {record.process: now})


def test_the_list_tells_versions_what_they_changed_and_who_runs_what(
    operator: Reader, history: tuple[CatalogueModel, int], state_store: Redis
) -> None:
    _, version = history
    gateway_says(state_store, version)
    words = words_of(operator.page("/snapshots/"))
    assert f"gw-1 behind v{version} 1 of 1" in words
    assert f"v{version + 1} applied on 0 of 1 gateways" in words
    assert f"v{version} " in words
    assert "tests models" in words


def test_what_the_oldest_kept_version_changed_is_unknown_not_nothing(
    operator: Reader, history: tuple[CatalogueModel, int]
) -> None:
    _, version = history
    ConfigRevision.objects.filter(version__lt=version).delete()
    page = operator.page("/snapshots/")
    changed = re.findall(r'data-l="Changed">\s*([^<]*?)\s*<', page)
    assert changed == ["models", "\N{EN DASH}"]


def test_more_versions_take_no_more_queries(
    operator: Reader, history: tuple[CatalogueModel, int], actor: Actor
) -> None:
    with CaptureQueriesContext(connection) as few:
        operator.page("/snapshots/")
    for number in range(8):
        create_model(actor, organisation=operator.organisation, name=f"m-{number}")
    with CaptureQueriesContext(connection) as many:
        operator.page("/snapshots/")
    assert len(many) == len(few)


def test_a_save_is_said_to_be_applied_once_every_gateway_runs_it(
    operator: Reader, history: tuple[CatalogueModel, int], state_store: Redis
) -> None:
    _, version = history
    gateway_says(state_store, version)
    gateway_says(state_store, version + 1, "gw-2")
    behind = find_applied(version + 1, timezone.now())
    assert (behind.live, behind.seen, behind.missing, behind.is_over) == (1, 2, ("gw-1",), False)
    page = operator.page(f"/propagation/{version + 1}/")
    assert "Applied on 1 of 2 gateways so far." in words_of(page)
    assert "hx-trigger" in page
    gateway_says(state_store, version + 1)
    page = operator.page(f"/propagation/{version + 1}/")
    assert f"Applied on 2 of 2 gateways at v{version + 1} in " in words_of(page)
    assert "hx-trigger" not in page


def test_after_ten_seconds_the_missing_gateway_is_named(
    operator: Reader, history: tuple[CatalogueModel, int], state_store: Redis
) -> None:
    _, version = history
    gateway_says(state_store, version)
    gateway_says(state_store, version + 1, "gw-2")
    applied = find_applied(version + 1, timezone.now() + timedelta(seconds=WAIT_S))
    assert (applied.is_over, applied.is_everywhere, applied.seconds) == (True, False, None)
    words = words_of(render_to_string("components/applied.html", {"applied": applied}))
    assert words == f"Applied on 1 of 2 gateways at v{version + 1}. Missing: gw-1 ."


def test_after_ten_seconds_without_any_gateway_that_is_said(
    history: tuple[CatalogueModel, int], state_store: Redis
) -> None:
    _, version = history
    applied = find_applied(version + 1, timezone.now() + timedelta(seconds=WAIT_S))
    words = words_of(render_to_string("components/applied.html", {"applied": applied}))
    running = "No gateway is running; each applies it when it starts."
    assert words == f"Saved as v{version + 1}. {running}"


def test_a_version_shows_what_it_changed_and_compares_with_any_other(
    operator: Reader, history: tuple[CatalogueModel, int]
) -> None:
    _, version = history
    words = words_of(operator.page(f"/snapshots/{version + 1}/"))
    assert "model qwen3-32b changed" in words
    assert "Max context tokens not set 8,192 tokens" in words
    words = words_of(operator.page(f"/snapshots/{version}/?against={version + 1}"))
    assert f"From v{version} to v{version + 1}" in words
    assert "Max context tokens not set 8,192 tokens" in words
    assert operator.get(f"/snapshots/{version}/?against=none").status_code == 400
    assert operator.get(f"/snapshots/{version + 90}/").status_code == 404


def test_a_roll_back_is_reviewed_and_is_a_new_version(
    operator: Reader, history: tuple[CatalogueModel, int]
) -> None:
    model, version = history
    flow = Flow(operator.client, f"/snapshots/{version}/restore/")
    assert "model qwen3-32b, max context tokens 8,192 tokens not set" in flow.words
    flow.send("save")
    assert "Give a reason" in flow.words
    flow.send("save", reason="it was wrong")
    assert flow.response.headers["Location"] == f"/snapshots/?applied={version + 2}"
    model.refresh_from_db()
    assert model.max_context_tokens is None
    entry = AuditEntry.objects.order_by("-id")[0]
    assert (entry.action, entry.reason, entry.via) == ("restore", "it was wrong", "console")


def test_a_roll_back_says_what_workers_and_callers_will_notice(
    operator: Reader, actor: Actor
) -> None:
    home = operator.organisation
    pool = create_pool(
        actor,
        organisation=home,
        name="smol",
        model="smol",
        provisioner="process",
        model_source="smol",
        engine_arguments={"max_num_seqs": 64},
    )
    version = newest()
    update_pool(actor, pool_id=pool.pk, changes={"engine_arguments": {"max_num_seqs": 32}})
    create_route(actor, organisation=home, name="late", targets=[TargetChoice(pool, 1)])
    flow = Flow(operator.client, f"/snapshots/{version}/restore/")
    assert "workers of pools restart, see Reach" in flow.words
    assert "Pool smol Rolling restart of 1 worker, usually about 45 s." in flow.words
    assert "so nothing is served meanwhile" in flow.words
    assert "Route late It goes; its callers are refused." in flow.words


def test_a_roll_back_of_what_moved_meanwhile_is_shown_again(
    operator: Reader, history: tuple[CatalogueModel, int], actor: Actor
) -> None:
    model, version = history
    flow = Flow(operator.client, f"/snapshots/{version}/restore/")
    update_model(actor, model_id=model.pk, changes={"max_context_tokens": 4_096})
    flow.send("save", reason="it was wrong")
    assert flow.response.status_code == 412
    assert "4,096 tokens not set" in flow.words


def test_a_viewer_may_look_but_not_roll_back(
    make_reader: Callable[..., Reader], actor: Actor
) -> None:
    viewer = make_reader("vera")
    create_model(actor, organisation=viewer.organisation, name="m")
    first = newest()
    create_model(actor, organisation=viewer.organisation, name="n")
    assert "Roll back" not in viewer.page(f"/snapshots/{first}/")
    assert viewer.get(f"/snapshots/{first}/restore/").status_code == 403


def test_versions_and_audit_are_for_roles_of_the_whole_organisation(
    operator: Reader, history: tuple[CatalogueModel, int], actor: Actor
) -> None:
    team = create_team(actor, organisation=operator.organisation, name="Support")
    user = create_user(actor, username="tim", password=PASSWORD)
    grant_role(actor, subject=user, organisation=operator.organisation, role=Role.ADMIN, team=team)
    operator.client.force_login(user)
    for path in ("/snapshots/", "/audit/", f"/snapshots/{history[1]}/"):
        refused = operator.get(path)
        assert refused.status_code == 403, path
        assert "roles of the whole organisation" in words_of(refused.content.decode())
    page = operator.page(f"/models/{history[0].pk}/?tab=activity")
    assert "for roles of the whole organisation" in words_of(page)
    assert "Snapshots" not in page


def test_the_audit_trail_lists_filters_and_leads_back(
    operator: Reader, history: tuple[CatalogueModel, int], actor: Actor
) -> None:
    model, _ = history
    words = words_of(operator.page("/audit/?noun=models&action=update"))
    assert "tests changed model qwen3-32b max_context_tokens" in words
    assert "No results for 1 filter" in words_of(operator.page("/audit/?search=nobody"))
    made, changed = AuditEntry.objects.filter(object_id=model.pk).order_by("id")
    assert "Revert this change" in operator.page(f"/audit/{changed.pk}/")
    assert "Revert this change" not in operator.page(f"/audit/{made.pk}/")
    delete_model(actor, model_id=model.pk)
    page = words_of(operator.page(f"/audit/{changed.pk}/"))
    assert "(gone)" in page
    assert "Revert this change" not in page


def test_a_removal_leads_to_the_roll_back_to_before_it(
    operator: Reader, history: tuple[CatalogueModel, int]
) -> None:
    model, version = history
    flow = Flow(operator.client, f"/models/{model.pk}/delete/")
    flow.send("save", confirm=model.name, reason="retired")
    entry = AuditEntry.objects.order_by("-id")[0]
    path = f"/snapshots/{version + 1}/restore/?noun=models"
    assert path in operator.page(f"/audit/{entry.pk}/")
    flow = Flow(operator.client, path)
    assert "qwen3-32b, name qwen3-32b" in flow.words
    flow.send("save", reason="still needed")
    assert CatalogueModel.objects.get().pk == model.pk


def test_the_trail_is_filtered_by_its_own_words(
    operator: Reader, history: tuple[CatalogueModel, int]
) -> None:
    page = operator.page("/audit/?noun=models")
    for noun, action in AuditEntry.objects.values_list("noun", "action").distinct():
        assert f'<option value="{noun}"' in page
        assert f'<option value="{action}"' in page
    assert '<option value="models" selected>model</option>' in page
    assert "Noun: model" in words_of(page)
    assert '<option value="widgets" selected>widgets</option>' in operator.page(
        "/audit/?noun=widgets"
    )


def test_more_audit_entries_take_no_more_queries(
    operator: Reader, history: tuple[CatalogueModel, int], actor: Actor
) -> None:
    with CaptureQueriesContext(connection) as few:
        operator.page("/audit/")
    for number in range(8):
        create_model(actor, organisation=operator.organisation, name=f"m-{number}")
    with CaptureQueriesContext(connection) as many:
        operator.page("/audit/")
    assert len(many) == len(few)


def test_a_price_changes_with_a_review_and_a_reason(
    make_reader: Callable[..., Reader], actor: Actor
) -> None:
    finance = make_reader("fina", Role.FINANCE)
    model = create_model(actor, organisation=finance.organisation, name="m")
    flow = Flow(finance.client, f"/prices/new/?model={model.pk}")
    amounts = {"input_nanousd_per_mtok": "0.27", "output_nanousd_per_mtok": "1.10"}
    flow.send("review", model=model.pk, **amounts)
    assert "Input $0.27 per 1M tokens" in flow.words
    assert "Cost of m unknown $0.00" in flow.words
    flow.send("save", reason="list price")
    model.refresh_from_db()
    price = model.price
    assert (price.input_nanousd_per_mtok, price.output_nanousd_per_mtok) == (
        270_000_000,
        1_100_000_000,
    )
    assert "$0.27 - $1.10" in words_of(finance.page("/prices/")).replace("\N{EN DASH}", "-")
    flow = Flow(finance.client, f"/prices/{price.pk}/edit/")
    flow.send("review")
    assert "Nothing differs from what is saved." in flow.words
    flow.send("review", input_nanousd_per_mtok="0.3", cached_input_nanousd_per_mtok="0.03")
    assert "Input $0.27 per 1M tokens $0.30 per 1M tokens" in flow.words
    assert "Cached input as input $0.03 per 1M tokens" in flow.words
    assert "What was booked stays as it is" in flow.words
    flow.send("save")
    assert "Give a reason" in flow.words
    flow.send("save", reason="dearer")
    price.refresh_from_db()
    assert price.input_nanousd_per_mtok == 300_000_000
    assert finance.get("/models/new/").status_code == 403


def test_an_operator_may_not_change_prices(operator: Reader, actor: Actor) -> None:
    model = create_model(actor, organisation=operator.organisation, name="m")
    price = create_price(actor, model=model, input_nanousd_per_mtok=1, output_nanousd_per_mtok=2)
    update_price(actor, price_id=price.pk, changes={"input_nanousd_per_mtok": 3})
    assert "Edit" not in words_of(operator.page(f"/prices/{price.pk}/")).split()
    assert operator.get(f"/prices/{price.pk}/edit/").status_code == 403


def test_a_role_in_a_team_learns_how_many_gateways_apply_and_not_their_names(
    make_reader: Callable[..., Reader], state_store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = make_reader("tim")
    version = newest()
    team = Team.objects.create(organisation=reader.organisation, name="t")
    RoleBinding.objects.filter(user__username="tim").update(team=team)
    gateway_says(state_store, version)
    gateway_says(state_store, version - 1, "gw-2")
    monkeypatch.setattr(propagation, "WAIT_S", 0.0)
    page = reader.page(f"/propagation/{version}/")
    assert words_of(page) == f"Applied on 1 of 2 gateways at v{version}."


def test_a_request_id_of_others_leads_to_none_of_their_versions(
    make_reader: Callable[..., Reader], operator: Reader, actor: Actor
) -> None:
    make_reader("sam")
    chosen = replace(actor, request_id="chosen-by-sam")
    create_model(chosen, organisation=operator.organisation, name="qwen3-32b")
    for name, found in (("sam", False), ("ines", True)):
        access = get_access_of_user(User.objects.get(username=name))
        assert (get_revision_of_request(access, "chosen-by-sam") is not None) is found
