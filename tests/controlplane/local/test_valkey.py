"""The embedded Valkeys: who may do what, and what is still there after a kill."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from subprocess import Popen

import pytest
from kombu import Connection
from redis import Redis
from redis.exceptions import AuthenticationError, NoPermissionError

from controlplane.local.places import Places, make_places
from controlplane.local.processes import end_groups, read_records
from controlplane.local.valkey import (
    BROKER,
    CACHE,
    CONTROL,
    DATA,
    STATE,
    Store,
    StoreUser,
    cache_rules,
    is_answering,
    start_store,
    state_rules,
)
from inference.contract import wire
from tests.controlplane.local.dummies import wait_for


@contextmanager
def serving(places: Places, name: str) -> Iterator[tuple[Store, Popen[bytes]]]:
    """A store that answers, with the users of an installation."""
    rules = state_rules if name == STATE else cache_rules
    roles = (CONTROL, DATA, BROKER) if name == STATE else (CONTROL,)
    store = Store(name, places, tuple(StoreUser(role, f"{role}-x", rules(role)) for role in roles))
    with start_store(store) as process:
        try:
            wait_for(lambda: is_answering(store), "an answer")
            yield store, process
        finally:
            assert end_groups(read_records(places.groups), grace_s=5.0) == ()


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with serving(make_places(tmp_path_factory.mktemp("state") / "var"), STATE) as (store, _):
        yield store


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with serving(make_places(tmp_path_factory.mktemp("cache") / "var"), CACHE) as (store, _):
        yield store


@contextmanager
def as_role(store: Store, role: str, *, database: int = 0) -> Iterator[Redis]:
    """A client of one role."""
    with Redis.from_url(store.url(role).replace("db=0", f"db={database}")) as client:
        yield client


def refused(client: Redis, *command: str) -> None:
    with pytest.raises(NoPermissionError):
        client.execute_command(*command)


@pytest.mark.slow
def test_without_a_user_nothing_is_answered(state: Store) -> None:
    with (
        Redis(unix_socket_path=str(state.socket)) as client,
        pytest.raises(AuthenticationError),
    ):
        client.ping()


def test_data_reads_the_configuration_and_cannot_write_it(state: Store) -> None:
    with as_role(state, CONTROL) as control, as_role(state, DATA) as data:
        control.hset(wire.MANIFEST, "version", 1)
        control.set(wire.section_key("d"), "sealed")
        control.set(wire.LINEAGE, "l")
        assert data.hgetall(wire.MANIFEST) == {b"version": b"1"}
        assert data.get(wire.section_key("d")) == b"sealed"
        assert data.get(wire.LINEAGE) == b"l"
        refused(data, "HSET", wire.MANIFEST, "version", "2")
        refused(data, "SET", wire.section_key("d"), "x")
        refused(data, "DEL", wire.LINEAGE)
        refused(data, "EVAL", "return redis.call('DEL', KEYS[1])", "1", wire.MANIFEST)
        refused(data, "HSET", wire.JOURNAL_MARKS, "j", "1")


def test_data_hears_which_logs_are_wanted_and_wants_none_itself(state: Store) -> None:
    wish = wire.worker_log_wish("pool_a-0")
    with as_role(state, CONTROL) as control, as_role(state, DATA) as data:
        control.set(wish, "1", ex=30)
        assert data.mget(wish) == [b"1"]
        refused(data, "SET", wish, "1")


def test_data_writes_what_is_its_own(state: Store) -> None:
    with as_role(state, DATA) as data:
        script = "return redis.call('HSET', KEYS[1], 'token', ARGV[1])"
        assert data.eval(script, 1, wire.DIRECTORY, "7") == 1
        assert data.incr(wire.FENCING) == 1
        assert data.set(wire.LEADER, "me", nx=True, ex=5)
        assert data.xadd(wire.USAGE_STREAM, {wire.USAGE_FIELD: "x"})
        assert data.xlen(wire.USAGE_STREAM) == 1
        assert data.set(wire.vitals_key("p"), "v", ex=5)
        assert data.zadd(wire.SEEN, {"p": 1.0})
        assert data.zremrangebyscore(wire.SEEN, "-inf", 1) == 1
        assert data.time()[0] > 0
        assert data.hset(wire.worker_log_key("pool_a-0"), wire.WORKER_LOG_TEXT, "line")
        assert data.expire(wire.worker_log_key("pool_a-0"), 30)
        assert data.publish(wire.DIRECTORY_CHANGED, "1") == 0
        assert "run_id" in data.info("server")


@pytest.mark.parametrize("role", [DATA, BROKER])
def test_sessions_and_other_keys_are_the_control_planes_alone(state: Store, role: str) -> None:
    with as_role(state, CONTROL) as control, as_role(state, role) as other:
        control.set("session:1", "s")
        refused(other, "GET", "session:1")
        refused(other, "SET", "session:1", "x")


@pytest.mark.parametrize("role", [CONTROL, DATA, BROKER])
def test_no_role_administers_the_store(state: Store, role: str) -> None:
    with as_role(state, role, database=1 if role == BROKER else 0) as client:
        for command in (
            ("CONFIG", "GET", "*"),
            ("ACL", "LIST"),
            ("FLUSHALL",),
            ("KEYS", "*"),
            ("SHUTDOWN",),
            ("SCRIPT", "FLUSH"),
            ("FUNCTION", "LIST"),
            ("MONITOR",),
            ("REPLICAOF", "NO", "ONE"),
        ):
            refused(client, *command)


def test_the_broker_has_its_own_database_and_no_other(state: Store) -> None:
    with Connection(state.broker_url(BROKER)) as connection:
        queue = connection.SimpleQueue("celery")
        queue.put({"task": 1})
        assert queue.get(timeout=5).payload == {"task": 1}
        queue.close()
    with as_role(state, BROKER) as broker:
        refused(broker, "GET", "x")
    with as_role(state, DATA) as data:
        refused(data, "SELECT", "1")


def test_the_cache_store_evicts_and_keeps_nothing(cache: Store) -> None:
    with as_role(cache, CONTROL) as data:
        assert data.set("anything", "x")
        assert data.info("memory")["maxmemory_policy"] == "allkeys-lfu"
        assert data.info("memory")["maxmemory"] == 256 * 1024 * 1024
        assert data.info("persistence")["aof_enabled"] == 0


def test_the_state_store_never_evicts_and_keeps_a_journal(state: Store) -> None:
    with as_role(state, CONTROL) as control:
        assert control.info("memory")["maxmemory_policy"] == "noeviction"
        assert control.info("persistence")["aof_enabled"] == 1


@pytest.mark.fault
def test_state_outlives_a_kill_and_the_next_start(tmp_path: Path) -> None:
    places = make_places(tmp_path / "var")
    with serving(places, STATE) as (store, process):
        with as_role(store, CONTROL) as control:
            control.set("kept", "x")
            wait_for(lambda: _is_synced(control), "the journal on disk")
        process.kill()
    with serving(places, STATE) as (store, _), as_role(store, CONTROL) as control:
        assert control.get("kept") == b"x"


def _is_synced(client: Redis) -> bool:
    told = client.info("persistence")
    return told["aof_pending_bio_fsync"] == 0 and told["aof_buffer_length"] == 0


def test_passwords_are_neither_on_command_lines_nor_in_the_acl_file(tmp_path: Path) -> None:
    places = make_places(tmp_path / "var")
    with ExitStack() as stack:
        store, process = stack.enter_context(serving(places, CACHE))
        line = Path(f"/proc/{process.pid}/cmdline").read_text()
        acl = (places.run / "cache.acl").read_text()
        assert _leaks(store.users, line + acl) == []


def _leaks(users: Sequence[StoreUser], text: str) -> list[str]:
    return [user.role for user in users if user.password in text]
