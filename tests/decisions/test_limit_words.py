"""What limits and switches are about and what they allow, in words."""

import pytest

from controlplane.decisions.limits import amount_words, enforcement_words, limit_words
from controlplane.decisions.subjects import subject_words
from controlplane.decisions.versions import tell
from inference.contract.kinds import LimitSubject, LimitUnit, LimitWindow, SwitchSubject
from inference.contract.snapshot import LimitRecord, SwitchRecord


@pytest.mark.parametrize(
    ("unit", "window", "amount", "words"),
    [
        ("requests", "minute", 600, "600 requests a minute"),
        ("requests", "second", 1, "1 request a second"),
        ("input_tokens", "hour", 90_000, "90,000 input tokens an hour"),
        ("output_tokens", "day", 1, "1 output token a day"),
        ("total_tokens", "day", 1_000_000, "1,000,000 tokens in and out a day"),
        ("parallel", None, 8, "8 requests at once"),
        ("parallel", None, 0, "no requests"),
        ("total_tokens", "day", 0, "no requests"),
    ],
)
def test_an_amount_is_told_with_its_unit_and_window(
    unit: str, window: str | None, amount: int, words: str
) -> None:
    assert amount_words(unit, window, amount) == words


@pytest.mark.parametrize(
    ("subject", "pk", "name", "words"),
    [
        ("organisation", None, None, "the whole organisation"),
        ("key", None, None, "each key"),
        ("end_user", None, None, "each end user"),
        ("end_user", "ann", "ann", "end user ann"),
        ("route", "rt_1", "chat", "route chat"),
        ("pool", "pool_1", None, "pool pool_1"),
    ],
)
def test_a_subject_is_told_by_kind_and_name(
    subject: str, pk: str | None, name: str | None, words: str
) -> None:
    assert subject_words(subject, pk, name) == words


def test_a_limit_is_one_sentence() -> None:
    about = subject_words("key", None, None)
    assert limit_words("requests", "minute", 600, about) == "600 requests a minute for each key"


def test_every_unit_and_window_has_words() -> None:
    told = {amount_words(unit, window, 2) for unit in LimitUnit for window in LimitWindow}
    assert len(told) == len(LimitUnit) * len(LimitWindow)


def test_only_limits_on_tokens_may_be_passed_or_take_beforehand() -> None:
    assert "passed" not in enforcement_words("strict", "requests")
    assert "never passed" in enforcement_words("strict", "total_tokens")
    assert "may pass it" in enforcement_words("lenient", "output_tokens")
    assert "pass it" not in enforcement_words("lenient", "parallel")


def test_a_record_names_keys_as_everybody_but_gateways_does() -> None:
    limit = LimitRecord("lim_1", "org_1", "n", LimitSubject.KEY, LimitUnit.REQUESTS, 1, "01h")
    assert tell(limit)["subject_id"] == "key_01h"
    assert tell(SwitchRecord("sw_1", "org_1", SwitchSubject.KEY, "01h"))["subject_id"] == "key_01h"
    each = LimitRecord("lim_1", "org_1", "n", LimitSubject.KEY, LimitUnit.REQUESTS, 1)
    assert tell(each)["subject_id"] is None
    assert tell(SwitchRecord("sw_1", "org_1", SwitchSubject.POOL, "pool_1", expires_at=0.0)) == {
        "id": "sw_1",
        "organisation_id": "org_1",
        "subject": "pool",
        "subject_id": "pool_1",
        "reason": "",
        "expires_at": "1970-01-01T00:00:00Z",
    }
