"""Which endpoints the workers of a pool have, by the console: its form, its page, and Explain."""

from collections.abc import Callable

import pytest

from controlplane.models import Pool, Project, Role
from controlplane.services.actors import Actor
from controlplane.services.routes import TargetChoice, create_route
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, inputs_of, words_of

pytestmark = pytest.mark.slow


def test_the_form_of_a_pool_names_them_and_explain_says_what_is_translated(
    make_reader: Callable[..., Reader], actor: Actor
) -> None:
    operator = make_reader("ines", Role.OPERATOR)
    flow = Flow(operator.client, "/pools/new/?provisioner=static")
    fields = {"name": "far", "model": "gpt-x", "addresses": "http://127.0.0.1:9000/v1"}
    flow.send("review", **fields, endpoints=["chat", "rerank"])
    assert "A backend openai has no /v1/rerank." in flow.words
    assert flow.send("save", **fields, endpoints=["chat"]).status_code == 302
    pool = Pool.objects.get()
    assert pool.endpoints == ["chat"]
    assert "Endpoints chat" in words_of(operator.page(f"/pools/{pool.pk}/?tab=config"))
    edit = Flow(operator.client, f"/pools/{pool.pk}/edit/")
    edit.send("review", endpoints=["chat", "embeddings"])
    assert "Endpoints they have" in edit.words
    assert "/v1/chat/completions, /v1/embeddings" in edit.words
    create_route(
        actor, organisation=operator.organisation, name="chat",
        targets=[TargetChoice(pool, 1)],
    )  # fmt: skip
    form = inputs_of(operator.page("/explain/?model=chat"))
    for endpoint, is_translated in (("messages", True), ("chat", False)):
        caller = f"project:{Project.objects.get().pk}"
        asked = {**form, "caller": caller, "endpoint": endpoint, "prompt": "ping"}
        words = words_of(operator.client.post("/explain/", asked).content.decode())
        assert ("translated into /v1/chat/completions" in words) is is_translated
