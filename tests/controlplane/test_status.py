"""`/-/status`: what answers and what doesn't, for whoever asks."""

import re
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client
from redis import Redis

from controlplane.models import JournalMark
from controlplane.tasks.heartbeat import HEARTBEAT_KEY, beat
from inference.contract import wire
from inference.contract.kinds import CacheTier, WorkerState
from inference.contract.vitals import Applied, TierGauge
from tests.controlplane.bridge.conftest import environment_of_process
from tests.controlplane.fleet import put_directory, put_vitals, vitals, worker


def part_of(name: str) -> Any:
    """One part as a program reads it, without a word about the others."""
    response = Client().get("/-/status")
    assert response.status_code == 200
    (found,) = [part for part in response.json()["parts"] if part["name"] == name]
    return found


def test_without_a_fleet_all_stores_up_is_200_and_degraded(state_store: Redis) -> None:
    beat()
    response = Client().get("/-/status")
    body = response.json()
    assert response.status_code == 200
    assert (body["status"], body["down"]) == ("degraded", [])
    assert [(part["name"], part["state"]) for part in body["parts"]] == [
        ("database", "ok"),
        ("state", "ok"),
        ("cache", "ok"),
        ("jobs", "ok"),
        ("recorder", "degraded"),
        ("configuration", "ok"),
        ("gateways", "degraded"),
        ("pools", "degraded"),
    ]


@pytest.mark.parametrize(("age_s", "state"), [(1, "ok"), (61, "stale"), (None, "unknown")])
def test_the_jobs_are_told_by_the_age_of_their_beat(
    age_s: int | None, state: str, state_store: Redis
) -> None:
    if age_s is not None:
        state_store.set(HEARTBEAT_KEY, time.time() - age_s)
    assert part_of("jobs")["state"] == state


@pytest.mark.parametrize(
    ("name", "setting", "url"),
    [
        ("database", "database_url", "postgresql://nobody@/none?host={}"),
        ("state", "state_url", "unix://{}/none.sock?db=0"),
        ("cache", "cache_url", "unix://{}/none.sock?db=0"),
    ],
)
def test_what_is_down_is_named_with_503_and_without_its_address(
    name: str,
    setting: str,
    url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    collected_files: None,
) -> None:
    without = type(settings.HEADWORKS)(**{setting: url.format(tmp_path)})
    monkeypatch.setattr(settings, "HEADWORKS", without)
    response = Client().get("/-/status")
    assert response.status_code == 503
    assert response.json()["down"] == [name]
    assert str(tmp_path) not in response.content.decode()
    page = Client().get("/-/status", headers={"accept": "text/html"})
    assert page.status_code == 503
    assert f"Down: {name}" in page.content.decode()


def test_a_cache_that_is_not_configured_is_not_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    without = settings.HEADWORKS.model_copy(update={"cache_url": None})
    monkeypatch.setattr(settings, "HEADWORKS", without)
    names = [part["name"] for part in Client().get("/-/status").json()["parts"]]
    assert names == ["database", "state", "jobs", "recorder", "configuration", "gateways", "pools"]


def test_the_recorder_is_told_by_what_waits_and_by_who_asks(
    state_store: Redis, collected_files: None
) -> None:
    part = part_of("recorder")
    assert (part["state"], part["detail"]) == ("degraded", "it has not run yet")
    assert (part["stream_entries"], part["waiting_entries"]) == (0, None)
    state_store.xgroup_create(wire.USAGE_STREAM, wire.USAGE_GROUP, id="0", mkstream=True)
    for _ in range(2):
        state_store.xadd(wire.USAGE_STREAM, {wire.USAGE_FIELD: b"{}"})
    assert part_of("recorder")["detail"] == "no recorder reads the stream"
    state_store.xreadgroup(wire.USAGE_GROUP, "me", {wire.USAGE_STREAM: ">"}, count=1)
    part = part_of("recorder")
    assert (part["state"], part["waiting_entries"]) == ("ok", 2)
    assert 0 <= part["age_s"] < 30
    page = Client().get("/-/status", headers={"accept": "text/html"}).content.decode()
    assert "2 waiting to be recorded" in page


@pytest.mark.django_db(transaction=True)
def test_the_recorder_s_last_commit_is_told(
    state_store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = environment_of_process()["HEADWORKS_DATABASE_URL"]
    monkeypatch.setattr(settings, "HEADWORKS", type(settings.HEADWORKS)(database_url=url))
    assert part_of("recorder")["last_mark_at"] is None
    at = datetime(2026, 11, 30, 12, tzinfo=UTC)
    JournalMark.objects.create(journal="jnl_a", mark=1, updated_at=at)
    assert part_of("recorder")["last_mark_at"] == "2026-11-30T12:00:00+00:00"


def test_gateways_that_run_on_one_version_are_ok(state_store: Redis) -> None:
    put_vitals(state_store, vitals("g/0"), vitals("g/1", journal_backlog=4))
    assert part_of("gateways") == {
        "name": "gateways",
        "state": "ok",
        "processes": 2,
        "versions": [{"version": 7, "processes": 2}],
        "refused": [],
        "events_lost": 0,
        "events_lost_at": None,
        "journal_backlog": 4,
        "semantic_cache": "off: no helper answers 2 of 2 processes",
    }


@pytest.mark.parametrize(
    ("down", "said"),
    [
        ((False, False), "on: 1,234 questions"),
        ((False, True), "off: no helper answers 1 of 2 processes"),
    ],
)
def test_whether_the_semantic_cache_is_on_is_told_and_is_no_trouble(
    state_store: Redis, collected_files: None, down: tuple[bool, bool], said: str
) -> None:
    gauges = [
        TierGauge(tier=CacheTier.SEMANTIC, entries=None if one else 1234, is_down=one)
        for one in down
    ]
    put_vitals(state_store, *(vitals(f"g/{at}", tiers=(one,)) for at, one in enumerate(gauges)))
    part = part_of("gateways")
    assert (part["state"], part["semantic_cache"]) == ("ok", said)
    page = Client().get("/-/status", headers={"accept": "text/html"}).content.decode()
    assert f"semantic cache {said}" in page


def test_a_refused_version_and_lost_events_are_told_without_what_they_hold(
    state_store: Redis, collected_files: None
) -> None:
    why = "pools pool_a addresses: http://10.1.2.3/v1 of Acme is not allowed"
    refusing = vitals("g/1", applied=Applied("00", 6, 8, why), events_lost_total=3)
    put_vitals(state_store, vitals("g/0"), refusing)
    part = part_of("gateways")
    assert (part["state"], part["detail"]) == (
        "degraded",
        "a version was refused; events were lost",
    )
    assert part["versions"] == [{"version": 6, "processes": 1}, {"version": 7, "processes": 1}]
    assert part["refused"] == [{"version": 8, "why": "pools pool_a addresses"}]
    assert part["events_lost"] == 3
    page = Client().get("/-/status", headers={"accept": "text/html"}).content.decode()
    assert "refused version 8: pools pool_a addresses<" in page
    assert "3 events lost" in page
    assert "10.1.2.3" not in page + str(part)


@pytest.mark.parametrize(("age_s", "state"), [(3_599.0, "degraded"), (3_600.0, "ok")])
def test_a_loss_is_told_with_its_time_and_is_no_trouble_after_an_hour(
    age_s: float, state: str, state_store: Redis, collected_files: None
) -> None:
    lost_at = 1_764_500_000.0
    losing = vitals("g/1", written_at=lost_at + age_s, events_lost_total=3, events_lost_at=lost_at)
    put_vitals(state_store, vitals("g/0"), losing)
    part = part_of("gateways")
    told = "2025-11-30T10:53:20+00:00"
    assert (part["state"], part["events_lost"], part["events_lost_at"]) == (state, 3, told)
    assert part.get("detail", "") == (
        f"events were lost, the last at {told}" if state == "degraded" else ""
    )
    page = Client().get("/-/status", headers={"accept": "text/html"}).content.decode()
    assert f"3 events lost, the last at {told}" in page


def test_workers_that_are_not_ready_are_told_by_id_and_state(
    state_store: Redis, collected_files: None
) -> None:
    state_store.set(wire.LEADER, "1")
    put_directory(
        state_store,
        worker("pool_a-0", WorkerState.READY),
        worker("pool_a-1", WorkerState.FAILED, detail="http://10.1.2.3 of Acme"),
    )
    assert part_of("pools") == {
        "name": "pools",
        "state": "degraded",
        "detail": "workers fail",
        "leader": True,
        "workers": {"failed": 1, "ready": 1},
        "not_ready": [{"id": "pool_a-1", "state": "failed"}],
    }
    page = Client().get("/-/status", headers={"accept": "text/html"}).content.decode()
    assert "pool_a-1: failed" in page
    assert "10.1.2.3" not in page


def test_gateways_of_which_a_process_fell_silent_are_degraded(state_store: Redis) -> None:
    put_vitals(state_store, vitals("g/0"))
    state_store.zadd(wire.SEEN, dict.fromkeys(("g/0", "g/1"), time.time()))
    part = part_of("gateways")
    assert (part["state"], part["detail"]) == ("degraded", "1 of 2 processes is silent")


def test_gateways_and_pools_are_unknown_while_the_store_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = type(settings.HEADWORKS)(state_url=f"unix://{tmp_path}/none.sock?db=0")
    monkeypatch.setattr(settings, "HEADWORKS", gone)
    body = Client().get("/-/status").json()
    states = {part["name"]: part["state"] for part in body["parts"]}
    assert {states[name] for name in ("gateways", "pools", "recorder")} == {"unknown"}
    assert body["down"] == ["state"]


def test_pools_without_a_leader_or_with_a_foreign_directory_are_degraded(
    state_store: Redis,
) -> None:
    state_store.hset(wire.DIRECTORY, "sealed", b"not ours")
    part = part_of("pools")
    assert (part["state"], part["leader"]) == ("degraded", False)
    assert part["detail"] == "no supervisor leads; the directory can't be read"
    assert "workers" not in part


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("*/*", "application/json"),
        ("application/json", "application/json"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8"),
    ],
)
def test_a_browser_gets_a_page_and_a_program_json(
    accept: str, kind: str, collected_files: None
) -> None:
    response = Client().get("/-/status", headers={"accept": accept})
    assert response["Content-Type"] == kind
    assert response["Cache-Control"] == "private, no-store"


def test_the_page_has_nothing_inline(collected_files: None) -> None:
    page = Client().get("/-/status", headers={"accept": "text/html"}).content.decode()
    assert re.search(r"<script(?![^>]*\bsrc=)", page) is None
    assert "<style" not in page
    assert " style=" not in page


def test_it_is_only_read() -> None:
    assert Client().post("/-/status").status_code == 405
