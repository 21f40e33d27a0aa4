"""What the person who starts Headworks is told: settings, ports, folders, addresses."""

import io
import json
import os
import shlex
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.local.access import read_pairs, show_access, update_demo_file
from controlplane.local.engine import EnginePlaces
from controlplane.local.keys import load_keys
from controlplane.local.places import make_places, rotate_log, tail_of
from controlplane.local.probes import check_port_is_free
from controlplane.local.problems import LocalProblem
from controlplane.local.roles import (
    Installation,
    check_given_models,
    common_environment,
    control_environment,
    data_environment,
    gateway_environment,
    plan_stores,
    seed_environment,
)
from controlplane.local.settings import load_local_settings
from controlplane.local.terminal import Terminal
from tests.installation import free_port

ROOT = Path(__file__).parents[3]


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def free_ports() -> Mapping[str, str]:
    names = ("CONSOLE_PORT", "GATEWAY_PORT", "GATEWAY_ADMIN_PORT")
    return {name: str(free_port()) for name in names}


def run_local(command: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the launcher's program with these HEADWORKS_ settings and no others."""
    outer = {name: text for name, text in os.environ.items() if not name.startswith("HEADWORKS_")}
    given = {f"HEADWORKS_{name}": text for name, text in settings.items()}
    return subprocess.run(
        [sys.executable, "-m", "controlplane.local", command],
        cwd=ROOT,
        env=outer | given,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"CONSOLE_PORT": "eighty"}, "HEADWORKS_CONSOLE_PORT must be a port number, not 'eighty'"),
        (
            {"GATEWAY_ADMIN_PORT": "x"},
            "HEADWORKS_GATEWAY_ADMIN_PORT must be a port number, not 'x'",
        ),
        ({"GATEWAY_PORT": "70000"}, "HEADWORKS_GATEWAY_PORT must be a port number, not '70000'"),
        ({"OWN_PORTS": "1,b"}, "HEADWORKS_OWN_PORTS must be port numbers separated by commas"),
        ({"DEMO_ENGINE": "ollama"}, "HEADWORKS_DEMO_ENGINE must be one of vllm, none"),
    ],
)
def test_a_bad_setting_is_named(settings: Mapping[str, str], words: str) -> None:
    done = run_local("run", **settings)
    assert (done.returncode, done.stderr) == (1, f"headworks: {words}\n")


@pytest.mark.fault
def test_a_taken_port_is_named_with_its_variable_and_nothing_is_started(
    tmp_path: Path, taken_port: int
) -> None:
    ports = {"CONSOLE_PORT": str(taken_port), "DEMO_ENGINE": "none"}
    done = run_local("run", VAR=str(tmp_path / "var"), **ports)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {taken_port}: Address already in use" in done.stdout
    assert "set HEADWORKS_CONSOLE_PORT" in done.stdout
    assert not (tmp_path / "var" / "postgres").exists()
    assert list((tmp_path / "var" / "run" / "groups").iterdir()) == []


@pytest.mark.fault
def test_a_setting_that_a_child_refuses_ends_the_start_at_once(
    tmp_path: Path, free_ports: Mapping[str, str]
) -> None:
    var = tmp_path / "var"
    done = run_local("run", VAR=str(var), GATEWAY_PROCESSES="0", DEMO_ENGINE="none", **free_ports)
    assert done.returncode == 1
    words = "cannot start: HEADWORKS_GATEWAY_PROCESSES must be between 1 and 256, not 0\n"
    assert words in done.stdout
    assert "everything is stopped" in done.stdout
    assert list((var / "run" / "groups").iterdir()) == []


def test_a_taken_gateway_port_names_the_gateways_variable(taken_port: int) -> None:
    with pytest.raises(LocalProblem, match=f"port {taken_port}: .*set HEADWORKS_GATEWAY_PORT"):
        check_port_is_free("127.0.0.1", taken_port, "GATEWAY")


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = run_local("run", VAR=str(tmp_path / "file" / "var"))
    assert done.returncode == 1
    assert done.stderr.startswith("headworks: cannot write to ")
    assert "Traceback" not in done.stderr


def test_status_of_a_folder_that_was_never_used(tmp_path: Path) -> None:
    done = run_local("status", VAR=str(tmp_path / "var"))
    assert (done.returncode, done.stdout) == (3, f"Headworks in {tmp_path / 'var'}: stopped\n")


def test_a_reader_that_has_read_enough_of_the_status_is_no_error(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = subprocess.run(
            [sys.executable, "-m", "controlplane.local", "status"],
            cwd=ROOT,
            env=os.environ | {"HEADWORKS_VAR": str(tmp_path / "var")},
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.stderr == ""


def test_secrets_are_made_once_and_private(tmp_path: Path) -> None:
    places = make_places(tmp_path / "var")
    first = load_keys(places.secrets, {})
    again = load_keys(places.secrets, {})
    assert first == again
    assert first.password("state-data") == again.password("state-data")
    assert len({first.secret_key, first.data_key, first.peppers, first.password("state-data")}) == 4
    modes = {stat.S_IMODE(path.stat().st_mode) for path in places.secrets.iterdir()}
    assert modes == {0o600}
    assert stat.S_IMODE(places.secrets.stat().st_mode) == 0o700


def test_given_secrets_are_used_and_not_kept(tmp_path: Path) -> None:
    places = make_places(tmp_path / "var")
    environ = {
        "HEADWORKS_SECRET_KEY": "s",
        "HEADWORKS_DATA_KEY": "d",
        "HEADWORKS_KEY_PEPPERS": "1:p",
    }
    keys = load_keys(places.secrets, environ)
    assert (keys.secret_key, keys.data_key, keys.peppers) == ("s", "d", "1:p")
    assert list(places.secrets.iterdir()) == []


def make_installation(tmp_path: Path, **settings: str) -> Installation:
    """An installation's plan; nothing is started."""
    environ = {f"HEADWORKS_{name}": text for name, text in settings.items()}
    environ |= {"PATH": "/bin", "HEADWORKS_VAR": str(tmp_path / "var")}
    read = load_local_settings(environ)
    places = make_places(read.var)
    keys = load_keys(places.secrets, environ)
    return Installation(read, places, keys, *plan_stores(read, places, keys), engine=None)


def test_the_data_plane_is_told_no_secret_it_can_do_without(tmp_path: Path) -> None:
    installation = make_installation(
        tmp_path, DEMO_UPSTREAM_KEY="k", DATABASE_URL="postgresql://h/d"
    )
    data = data_environment(installation)
    control = control_environment(installation, None)
    withheld = ("DATABASE_URL", "BROKER_URL", "CACHE_URL", "SECRET_KEY", "DEMO_UPSTREAM_KEY")
    assert [name for name in withheld if f"HEADWORKS_{name}" in data] == []
    assert "HEADWORKS_DEMO_UPSTREAM_KEY" not in control
    assert seed_environment(installation, None)["HEADWORKS_DEMO_UPSTREAM_KEY"] == "k"
    assert data["HEADWORKS_STATE_URL"].startswith("unix://data:")
    assert control["HEADWORKS_STATE_URL"].startswith("unix://control:")
    assert control["HEADWORKS_CACHE_URL"].startswith("unix://control:")
    assert control["HEADWORKS_BROKER_URL"].startswith("redis+socket://broker:")


def test_what_the_receiver_of_spans_wants_is_told_to_gateways_alone(tmp_path: Path) -> None:
    secret = "authorization=Bearer%20canary"
    installation = make_installation(tmp_path, OTLP_HEADERS=secret, TRACE_ENGINES="1")
    assert gateway_environment(installation)["HEADWORKS_OTLP_HEADERS"] == secret
    others = (
        data_environment(installation),
        control_environment(installation, None),
        seed_environment(installation, None),
        common_environment(installation),
    )
    assert [one for one in others if "canary" in str(one)] == []


@pytest.mark.parametrize(
    ("name", "url", "port"),
    [
        ("DATABASE_URL", "postgresql://u@db.internal/d", "5432"),
        ("DATABASE_URL", "postgresql://u@/d?host=db.internal&port=5433", "5433"),
        ("DATABASE_URL", "postgresql://u@/d?host=/run/postgres", None),
        ("DATABASE_URL", "postgresql://u@a:1,b/d", "1,5432"),
        ("STATE_URL", "redis://s/0", "6379"),
        ("STATE_URL", "unix:///run/state.sock?db=0", None),
        ("CACHE_URL", "rediss://c:6380/0", "6380"),
        ("BROKER_URL", "https://b", "443"),
    ],
)
def test_no_address_may_point_at_a_store_outside(name: str, url: str, port: str | None) -> None:
    settings = load_local_settings({f"HEADWORKS_{name}": url})
    assert settings.own_ports == ",".join(filter(None, (port, "8300,8400,8401")))


def test_a_python_and_a_folder_of_the_users_own_win(tmp_path: Path) -> None:
    given = {"ENGINE_PYTHON": str(tmp_path / "python"), "MODELS": str(tmp_path / "models")}
    without = make_installation(tmp_path, DEMO_ENGINE="none", **given)
    demo = EnginePlaces(tmp_path / "pins", tmp_path / "engine", tmp_path / "cache")
    for installation in (without, replace(without, engine=demo)):
        data = data_environment(installation)
        assert {name: data[f"HEADWORKS_{name}"] for name in given} == given
        control = control_environment(installation, None)
        assert control["HEADWORKS_MODELS"] == given["MODELS"]
        assert not installation.needs_build
    data = data_environment(replace(make_installation(tmp_path), engine=demo))
    assert data["HEADWORKS_ENGINE_PYTHON"] == str(tmp_path / "engine" / "bin" / "python")
    assert data["HEADWORKS_MODELS"] == str(tmp_path / "cache")


def test_a_folder_without_the_demos_model_is_refused_before_anything_starts(
    tmp_path: Path,
) -> None:
    done = run_local("run", VAR=str(tmp_path / "var"), MODELS=str(tmp_path))
    words = f"HEADWORKS_MODELS={tmp_path} has no smollm2-135m-instruct, which the demo serves; "
    more = "unset HEADWORKS_MODELS, or set HEADWORKS_DEMO_ENGINE=none"
    assert (done.returncode, done.stderr) == (1, f"headworks: {words}{more}\n")
    assert not (tmp_path / "var").exists()
    (tmp_path / "smollm2-135m-instruct").mkdir()
    check_given_models(load_local_settings({"HEADWORKS_MODELS": str(tmp_path)}))


def test_stores_that_are_given_are_not_started(tmp_path: Path) -> None:
    given = {"STATE_URL": "redis://s:6380/0", "CACHE_URL": "redis://c:6381/0"}
    installation = make_installation(tmp_path, CONSOLE_PORT="8301", OWN_PORTS="99", **given)
    assert installation.stores == ()
    data = data_environment(installation)
    assert data["HEADWORKS_STATE_URL"] == "redis://s:6380/0"
    assert data["HEADWORKS_OWN_PORTS"] == "99,6380,6381,8301,8400,8401"
    assert "HEADWORKS_BROKER_URL" not in control_environment(installation, None)


def test_the_demo_file_keeps_what_an_earlier_start_wrote(tmp_path: Path) -> None:
    places = make_places(tmp_path / "var")
    seeded = places.run / "seeded.env"
    seeded.write_text("API_KEY=hw_a.b\nADMIN_USER=admin\nADMIN_PASSWORD=p=q\n")
    settings = load_local_settings({"HEADWORKS_CONSOLE_PORT": "8301"})
    update_demo_file(places.demo, seeded, settings)
    assert not seeded.exists()
    moved = load_local_settings({"HEADWORKS_CONSOLE_PORT": "8302", "HEADWORKS_GATEWAY_HOST": "::"})
    pairs = update_demo_file(places.demo, seeded, moved)
    assert (
        pairs
        == read_pairs(places.demo)
        == {
            "API_KEY": "hw_a.b",
            "ADMIN_USER": "admin",
            "ADMIN_PASSWORD": "p=q",
            "CONSOLE_URL": "http://127.0.0.1:8302",
            "GATEWAY_URL": "http://[::1]:8400",
        }
    )
    assert stat.S_IMODE(places.demo.stat().st_mode) == 0o600


def test_the_curl_line_works_as_pasted(tmp_path: Path) -> None:
    out = io.StringIO()
    pairs = {"CONSOLE_URL": "http://h:1", "GATEWAY_URL": "http://h:2", "API_KEY": "hw_a.b"}
    show_access(Terminal(out), pairs, tmp_path / "demo.env", has_model=True)
    (line,) = [line for line in out.getvalue().splitlines() if line.startswith("curl ")]
    words = shlex.split(line)
    assert words[1] == "http://h:2/v1/chat/completions"
    assert "Authorization: Bearer hw_a.b" in words
    assert json.loads(words[-1])["model"] == "chat"
    assert "Ctrl-C stops everything" in out.getvalue()


def test_long_folders_get_short_sockets(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / "var"
    places = make_places(deep)
    assert len(os.fsencode(places.postgres_socket / ".s.PGSQL.5432")) <= 107
    assert stat.S_IMODE(places.sockets.stat().st_mode) == 0o700
    places.sockets.chmod(0o755)
    with pytest.raises(LocalProblem, match="is not a private folder of ours"):
        make_places(deep)
    places.sockets.rmdir()


def test_logs_are_set_aside_when_they_have_grown_large(tmp_path: Path) -> None:
    log = tmp_path / "console.log"
    log.write_text("small\n")
    rotate_log(log)
    assert tail_of(log) == "small"
    log.write_bytes(b"x" * (8 * 1024 * 1024) + b"\nlast\n")
    rotate_log(log)
    assert tail_of(log) == ""
    assert tail_of(tmp_path / "console.log.1", 1) == "last"


def test_without_a_model_no_line_is_shown_that_would_fail(tmp_path: Path) -> None:
    out = io.StringIO()
    pairs = {"CONSOLE_URL": "http://h:1", "GATEWAY_URL": "http://h:2", "API_KEY": "hw_a.b"}
    show_access(Terminal(out), pairs, tmp_path / "demo.env", has_model=False)
    assert "curl" not in out.getvalue()
    assert "No model is served" in out.getvalue()
