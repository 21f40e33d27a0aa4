"""Two thresholds in one rule, and places of which nothing is known."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from controlplane.errors import Invalid
from controlplane.models import AlertRule, Channel, Delivery, Episode, Organisation
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import update_alert_rule
from controlplane.services.channels import create_channel
from controlplane.services.episodes import update_episode
from controlplane.services.silences import create_silence
from inference.contract.kinds import WorkerState
from tests.controlplane.alerts.conftest import Clock, Fleet
from tests.controlplane.alerts.sinks import Sink

pytestmark = pytest.mark.slow

Make = Callable[..., AlertRule]
DEAD = {"kind": "dead_channel", "scope": "organisation", "threshold": 1, "critical_at": 2}


def told() -> list[tuple[str, str]]:
    """What the messages that were queued tell of, and how grave it is."""
    rows = Delivery.objects.order_by("created_at", "pk")
    return [(one.kind, one.content["severity"]) for one in rows]


@pytest.fixture
def others(actor: Actor, organisation: Organisation, hook: Channel) -> Callable[[int], None]:
    """Have so many other channels be dead."""
    for number in range(3):
        recipients = [f"{number}@example.com"]
        create_channel(
            actor,
            organisation=organisation,
            name=f"other-{number}",
            kind="email",
            recipients=recipients,
        )

    def kill(count: int) -> None:
        rows = Channel.objects.filter(name__startswith="other").order_by("name")
        rows.update(is_enabled=True, disabled_reason="")
        for one in rows[:count]:
            Channel.objects.filter(pk=one.pk).update(is_enabled=False, disabled_reason="it failed")

    return kill


def test_one_alert_becomes_critical_and_is_told_again_once(
    make_rule: Make, others: Callable[[int], None], sink: Sink, clock: Clock
) -> None:
    make_rule(channels=["hook"], **DEAD)
    others(1)
    clock.looks(2)
    assert told() == [("fired", "warning")]
    others(2)
    clock.looks(3)
    others(1)
    clock.looks(2)
    others(2)
    clock.looks(2)
    episode = Episode.objects.get()
    assert (episode.severity, episode.peak) == ("critical", 2.0)
    assert episode.worsened_at is not None
    assert told() == [("fired", "warning"), ("worsened", "critical")]
    clock.sends()
    assert json.loads(sink.posts[-1].body)["title"].startswith("Critical now: down")


def test_who_took_up_the_lesser_one_is_asked_again(
    make_rule: Make, others: Callable[[int], None], actor: Actor, clock: Clock
) -> None:
    make_rule(channels=["hook"], **DEAD)
    others(1)
    clock.looks(1)
    episode = Episode.objects.get()
    update_episode(actor, episode_id=episode.pk, changes={"state": "acknowledged"})
    others(2)
    clock.looks(2)
    episode.refresh_from_db()
    assert (episode.state, episode.severity) == ("open", "critical")
    assert told()[-1] == ("worsened", "critical")


def test_what_is_critical_at_once_is_told_once(
    make_rule: Make, others: Callable[[int], None], clock: Clock
) -> None:
    make_rule(channels=["hook"], **DEAD)
    others(3)
    clock.looks(3)
    assert told() == [("fired", "critical")]


def test_what_got_worse_while_it_was_silenced_is_told_once_as_it_is(
    make_rule: Make,
    others: Callable[[int], None],
    actor: Actor,
    organisation: Organisation,
    clock: Clock,
) -> None:
    make_rule(channels=["hook"], **DEAD)
    create_silence(
        actor, organisation=organisation, reason="works", ends_at=clock.now + timedelta(minutes=15)
    )
    others(1)
    clock.looks(1)
    others(2)
    clock.looks(2)
    assert told() == []
    clock.looks(10, every_s=120)
    assert told() == [("fired", "critical")]


def test_an_alert_ends_where_nothing_is_known_any_more(
    make_rule: Make,
    hook: Channel,
    fleet: Fleet,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    make_rule(channels=["hook"], on_no_data="resolve")
    fleet(WorkerState.FAILED)
    clock.looks(1)
    monkeypatch.setattr("controlplane.alerting.base.read_fleet", lambda: None)
    clock.looks(8)
    episode = Episode.objects.get()
    assert (episode.state, episode.resolved_why) == (
        "resolved",
        "Nothing is known of it any more.",
    )


def test_no_data_is_an_alert_where_the_rule_says_so(
    make_rule: Make, hook: Channel, fleet: Fleet, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_rule(channels=["hook"], on_no_data="alert", for_s=30)
    fleet(WorkerState.READY)
    clock.looks(2)
    with monkeypatch.context() as blind:
        blind.setattr("controlplane.alerting.base.read_fleet", lambda: None)
        clock.looks(3)
        assert not Episode.objects.exists()
        clock.looks(2)
    episode = Episode.objects.get()
    assert (episode.state, episode.value, episode.peak) == ("open", None, None)
    assert Delivery.objects.get().content["text"].startswith("Pool down at pool mine: not known")
    clock.looks(8)
    assert Episode.objects.get().resolved_why == "The value is lower again."


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"critical_at": 50}, "more than the value it fires at"),
        ({"critical_at": 101}, "100 % at most"),
        ({"critical_at": 90, "severity": "critical"}, "critical from the first value on"),
        ({"on_no_data": "guess"}, "no such policy"),
    ],
)
def test_levels_that_make_no_sense_are_refused(
    make_rule: Make, db: None, fields: dict[str, object], problem: str
) -> None:
    with pytest.raises(Invalid) as found:
        make_rule(threshold=50, **fields)
    assert problem in str(found.value.fields)


def test_an_edit_of_the_graver_threshold_begins_anew_untold(
    make_rule: Make, others: Callable[[int], None], actor: Actor, clock: Clock
) -> None:
    rule = make_rule(channels=["hook"], **DEAD)
    others(2)
    clock.looks(1)
    update_alert_rule(actor, rule_id=rule.pk, changes={"critical_at": None})
    assert [one.state for one in Episode.objects.all()] == ["resolved"]
    clock.looks(1)
    assert Episode.objects.exclude(state="resolved").get().severity == "warning"
