"""`/-/status`: what answers and what doesn't, for whoever asks."""

import re
import time
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client
from redis import Redis

from controlplane.tasks.heartbeat import HEARTBEAT_KEY, beat


def test_everything_up_is_200_and_each_part_is_named(state_store: Redis) -> None:
    beat()
    response = Client().get("/-/status")
    body = response.json()
    assert response.status_code == 200
    assert (body["status"], body["down"]) == ("ok", [])
    assert [(part["name"], part["state"]) for part in body["parts"]] == [
        ("database", "ok"),
        ("state", "ok"),
        ("cache", "ok"),
        ("jobs", "ok"),
    ]


@pytest.mark.parametrize(("age_s", "state"), [(1, "ok"), (61, "stale"), (None, "unknown")])
def test_the_jobs_are_told_by_the_age_of_their_beat(
    age_s: int | None, state: str, state_store: Redis
) -> None:
    if age_s is not None:
        state_store.set(HEARTBEAT_KEY, time.time() - age_s)
    response = Client().get("/-/status")
    assert response.status_code == 200
    assert response.json()["parts"][-1]["state"] == state


@pytest.mark.parametrize(
    ("name", "setting", "url"),
    [
        ("database", "database_url", "postgresql://nobody@/none?host={}"),
        ("state", "state_url", "unix://{}/none.sock?db=0"),
        ("cache", "cache_url", "unix://{}/none.sock?db=0"),
    ],
)
def test_what_is_down_is_named_with_503_and_without_its_address(
    name: str, setting: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    assert names == ["database", "state", "jobs"]


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
