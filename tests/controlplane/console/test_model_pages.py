"""The pages of models: list, one, making, changing and removing it."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.models import AuditEntry, CatalogueModel, ConfigRevision, Role
from controlplane.services.actors import Actor
from controlplane.services.models import create_model, update_model
from controlplane.services.prices import create_price
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, words_of

pytestmark = pytest.mark.slow


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ines", Role.OPERATOR)


@pytest.fixture
def model(operator: Reader, actor: Actor) -> CatalogueModel:
    return create_model(
        actor, organisation=operator.organisation, name="qwen3-32b", max_context_tokens=32_768
    )


def test_an_empty_catalogue_says_what_it_is_for_and_offers_the_first(operator: Reader) -> None:
    page = words_of(operator.page("/models/"))
    assert "The catalogue is empty" in page
    assert "New model" in page


def test_a_viewer_sees_models_and_no_buttons(
    make_reader: Callable[..., Reader], actor: Actor
) -> None:
    viewer = make_reader("vera")
    create_model(actor, organisation=viewer.organisation, name="qwen3-32b")
    page = viewer.page("/models/")
    assert "qwen3-32b" in page
    assert "New model" not in page
    refused = viewer.get("/models/new/")
    assert refused.status_code == 403
    assert "permission to change models" in words_of(refused.content.decode())


def test_the_list_filters_as_the_api_does_and_says_so(operator: Reader, model: Any) -> None:
    page = operator.page("/models/?search=qwen&task=embed")
    words = words_of(page)
    assert "No results for 2 filters" in words
    assert "Task: embed" in words
    assert "/api/v1/models/?search=qwen&amp;task=embed" in page


def test_the_list_takes_no_more_queries_for_more_rows(
    operator: Reader, model: Any, actor: Actor
) -> None:
    create_price(actor, model=model, input_nanousd_per_mtok=1, output_nanousd_per_mtok=2)
    with CaptureQueriesContext(
        connection,
    ) as few:
        operator.page("/models/")
    for number in range(20):
        made = create_model(actor, organisation=operator.organisation, name=f"m-{number:02d}")
        create_price(actor, model=made, input_nanousd_per_mtok=1, output_nanousd_per_mtok=2)
    with CaptureQueriesContext(connection) as many:
        page = operator.page("/models/?sort=-name")
    assert page.index("qwen3-32b") < page.index("m-19") < page.index("m-00")
    assert "21 models" in words_of(page)
    assert len(many) == len(few)


def test_another_organisations_model_is_not_there(
    operator: Reader, make_reader: Callable[..., Reader], model: Any
) -> None:
    other = make_reader("otto", Role.ADMIN)
    for path in ("", "edit/", "delete/"):
        assert other.get(f"/models/{model.pk}/{path}").status_code == 404


def test_a_model_is_made_from_its_form(operator: Reader) -> None:
    flow = Flow(operator.client, "/models/new/")
    flow.send("save", name="not a name")
    assert "A name must match" in flow.words
    flow.send("save", name="qwen3-32b", max_context_tokens="32768")
    made = CatalogueModel.objects.get()
    version = ConfigRevision.objects.order_by("-id")[0].version
    assert flow.response.headers["Location"] == f"/models/{made.pk}/?applied={version}"
    page = words_of(operator.page(flow.response.headers["Location"]))
    assert f"Saved as v{version}" in page
    entry = AuditEntry.objects.get(noun="models")
    assert (entry.via, entry.actor_label) == ("console", "ines")


def test_a_change_is_reviewed_and_saved_with_its_reason(operator: Reader, model: Any) -> None:
    flow = Flow(operator.client, f"/models/{model.pk}/edit/")
    flow.send("review")
    assert "Nothing differs from what is saved." in flow.words
    flow.send("review", max_context_tokens="65536")
    assert "1 field changes" in flow.words
    assert "Context 32,768 tokens 65,536 tokens" in flow.words
    assert "Acts live" in flow.words
    assert '{"max_context_tokens": 65536}' in flow.words
    assert "If-Match: &quot;1&quot;" in flow.page
    assert CatalogueModel.objects.get().max_context_tokens == 32_768
    flow.send("save", reason="the engine takes more")
    assert flow.response.status_code == 302
    assert CatalogueModel.objects.get().max_context_tokens == 65_536
    page = words_of(operator.page(f"/models/{model.pk}/?tab=activity"))
    assert "the engine takes more" in page
    assert "Max context tokens 32,768 tokens 65,536 tokens" in page


def test_keep_editing_brings_back_what_was_filled_in(operator: Reader, model: Any) -> None:
    flow = Flow(operator.client, f"/models/{model.pk}/edit/")
    flow.send("review", name="qwen3-32b-fp8")
    flow.send("edit")
    assert 'value="qwen3-32b-fp8"' in flow.page
    assert "data-dirty" in flow.page


def test_a_change_over_somebody_elses_is_shown_three_ways(
    operator: Reader, model: Any, actor: Actor
) -> None:
    flow = Flow(operator.client, f"/models/{model.pk}/edit/")
    update_model(actor, model_id=model.pk, changes={"max_context_tokens": 8_192})
    flow.send("review", name="qwen3")
    assert flow.response.status_code == 412
    assert "Somebody else changed this model meanwhile" in flow.words
    assert "Name qwen3-32b qwen3-32b qwen3" in flow.words
    assert "Context 32,768 tokens 8,192 tokens 8,192 tokens" in flow.words
    flow.send("review")
    assert "1 field changes" in flow.words
    flow.send("save")
    row = CatalogueModel.objects.get()
    assert (row.name, row.max_context_tokens) == ("qwen3", 8_192)


def test_removing_one_takes_its_name_and_a_reason(operator: Reader, model: Any) -> None:
    flow = Flow(operator.client, f"/models/{model.pk}/delete/")
    flow.send("save", confirm="qwen3-32b")
    assert "Give a reason" in flow.words
    flow.send("save", confirm="qwen", reason="retired")
    assert "Type qwen3-32b to confirm." in flow.words
    flow.send("save", confirm="qwen3-32b", reason="retired")
    assert flow.response.headers["Location"].startswith("/models/?applied=")
    assert not CatalogueModel.objects.exists()


def test_an_audit_entry_leads_to_the_form_with_the_old_values(
    operator: Reader, model: Any, actor: Actor
) -> None:
    update_model(actor, model_id=model.pk, changes={"max_context_tokens": 8_192})
    entry = AuditEntry.objects.order_by("-id")[0]
    page = operator.page(f"/audit/{entry.pk}/")
    assert "Changed model qwen3-32b" in words_of(page)
    revert = f"/models/{model.pk}/edit/?restore={entry.pk}"
    assert revert in page
    flow = Flow(operator.client, revert)
    assert 'value="32768"' in flow.page
    flow.send("review")
    assert "Context 8,192 tokens 32,768 tokens" in flow.words


def test_the_list_after_a_removal_says_how_far_it_has_come(operator: Reader, model: Any) -> None:
    assert 'data-applied="waiting"' in operator.page("/models/?applied=2")
    assert 'data-applied="none"' in operator.page("/models/?applied=0")
    assert "data-applied" not in operator.page("/models/?applied=x")
