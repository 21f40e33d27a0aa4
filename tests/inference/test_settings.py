"""What a host's environment allows, and what it must say so for."""

import base64

import pytest

from inference.bootstrap import check_settings
from inference.settings import Settings, SettingsError, load_settings

KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()
LEAST = {
    "HEADWORKS_STATE_URL": "unix:///nowhere",
    "HEADWORKS_DATA_KEY": KEY,
    "HEADWORKS_KEY_PEPPERS": f"1:{KEY}",
}


@pytest.mark.parametrize("name", ["allow_remote_code", "allow_fake_workers"])
def test_nothing_dangerous_is_allowed_unless_the_host_says_1(name: str) -> None:
    def loaded(**environ: str) -> Settings:
        return load_settings(LEAST | environ)

    variable = f"HEADWORKS_{name.upper()}"
    assert getattr(loaded(), name) is False
    assert getattr(loaded(**{variable: "0"}), name) is False
    assert getattr(loaded(**{variable: "1"}), name) is True


def test_the_admin_port_lies_beside_the_gateways_and_is_ours() -> None:
    settings = load_settings(LEAST | {"HEADWORKS_GATEWAY_PORT": "9000"})
    assert settings.gateway_admin_port == 9001
    assert {9000, 9001} <= settings.own_ports
    given = load_settings(LEAST | {"HEADWORKS_GATEWAY_ADMIN_PORT": "9100"})
    assert given.gateway_admin_port == 9100


def test_an_admin_port_that_is_the_gateways_is_refused_by_name() -> None:
    ports = {"HEADWORKS_GATEWAY_PORT": "9000", "HEADWORKS_GATEWAY_ADMIN_PORT": "9000"}
    with pytest.raises(SettingsError, match=r"^HEADWORKS_GATEWAY_ADMIN_PORT must not be"):
        load_settings(LEAST | ports)


def test_the_hot_routes_are_served_past_asgi_unless_the_host_says_0() -> None:
    assert load_settings(LEAST).gateway_is_hot is True
    assert load_settings(LEAST | {"HEADWORKS_GATEWAY_HOT": "0"}).gateway_is_hot is False


def test_spans_go_to_the_path_for_traces_below_the_given_address() -> None:
    def url(endpoint: str) -> str | None:
        return load_settings(LEAST | {"HEADWORKS_OTLP_ENDPOINT": endpoint}).otlp_url

    assert load_settings(LEAST).otlp_url is None
    assert url("") is None
    assert url("http://collector:4318/") == "http://collector:4318/v1/traces"
    assert url("https://host/otlp") == "https://host/otlp/v1/traces"
    assert url("https://host/v1/traces") == "https://host/v1/traces"


@pytest.mark.parametrize(
    "endpoint", ["http://169.254.169.254", "http://127.0.0.1:8401", "ftp://host", "http://a:b@host"]
)
def test_spans_may_go_nowhere_that_workers_may_not_be(endpoint: str) -> None:
    settings = load_settings(LEAST | {"HEADWORKS_OTLP_ENDPOINT": endpoint})
    with pytest.raises(SettingsError, match=r"^HEADWORKS_OTLP_ENDPOINT "):
        check_settings(settings)
    check_settings(load_settings(LEAST | {"HEADWORKS_OTLP_ENDPOINT": "http://127.0.0.1:4318"}))


def test_headers_for_the_receiver_are_read_and_kept_out_of_sight() -> None:
    name = "HEADWORKS_OTLP_HEADERS"
    settings = load_settings(LEAST | {name: "Authorization=Basic%20c2VjcmV0, x-a = b"})
    assert settings.otlp_headers == b"authorization: Basic c2VjcmV0\r\nx-a: b\r\n"
    assert "c2VjcmV0" not in repr(settings)
    for bad in ("no-equals", "a b=c", "a=b%0d%0ac: d", "host=x", "content-length=1", "a=%C3%A9"):
        with pytest.raises(SettingsError, match=rf"^{name} ") as refused:
            load_settings(LEAST | {name: bad})
        assert bad not in str(refused.value)


def test_the_share_of_traced_requests_is_a_number_from_0_to_1() -> None:
    name = "HEADWORKS_TRACE_RATIO"
    told = [load_settings(LEAST | {name: text}).trace_ratio for text in ("", "0", "0.5", "1")]
    assert told == [0.01, 0.0, 0.5, 1.0]
    for bad in ("x", "-0.1", "1.1", "nan"):
        with pytest.raises(SettingsError, match=rf"^{name} must be"):
            load_settings(LEAST | {name: bad})
