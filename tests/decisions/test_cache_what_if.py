"""What a policy would have served of requests that are over: exact values."""

from typing import Any

import pytest

from controlplane.decisions.cache_what_if import Seen, is_known, would_have


def asked(at: float, entry: str = "e_1", **changes: Any) -> Seen:
    """A request that came at a second and took one."""
    values: dict[str, Any] = {
        "received_s": at,
        "ended_s": at + 1,
        "entry_id": entry,
        "key_id": "a",
        "project_id": "p",
        "team_id": "t",
        "task": None,
        "is_ok": True,
        "was_served": False,
        "nanousd": 5,
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "ms": 1_000.0,
    }
    return Seen(**(values | changes))


def test_a_repeat_within_the_time_is_served_and_saves_what_it_took() -> None:
    told = would_have([asked(0), asked(50), asked(62, "e_2")], {"default": 60}, "project")
    assert (told.asked, told.served, told.hit_rate) == (3, 1, 1 / 3)
    assert (told.nanousd, told.prompt_tokens, told.completion_tokens, told.ms) == (
        5,
        100,
        10,
        1_000,
    )


def test_the_time_begins_with_the_end_of_what_was_kept_and_a_hit_does_not_prolong_it() -> None:
    times = {"default": 60}
    assert would_have([asked(0), asked(60.9)], times, "project").served == 1
    assert would_have([asked(0), asked(61)], times, "project").served == 0
    assert would_have([asked(0), asked(40), asked(80)], times, "project").served == 1
    # under way at once: the second could not have been served from it
    assert would_have([asked(0), asked(0.5)], times, "project").served == 0


def test_each_class_has_its_own_time_and_never_is_never() -> None:
    times = {"default": 60, "code": 3_600, "creative": 0}
    code = [asked(0, task="code"), asked(3_000, task="code")]
    assert would_have(code, times, "key").served == 1
    creative = [asked(0, task="creative"), asked(2, task="creative")]
    assert would_have(creative, times, "key").served == 0
    # one the policy doesn't name has the default's
    factual = [asked(0, task="factual"), asked(50, task="factual")]
    assert would_have(factual, {"default": 60}, "key").served == 1


def test_who_shares_decides_who_is_served() -> None:
    two = [asked(0), asked(10, key_id="b", project_id="q")]
    served = {
        scope: would_have(two, {"default": 60}, scope).served
        for scope in ("key", "project", "team", "organisation")
    }
    assert served == {"key": 0, "project": 0, "team": 1, "organisation": 1}


def test_what_failed_is_not_kept() -> None:
    assert would_have([asked(0, is_ok=False), asked(10)], {"default": 60}, "key").served == 0


def test_an_unknown_price_is_counted_and_not_summed() -> None:
    told = would_have([asked(0), asked(9, nanousd=None)], {"default": 60}, "key")
    assert (told.served, told.unknown_saved, told.saved_nanousd) == (1, 1, None)
    told = would_have([asked(0), asked(9, nanousd=None), asked(10)], {"default": 60}, "key")
    assert (told.unknown_saved, told.saved_nanousd) == (1, 5)
    assert would_have([], {"default": 60}, "key").hit_rate is None


@pytest.mark.parametrize(
    ("present", "wanted", "known"),
    [
        ("project", "key", True),
        ("project", "project", True),
        ("project", "team", False),
        ("organisation", "team", True),
        ("key", "shared", False),
    ],
)
def test_a_wider_scope_is_not_known(present: str, wanted: str, known: bool) -> None:
    assert is_known(present, wanted) is known
