"""What a host's environment allows, and what it must say so for."""

import base64

import pytest

from inference.settings import Settings, load_settings

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
