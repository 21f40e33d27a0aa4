"""Keys that are there or given are told apart from those that would have to be made."""

from pathlib import Path

import pytest

from controlplane.local.keys import held_keys, load_keys, save_key
from controlplane.local.problems import LocalProblem

NONE = {"secret_key": None, "data_key": None, "peppers": None}


def test_nothing_is_made_by_looking(tmp_path: Path) -> None:
    assert held_keys(tmp_path, {}) == NONE
    assert list(tmp_path.iterdir()) == []


def test_saved_keys_are_those_that_are_loaded_later(tmp_path: Path) -> None:
    for name, key in (("secret_key", "s"), ("data_key", "d"), ("peppers", "1:p")):
        save_key(tmp_path, name, key)
    keys = load_keys(tmp_path, {})
    assert (keys.secret_key, keys.data_key, keys.peppers) == ("s", "d", "1:p")
    assert held_keys(tmp_path, {}) == {"secret_key": "s", "data_key": "d", "peppers": "1:p"}
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}


def test_a_key_that_is_given_counts_before_one_that_is_there(tmp_path: Path) -> None:
    load_keys(tmp_path, {})
    given = {"HEADWORKS_DATA_KEY": "given", "HEADWORKS_KEY_PEPPERS": "2:b,1:a"}
    held = held_keys(tmp_path, given)
    assert (held["data_key"], held["peppers"]) == ("given", "2:b,1:a")


def test_peppers_of_several_versions_have_to_be_given(tmp_path: Path) -> None:
    for peppers in ("2:b,1:a", "2:b"):
        with pytest.raises(LocalProblem, match="HEADWORKS_KEY_PEPPERS"):
            save_key(tmp_path, "peppers", peppers)
    assert list(tmp_path.iterdir()) == []
