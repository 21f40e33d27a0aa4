"""Explain with experiments on the route: what each makes of the request, by page and REST."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from controlplane.bridge import explaining
from controlplane.models import Role
from controlplane.services.actors import Actor
from inference.contract.snapshot import ConfigSnapshot, ExperimentRecord, TargetRecord
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import inputs_of, words_of
from tests.controlplane.replayed import make_route
from tests.decisions.tried import EXPERIMENT, with_experiments

pytestmark = pytest.mark.slow


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ines", Role.OPERATOR)


@pytest.fixture
def ids(operator: Reader, actor: Actor) -> Mapping[str, str]:
    return make_route(actor, operator.organisation)


@pytest.fixture
def running(
    monkeypatch: pytest.MonkeyPatch, operator: Reader, ids: Mapping[str, str]
) -> ExperimentRecord:
    """An experiment in which all get the variant that goes to the pool `small`."""
    control, other = EXPERIMENT.variants
    other = replace(
        other,
        share_bp=10_000,
        targets=(TargetRecord("tgt_x", ids["small"], 1),),
        parameters={"temperature": "0.5"},
    )
    record = replace(
        EXPERIMENT,
        organisation_id=operator.organisation.pk,
        route_id=ids["route"],
        variants=(replace(control, share_bp=0), other),
    )
    configuration = explaining.live_configuration

    def tried() -> ConfigSnapshot:
        return with_experiments(configuration(), record)

    monkeypatch.setattr(explaining, "live_configuration", tried)
    return record


def explained(operator: Reader, ids: Mapping[str, str], **asked: str) -> str:
    """The words of the page's answer."""
    form = inputs_of(operator.page("/explain/?model=chat"))
    asked = {**form, "caller": f"key:key_{ids['key']}", "prompt": "x", **asked}
    return words_of(operator.client.post("/explain/", asked).content.decode())


def test_the_page_tells_the_variant_and_whose_the_targets_are(
    operator: Reader, ids: Mapping[str, str], running: ExperimentRecord
) -> None:
    words = explained(operator, ids, end_user="ann")
    assert "Experiments that run on the route" in words
    assert "another model other 100 % get it temperature = 0.5 user" in words
    assert "of the variant other" in words
    assert "the control's, in case the variant's fail" in words
    assert "it goes to small" in words


def test_the_page_tells_why_there_is_no_variant(
    operator: Reader, ids: Mapping[str, str], running: ExperimentRecord
) -> None:
    words = explained(operator, ids)
    assert "takes no part: the request names no user" in words
    assert "it goes to large" in words


def test_rest_tells_the_same(
    operator: Reader, ids: Mapping[str, str], running: ExperimentRecord
) -> None:
    question = {"model": "chat", "prompt": "x", "key": f"key_{ids['key']}", "end_user": "ann"}
    response = operator.client.post("/api/v1/explain/", question, content_type="application/json")
    answer: dict[str, Any] = response.json()
    (told,) = answer["experiments"]
    assert (told["id"], told["variant"], told["share_bp"]) == ("exp_a", "other", 10_000)
    assert (told["unit"], told["why_not"], len(told["unit_id"])) == ("user", None, 16)
    assert told["parameters"] == {"temperature": "0.5"}
    assert [one["variant_id"] for one in answer["targets"]][:1] == ["var_b"]
    assert answer["record"]["experiments"][0]["variant"] == "var_b"
