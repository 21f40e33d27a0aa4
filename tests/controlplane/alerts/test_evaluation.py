"""What rules find, what becomes of it, and who is told: once, and not while it is silenced."""

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from redis import Redis

from controlplane.alerting.evaluation import evaluate
from controlplane.models import AlertRule, Channel, Delivery, Episode, Organisation
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import update_alert_rule
from controlplane.services.episodes import update_episode
from controlplane.services.silences import create_silence, delete_silence
from controlplane.services.switches import put_back_switch, throw_switch
from inference.contract.kinds import WorkerState
from tests.controlplane.alerts.conftest import Clock
from tests.controlplane.alerts.sinks import Sink
from tests.controlplane.conftest import POOL, Caller
from tests.controlplane.fleet import put_directory, worker

pytestmark = pytest.mark.slow

Make = Callable[..., AlertRule]
Fleet = Callable[[WorkerState], None]


@pytest.fixture
def fleet(pool: Any, state_store: Redis) -> Fleet:
    """The one worker of the pool, in whichever state."""
    return lambda state: put_directory(state_store, worker(f"{pool['id']}-0", state))


def kinds() -> list[str]:
    """What the messages that were queued tell of, in their order."""
    return list(Delivery.objects.order_by("created_at", "pk").values_list("kind", flat=True))


def test_it_fires_once_is_told_once_and_its_end_too(
    make_rule: Make, hook: Channel, sink: Sink, fleet: Fleet, clock: Clock
) -> None:
    rule = make_rule(channels=["hook"], severity="critical")
    fleet(WorkerState.FAILED)
    clock.looks(3)
    clock.sends()
    (post,) = sink.posts
    told = json.loads(post.body)
    assert told["title"] == "Firing: down, pool mine"
    assert told["text"] == "Pool down at pool mine: 100 %; 100 % or more is an alert."
    (alert,) = told["alerts"]
    assert (alert["value"], alert["threshold"], alert["severity"]) == (100.0, 100.0, "critical")
    episode = Episode.objects.get()
    assert (episode.state, episode.rule, episode.subject_name) == ("open", rule, "mine")
    fleet(WorkerState.READY)
    clock.looks(2, every_s=30)
    assert Episode.objects.get().state == "open", "it has to be lower for a minute"
    clock.looks(1, every_s=30)
    clock.sends()
    assert Episode.objects.get().state == "resolved"
    assert [json.loads(one.body)["kind"] for one in sink.posts] == ["fired", "resolved"]
    clock.looks(3)
    assert clock.sends() == 0


def test_a_restart_in_between_repeats_nothing_and_a_new_time_is_a_new_alert(
    make_rule: Make, hook: Channel, fleet: Fleet, clock: Clock
) -> None:
    make_rule(channels=["hook"], tells_resolved=False)
    for _ in range(2):
        fleet(WorkerState.FAILED)
        clock.looks(2)
        # jobs that were away for an hour find it so still
        clock.looks(2, every_s=3_600)
        fleet(WorkerState.READY)
        clock.looks(3, every_s=30)
    assert [one.state for one in Episode.objects.all()] == ["resolved", "resolved"]
    assert kinds() == ["fired", "fired"]


def test_no_data_ends_nothing(
    make_rule: Make, hook: Channel, fleet: Fleet, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_rule(channels=["hook"])
    fleet(WorkerState.FAILED)
    clock.looks(1)
    monkeypatch.setattr("controlplane.alerting.base.read_fleet", lambda: None)
    clock.looks(3, every_s=60)
    episode = Episode.objects.get()
    assert (episode.state, episode.value, episode.peak) == ("open", None, 100.0)


@pytest.mark.django_db(transaction=True)
def test_two_evaluators_at_once_make_one_alert_and_one_message_a_channel(
    make_rule: Make, hook: Channel, fleet: Fleet, clock: Clock
) -> None:
    make_rule(channels=["hook"])
    fleet(WorkerState.FAILED)

    def work(offset_s: int) -> None:
        try:
            evaluate(clock.now + timedelta(milliseconds=offset_s))
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, [1, 1, 2, 3]))
    assert Episode.objects.count() == 1
    assert kinds() == ["fired"]


def test_the_database_holds_one_alert_of_a_rule_and_place_that_is_not_over(
    make_rule: Make, fleet: Fleet, clock: Clock
) -> None:
    make_rule()
    fleet(WorkerState.FAILED)
    clock.looks(1)
    episode = Episode.objects.get()
    episode.pk = "ale_another"
    with pytest.raises(IntegrityError, match="episode_one_at_a_time"), transaction.atomic():
        episode.save(force_insert=True)


def test_silence_keeps_it_quiet_and_its_end_tells_what_still_holds(
    make_rule: Make,
    hook: Channel,
    fleet: Fleet,
    clock: Clock,
    actor: Actor,
    organisation: Organisation,
) -> None:
    rule = make_rule(channels=["hook"])
    ends_at = clock.now + timedelta(hours=1)
    silence = create_silence(
        actor, organisation=organisation, rule=rule.pk, ends_at=ends_at, reason="works"
    )
    fleet(WorkerState.FAILED)
    clock.looks(3)
    assert (Episode.objects.get().state, kinds()) == ("open", [])
    delete_silence(actor, silence_id=silence.pk)
    clock.looks(3)
    assert kinds() == ["fired"]


def test_a_silence_that_outlasts_the_alert_tells_nothing(
    make_rule: Make,
    hook: Channel,
    fleet: Fleet,
    clock: Clock,
    actor: Actor,
    organisation: Organisation,
) -> None:
    make_rule(channels=["hook"])
    ends_at = clock.now + timedelta(minutes=10)
    create_silence(actor, organisation=organisation, ends_at=ends_at, reason="works")
    fleet(WorkerState.FAILED)
    clock.looks(3)
    fleet(WorkerState.READY)
    clock.looks(3, every_s=30)
    clock.pass_s(3_600)
    clock.looks(2)
    assert (Episode.objects.get().state, kinds()) == ("resolved", [])


def test_many_at_once_are_one_message(
    make_rule: Make, hook: Channel, admin: Caller, clock: Clock, state_store: Redis
) -> None:
    ids = [admin.made("/pools/", {**POOL, "name": f"pool-{number}"})["id"] for number in range(5)]
    make_rule(channels=["hook"])
    put_directory(state_store, *(worker(f"{one}-0", WorkerState.FAILED) for one in ids))
    clock.looks(1)
    delivery = Delivery.objects.get()
    assert delivery.content["title"] == "Firing: 5 alerts"
    assert len(delivery.content["alerts"]) == 5
    assert Episode.objects.count() == 5


def test_a_snooze_is_quiet_and_reminds_once(
    make_rule: Make, hook: Channel, fleet: Fleet, clock: Clock, actor: Actor
) -> None:
    make_rule(channels=["hook"])
    fleet(WorkerState.FAILED)
    clock.looks(2)
    until = clock.now + timedelta(minutes=5)
    changes = {"state": "snoozed", "snoozed_until": until}
    update_episode(actor, episode_id=Episode.objects.get().pk, changes=changes)
    clock.looks(4, every_s=60)
    assert kinds() == ["fired"]
    clock.looks(3, every_s=60)
    assert kinds() == ["fired", "reminded"]
    assert Episode.objects.get().state == "open"


def test_ended_by_hand_it_fires_anew_once_its_rule_finds_it_so_again(
    make_rule: Make, hook: Channel, fleet: Fleet, clock: Clock, actor: Actor
) -> None:
    make_rule(channels=["hook"], for_s=60)
    fleet(WorkerState.FAILED)
    clock.looks(3, every_s=30)
    update_episode(actor, episode_id=Episode.objects.get().pk, changes={"state": "resolved"})
    clock.looks(2, every_s=30)
    assert kinds() == ["fired"]
    clock.looks(1, every_s=30)
    assert kinds() == ["fired", "fired"]


def test_switching_a_rule_off_ends_its_alerts_and_on_again_fires_no_burst(
    make_rule: Make, hook: Channel, fleet: Fleet, clock: Clock, actor: Actor
) -> None:
    rule = make_rule(channels=["hook"], for_s=60)
    fleet(WorkerState.FAILED)
    clock.looks(3, every_s=30)
    update_alert_rule(actor, rule_id=rule.pk, changes={"is_enabled": False})
    clock.looks(2, every_s=30)
    episode = Episode.objects.get()
    assert (episode.state, episode.resolved_why) == ("resolved", "Its rule was changed.")
    update_alert_rule(actor, rule_id=rule.pk, changes={"is_enabled": True})
    clock.looks(2, every_s=30)
    assert kinds() == ["fired"], "its whole time begins anew"
    clock.looks(1, every_s=30)
    assert kinds() == ["fired", "fired"]


def test_what_an_alert_was_about_being_gone_ends_it(
    make_rule: Make, fleet: Fleet, admin: Caller, pool: Any, clock: Clock
) -> None:
    make_rule()
    fleet(WorkerState.FAILED)
    clock.looks(1)
    assert admin.delete(f"/pools/{pool['id']}/").status_code == 204
    clock.looks(1)
    assert Episode.objects.get().resolved_why == "What it was about is gone."


def test_looking_and_sending_leave_nothing_behind(
    make_rule: Make, hook: Channel, sink: Sink, fleet: Fleet, clock: Clock
) -> None:
    make_rule(channels=["hook"])
    before = threading.active_count()
    fleet(WorkerState.FAILED)
    for _ in range(10):
        clock.looks(1)
        clock.sends()
    assert len(sink.posts) == 1
    assert threading.active_count() == before


def test_one_rule_that_can_not_be_looked_at_holds_up_no_other(
    make_rule: Make, fleet: Fleet, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_rule(name="broken", kind="ledger_behind", scope="organisation")
    make_rule()

    def fail(*arguments: object) -> None:
        raise RuntimeError

    monkeypatch.setattr("controlplane.alerting.measures.ledger_behind.read_lag_s", fail)
    fleet(WorkerState.FAILED)
    clock.looks(1)
    assert Episode.objects.get().name == "down"


def test_kill_switches_are_told_to_the_channels_that_are_marked(
    hook: Channel,
    sink: Sink,
    clock: Clock,
    actor: Actor,
    organisation: Organisation,
    pool: Any,
    admin: Caller,
) -> None:
    admin.patch(f"/channels/{hook.pk}/", {"tells_switches": True})
    document = {"subject": "pool", "subject_id": "mine"}
    assert admin.post("/switches/?dry_run=true", document).status_code == 200
    assert kinds() == [], "what was only tried out is told nobody"
    switch = throw_switch(actor, organisation=organisation, **document)
    put_back_switch(actor, switch_id=switch.pk)
    clock.pass_s(1)
    assert clock.sends() == 2
    titles = [json.loads(one.body)["title"] for one in sink.posts]
    assert titles == ["Turned off: pool mine", "Served again: pool mine"]
