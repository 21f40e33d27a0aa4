"""Worker logs on their way from a supervisor to a page, over a real store."""

from datetime import UTC, datetime
from typing import Any

import pytest
from django.conf import settings
from redis import Redis

from controlplane.bridge.logs import WISH_LIFE_S, LogState, WorkerLog, read_worker_log
from inference.contract import wire

WORKER = "pool_1-0"
NOW = 1_700_000_000.0


def read() -> WorkerLog:
    return read_worker_log(WORKER, clock=lambda: NOW)


def ship(store: Redis, text: str, at: float = NOW) -> None:
    fields: dict[Any, Any] = {"at": f"{at:.3f}", "size": 70_000, "text": text}
    store.hset(wire.worker_log_key(WORKER), mapping=fields)


def test_asking_leaves_a_wish_that_ends_by_itself_and_every_read_renews_it(
    state_store: Redis,
) -> None:
    state_store.set(wire.LEADER, "1:pools")
    assert read() == WorkerLog(WORKER, LogState.WAITING)
    state_store.expire(wire.worker_log_wish(WORKER), 3)
    read()
    assert WISH_LIFE_S - 2 <= state_store.ttl(wire.worker_log_wish(WORKER)) <= WISH_LIFE_S


def test_what_was_shipped_is_shown_with_its_time_and_size(state_store: Redis) -> None:
    state_store.set(wire.LEADER, "1:pools")
    ship(state_store, "loading\nready")
    at = datetime.fromtimestamp(NOW, UTC)
    assert read() == WorkerLog(WORKER, LogState.LIVE, at, 70_000, "loading\nready")


@pytest.mark.parametrize(
    ("has_leader", "age_s", "state"),
    [(True, 5.0, LogState.LIVE), (True, 5.1, LogState.STALE), (False, 0.0, LogState.NO_SUPERVISOR)],
)
def test_an_old_log_is_stale_and_without_a_leader_nobody_ships(
    has_leader: bool, age_s: float, state: LogState, state_store: Redis
) -> None:
    if has_leader:
        state_store.set(wire.LEADER, "1:pools")
    ship(state_store, "words", NOW - age_s)
    found = read()
    assert (found.state, found.text) == (state, "words")


def test_nothing_shipped_and_nobody_leading_is_said(state_store: Redis) -> None:
    assert read() == WorkerLog(WORKER, LogState.NO_SUPERVISOR)


def test_a_store_that_does_not_answer_is_said_and_raises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broken = settings.HEADWORKS.model_copy(
        update={"state_url": type(settings.HEADWORKS.state_url)("unix:///nowhere.sock?db=0")}
    )
    monkeypatch.setattr(settings, "HEADWORKS", broken)
    assert read() == WorkerLog(WORKER, LogState.UNAVAILABLE)


def test_what_looks_like_a_secret_is_masked_and_broken_bytes_are_shown_as_such(
    state_store: Redis,
) -> None:
    state_store.set(wire.LEADER, "1:pools")
    ship(state_store, "Authorization: Bearer abcdef123456")
    assert read().text == "Authorization: [redacted]"
    state_store.hset(wire.worker_log_key(WORKER), "text", b"\xff ok")
    assert read().text == "� ok"
