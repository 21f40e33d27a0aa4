"""What a host's environment allows, and what it must say so for."""

import base64

import pytest

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
