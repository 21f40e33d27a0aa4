"""How figures are written."""

import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from controlplane.console import formats
from controlplane.console.texts import as_text


@pytest.mark.parametrize(
    ("nanousd", "expected"),
    [
        (0, "$0.00"),
        (1, "$0.000000001"),
        (12_000, "$0.000012"),
        (487_200, "$0.0004872"),
        (300_000_000, "$0.30"),
        (1_000_000_000, "$1.00"),
        (1_234_567_890_000_000_001, "$1,234,567,890.000000001"),
        (-1_500_000_000, "\N{MINUS SIGN}$1.50"),
    ],
)
def test_dollars_are_exact(nanousd: int, expected: str) -> None:
    assert formats.dollars(nanousd) == expected


@pytest.mark.parametrize(
    ("booked", "most", "expected"),
    [
        (None, None, "no price"),
        (0, 0, "$0.00"),
        (12_000, 12_000, "$0.000012"),
        (12_000, None, "$0.000012"),
        (0, 12_000, "≤ $0.000012"),
        (12_000, 24_000, "≥ $0.000012"),
    ],
)
def test_a_cost_says_whether_it_is_a_bound(
    booked: int | None, most: int | None, expected: str
) -> None:
    assert formats.cost(booked, most) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, formats.UNKNOWN),
        (0.0, "0.0 ms"),
        (3.14, "3.1 ms"),
        (99.96, "100.0 ms"),
        (866.4, "866 ms"),
        (4_287.0, "4,287 ms"),
        (12_340.0, "12.3 s"),
    ],
)
def test_durations_have_a_unit(value: float | None, expected: str) -> None:
    assert formats.duration(value) == expected


def test_unknown_figures_are_dashes_and_zero_is_zero() -> None:
    assert formats.count(None) == formats.UNKNOWN
    assert formats.count(0) == "0"
    assert formats.tokens(None, None) == formats.UNKNOWN
    assert formats.tokens(0, None) == f"0 / {formats.UNKNOWN}"
    assert formats.share(None, 10) == formats.UNKNOWN
    assert formats.share(0, 0) == formats.UNKNOWN
    assert formats.share(1, 8) == "12.5"


def test_a_time_is_told_in_its_zone() -> None:
    at = datetime(2026, 11, 24, 13, 28, 7, 412_900, tzinfo=UTC)
    assert formats.clock(at, ZoneInfo("Europe/Copenhagen")) == "24 Nov 2026 14:28:07.412 CET"
    assert formats.clock(at, ZoneInfo("UTC"), has_date=False) == "13:28:07.412"


@pytest.mark.parametrize(
    ("pool_id", "pool_name", "worker_id", "expected"),
    [
        ("pool_1", "llama", "pool_1-3", "llama/3"),
        ("pool_1", None, "pool_1-3", "pool_1-3"),
        ("pool_1", "llama", "elsewhere", "elsewhere"),
        (None, None, None, formats.UNKNOWN),
    ],
)
def test_a_worker_is_named_by_its_pool(
    pool_id: str | None, pool_name: str | None, worker_id: str | None, expected: str
) -> None:
    assert formats.worker(pool_id, pool_name, worker_id) == expected


def test_a_record_reads_as_indented_lines() -> None:
    record = {
        "targets": ["a", "b"],
        "u": 0.5,
        "attempts": [{"worker": "w", "inflight": 2}, {"worker": "x", "error": None}],
        "none": [],
        "is_on": True,
    }
    assert as_text(record).splitlines() == [
        "is_on: true",
        "none: none",
        "u: 0.5",
        "attempts:",
        "  - inflight: 2",
        "    worker: w",
        "  - error: null",
        "    worker: x",
        "targets:",
        "  - a",
        "  - b",
    ]


@pytest.mark.parametrize(
    ("nanousd", "words"),
    [
        (0, "$0.00"),
        (1_904_500, "$0.0019"),
        (64_200, "$0.000064"),
        (0.4, "$0.00"),
        (12_345_678_901, "$12.35"),
        (9_999_999, "$0.01"),
    ],
)
def test_about_so_many_dollars_keeps_two_digits_that_matter(nanousd: float, words: str) -> None:
    assert formats.about_dollars(nanousd) == words


@pytest.mark.parametrize(
    ("nanousd", "told"),
    [
        (0, "$0.00"),
        (1, "$0.000000001"),
        (1_948_800, "$0.00195"),
        (999_999_999, "$1.00"),
        (12_345_678_901, "$12.35"),
        (-487_200, "\N{MINUS SIGN}$0.000487"),
        (None, "no price"),
    ],
)
def test_money_can_be_read_and_its_title_is_exact(nanousd: int | None, told: str) -> None:
    cell = formats.money(nanousd)
    assert re.sub("<[^>]+>", "", cell) == told
    if nanousd is not None and "title" in cell:
        assert f'title="{formats.dollars(nanousd)}"' in cell
