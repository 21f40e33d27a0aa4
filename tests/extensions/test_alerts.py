"""What every measure and every channel promises."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.utils import timezone

from controlplane.alerting.base import Facts, Grid, Question
from controlplane.alerting.registry import REGISTRY as MEASURES
from controlplane.bridge.store import open_store
from controlplane.decisions.alert_kinds import TRAITS, AlertKind, ChannelKind, DeliveryKind
from controlplane.decisions.alert_words import trial_content
from controlplane.models import Organisation
from controlplane.notify.base import Message, Target, Undelivered
from controlplane.notify.registry import REGISTRY as CHANNELS
from controlplane.services.actors import Via, system_actor
from controlplane.services.organisations import create_organisation
from controlplane.services.pools import create_pool

pytestmark = pytest.mark.slow

MESSAGE = Message(
    "dlv_1", DeliveryKind.TEST.value, "2026-12-01T00:00:00Z", trial_content("x"), "http://c"
)


@pytest.fixture
def organisation(db: None) -> Iterator[Organisation]:
    """An organisation with a pool, and a store in which nobody has said anything."""
    actor = system_actor("tests", via=Via.COMMAND)
    with open_store() as store:
        store.flushdb()
        made = create_organisation(actor, name="Home")
        create_pool(
            actor,
            organisation=made,
            name="mine",
            model="gpt-x",
            provisioner="static",
            addresses=["http://127.0.0.1:9000/v1"],
        )
        yield made
        store.flushdb()


@pytest.mark.parametrize("kind", AlertKind)
def test_a_measure_answers_for_every_place_and_moment(
    kind: AlertKind, organisation: Organisation
) -> None:
    traits = TRAITS[kind]
    for scope in traits.scopes:
        home = None if scope.value == "all" else organisation.pk
        question = Question(kind.value, home, scope.value, None, traits.window_s)
        for grid in (Grid(timezone.now()), Grid(timezone.now(), 60, 5)):
            places = question.places()
            found = MEASURES[kind](question, places, grid, Facts())
            assert set(found) == {place.id for place in places}
            assert {len(values) for values in found.values()} <= {grid.steps}
            if not traits.has_history:
                assert all(one is None for values in found.values() for one in values[:-1])


@pytest.mark.parametrize("kind", AlertKind)
def test_a_kind_has_words_and_usual_values_within_its_bounds(kind: AlertKind) -> None:
    traits = TRAITS[kind]
    assert traits.title
    assert traits.words
    assert traits.least <= traits.threshold <= traits.most
    assert traits.windows[0] <= traits.window_s <= traits.windows[1]
    assert (traits.window_s == 0) == (traits.windows == (0, 0))


@pytest.mark.parametrize("kind", ChannelKind)
def test_a_channel_says_why_it_could_not_and_tells_no_secret(
    kind: ChannelKind, settings: Any
) -> None:
    closed = {"smtp_url": None, "allow_private_webhooks": False}
    settings.HEADWORKS = settings.HEADWORKS.model_copy(update=closed)
    known = CHANNELS[kind]
    assert known.needs <= known.takes
    target = Target(("a@example.com",), "http://127.0.0.1:1/CANARY", "CANARY")
    with pytest.raises(Undelivered) as raised:
        known.send(target, MESSAGE)
    assert raised.value.failure.words
    assert "CANARY" not in f"{raised.value} {target!r}"
