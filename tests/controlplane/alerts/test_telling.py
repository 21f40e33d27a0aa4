"""Who is told when: collected, kept back for the night, told again, and passed on to the next."""

import json
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta
from typing import Any

import pytest
from redis import Redis

from controlplane.alerting.evaluation import evaluate
from controlplane.errors import InUse, Invalid
from controlplane.models import AlertRule, Channel, Delivery, Episode, Organisation, Silence
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import update_alert_rule
from controlplane.services.channels import create_channel, delete_channel, update_channel
from controlplane.services.deliveries import release_held
from controlplane.services.episodes import update_episode
from controlplane.services.silences import create_silence
from inference.contract.kinds import WorkerState
from tests.controlplane.alerts.conftest import SECRET, Clock
from tests.controlplane.alerts.sinks import Sink
from tests.controlplane.conftest import POOL, Caller
from tests.controlplane.fleet import put_directory, worker

pytestmark = pytest.mark.slow

Make = Callable[..., AlertRule]
Fleet = Callable[[WorkerState], None]


@pytest.fixture
def fleet(pool: Any, state_store: Redis) -> Fleet:
    return lambda state: put_directory(state_store, worker(f"{pool['id']}-0", state))


@pytest.fixture
def clock() -> Clock:
    """A day that is to come: Saturday before Europe's clocks are set back, 20:00 in Berlin."""
    return Clock(datetime(2037, 10, 24, 18, tzinfo=UTC))


def told() -> list[tuple[str, str]]:
    """Channel and kind of all messages, in their order."""
    rows = Delivery.objects.order_by("created_at", "channel__name")
    return list(rows.values_list("channel__name", "kind"))


def states() -> list[str]:
    return list(Delivery.objects.order_by("created_at", "pk").values_list("state", flat=True))


@pytest.fixture
def make_hook(actor: Actor, organisation: Organisation, sink: Sink, hook: Channel) -> Any:
    def make(name: str, **fields: Any) -> Channel:
        place = {"kind": "webhook", "url": f"{sink.url}/{name}", "secret": SECRET}
        return create_channel(actor, organisation=organisation, name=name, **place, **fields)

    return make


def test_what_comes_within_the_time_of_a_digest_is_one_message(
    make_rule: Make, make_hook: Any, sink: Sink, fleet: Fleet, clock: Clock
) -> None:
    make_hook("calm", digest_s=600)
    make_rule(channels=["calm"])
    fleet(WorkerState.FAILED)
    clock.looks(1)
    fleet(WorkerState.READY)
    clock.looks(3, every_s=60)
    assert clock.sends() == 0
    assert states() == ["held", "held"]
    clock.pass_s(420)
    assert clock.sends() == 1
    (post,) = sink.posts
    document = json.loads(post.body)
    assert (document["kind"], document["title"]) == ("digest", "Digest: 2 messages")
    assert document["text"] == "Firing: down, pool mine\nResolved: down, pool mine"
    assert [one["state"] for one in document["alerts"]] == ["open", "resolved"]
    digest = Delivery.objects.get(kind="digest")
    assert set(Delivery.objects.filter(digest=digest).values_list("state", flat=True)) == {"folded"}
    # one alone goes out as it is
    fleet(WorkerState.FAILED)
    clock.looks(1)
    clock.pass_s(601)
    assert clock.sends() == 1
    assert json.loads(sink.posts[1].body)["kind"] == "fired"


def test_two_who_release_at_once_make_one_digest(
    make_rule: Make, make_hook: Any, fleet: Fleet, clock: Clock
) -> None:
    make_hook("calm", digest_s=60)
    make_rule(channels=["calm"])
    make_rule(name="again", channels=["calm"])
    fleet(WorkerState.FAILED)
    clock.looks(1)
    clock.pass_s(61)
    assert [release_held(clock.now), release_held(clock.now)] == [1, 0]


def test_quiet_hours_are_the_organisations_and_what_is_critical_passes(
    make_rule: Make,
    make_hook: Any,
    sink: Sink,
    fleet: Fleet,
    clock: Clock,
    organisation: Organisation,
) -> None:
    Organisation.objects.update(time_zone="Europe/Berlin")
    make_hook("night", quiet_from=time(22), quiet_until=time(2, 30))
    make_hook("deaf", quiet_from=time(22), quiet_until=time(2, 30), critical_passes=False)
    make_rule(name="grave", severity="critical", channels=["night", "deaf"])
    make_rule(name="light", channels=["night"])
    clock.now = datetime(2037, 10, 24, 19, 59, tzinfo=UTC)
    fleet(WorkerState.FAILED)
    clock.pass_s(120)
    evaluate(clock.now)
    clock.sends()
    assert [(one.path, json.loads(one.body)["title"]) for one in sink.posts] == [
        ("/night", "Firing: grave, pool mine")
    ]
    # half past two comes twice in that night; quiet is over with the second
    clock.now = datetime(2037, 10, 25, 1, 29, tzinfo=UTC)
    assert clock.sends() == 0
    clock.now = datetime(2037, 10, 25, 1, 31, tzinfo=UTC)
    assert clock.sends() == 2


def test_what_nobody_takes_up_goes_to_the_next_and_the_next(
    make_rule: Make, make_hook: Any, hook: Channel, fleet: Fleet, clock: Clock, actor: Actor
) -> None:
    for name in ("lead", "pager"):
        make_hook(name)
    make_rule(channels=["hook"], escalation=["lead", "pager"], escalates_after_s=300)
    fleet(WorkerState.FAILED)
    clock.looks(1)
    clock.looks(2, every_s=149)
    assert told() == [("hook", "fired")]
    clock.looks(1)
    assert told()[1:] == [("lead", "escalated")]
    clock.looks(4, every_s=100)
    assert told()[2:] == [("pager", "escalated")]
    assert Episode.objects.get().escalated == 2
    # who was told of it is told of its end
    fleet(WorkerState.READY)
    clock.looks(3, every_s=60)
    assert sorted(told()[3:]) == [("hook", "resolved"), ("lead", "resolved"), ("pager", "resolved")]


def test_what_is_taken_up_is_neither_passed_on_nor_told_again(
    make_rule: Make, make_hook: Any, hook: Channel, fleet: Fleet, clock: Clock, actor: Actor
) -> None:
    make_hook("lead")
    make_rule(channels=["hook"], escalation=["lead"], escalates_after_s=300, reminds_every_s=120)
    fleet(WorkerState.FAILED)
    clock.looks(3, every_s=60)
    assert told() == [("hook", "fired"), ("hook", "reminded")]
    update_episode(actor, episode_id=Episode.objects.get().pk, changes={"state": "acknowledged"})
    clock.looks(10, every_s=120)
    assert len(told()) == 2


def test_jobs_that_were_away_tell_once_what_was_due_often(
    make_rule: Make, hook: Channel, fleet: Fleet, clock: Clock
) -> None:
    make_rule(channels=["hook"], reminds_every_s=300)
    fleet(WorkerState.FAILED)
    clock.looks(1)
    clock.pass_s(86_400)
    clock.looks(2)
    assert told() == [("hook", "fired"), ("hook", "reminded")]
    # a clock that is set back tells nothing, and nothing twice
    clock.pass_s(-86_400)
    clock.looks(3)
    assert len(told()) == 2


def test_a_silence_that_recurs_holds_at_its_times_alone(
    make_rule: Make,
    hook: Channel,
    fleet: Fleet,
    clock: Clock,
    actor: Actor,
    organisation: Organisation,
) -> None:
    Organisation.objects.update(time_zone="Europe/Berlin")
    rule = make_rule(channels=["hook"])
    silence = create_silence(
        actor,
        organisation=organisation,
        rule=rule.pk,
        reason="works at the weekend",
        ends_at=datetime.now(UTC) + timedelta(days=300),
        weekdays=[5],
        from_time=time(22),
        until_time=time(4),
    )
    # the service knows the real year alone
    Silence.objects.filter(pk=silence.pk).update(ends_at=datetime(2038, 1, 1, tzinfo=UTC))
    clock.now = datetime(2037, 10, 24, 20, 30, tzinfo=UTC)
    fleet(WorkerState.FAILED)
    clock.looks(2)
    assert told() == []
    clock.now = datetime(2037, 10, 25, 2, 59, tzinfo=UTC)
    clock.looks(1)
    assert told() == []
    clock.looks(1, every_s=120)
    assert told() == [("hook", "fired")]


def test_silences_and_quiet_hours_that_make_no_sense_are_refused(
    actor: Actor, organisation: Organisation, hook: Channel
) -> None:
    late = datetime.now(UTC) + timedelta(days=31)
    told = {"organisation": organisation, "reason": "x", "ends_at": late}
    with pytest.raises(Invalid) as raised:
        create_silence(actor, **told)
    assert raised.value.fields == {"ends_at": ["Give a time within the next 30 days."]}
    with pytest.raises(Invalid) as raised:
        create_silence(actor, **told, weekdays=[1])
    assert list(raised.value.fields) == ["weekdays"]
    with pytest.raises(Invalid) as raised:
        update_channel(actor, channel_id=hook.pk, changes={"quiet_from": time(22)})
    assert list(raised.value.fields) == ["quiet_until"]


def test_what_fires_again_and_again_is_one_alert_that_flaps(
    make_rule: Make, hook: Channel, fleet: Fleet, clock: Clock
) -> None:
    make_rule(channels=["hook"], tells_resolved=False)
    for _ in range(8):
        fleet(WorkerState.FAILED)
        clock.looks(2)
        fleet(WorkerState.READY)
        clock.looks(4, every_s=30)
    assert told() == [("hook", "fired")] * 3
    text = Delivery.objects.latest("created_at").content["text"]
    assert "It flaps: it fired three times within an hour" in text
    clock.looks(16, every_s=60)
    assert [one.state for one in Episode.objects.all()] == ["resolved"] * 3


def test_a_channel_that_a_rule_tells_later_is_in_use_and_one_removed_is_told_no_more(
    make_rule: Make, make_hook: Any, hook: Channel, fleet: Fleet, clock: Clock, actor: Actor
) -> None:
    lead = make_hook("lead")
    rule = make_rule(channels=["hook"], escalation=["lead"], escalates_after_s=300)
    fleet(WorkerState.FAILED)
    clock.looks(1)
    with pytest.raises(InUse, match="lead"):
        delete_channel(actor, channel_id=lead.pk)
    update_alert_rule(
        actor, rule_id=rule.pk, changes={"channels": [], "escalation": [], "escalates_after_s": 0}
    )
    delete_channel(actor, channel_id=hook.pk)
    delete_channel(actor, channel_id=lead.pk)
    clock.looks(3, every_s=200)
    episode = Episode.objects.get()
    assert (episode.state, told()) == ("open", [])
    fleet(WorkerState.READY)
    clock.looks(3, every_s=60)
    assert Episode.objects.get().state == "resolved"


def test_a_rule_that_was_paused_fires_no_burst_of_what_it_missed(
    make_rule: Make,
    hook: Channel,
    admin: Caller,
    clock: Clock,
    actor: Actor,
    state_store: Redis,
) -> None:
    ids = [admin.made("/pools/", {**POOL, "name": f"pool-{n}"})["id"] for n in range(6)]
    rule = make_rule(channels=["hook"], for_s=60)
    update_alert_rule(actor, rule_id=rule.pk, changes={"is_enabled": False})
    put_directory(state_store, *(worker(f"{one}-0", WorkerState.FAILED) for one in ids))
    clock.looks(5, every_s=60)
    update_alert_rule(actor, rule_id=rule.pk, changes={"is_enabled": True})
    clock.looks(1)
    assert told() == []
    clock.looks(2, every_s=40)
    assert told() == [("hook", "fired")]
    assert Delivery.objects.get().content["title"] == "Firing: 6 alerts"
