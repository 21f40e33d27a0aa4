"""Which rule a request falls under."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.contract.kinds import PriorityClass, TaskClass, Weekday
from inference.contract.snapshot import KeyRecord, MatchRecord, RuleRecord, ScheduleRecord
from inference.decisions.facts import RequestFacts, Standing
from inference.decisions.rules import Circumstances, fits, headers_of, is_within, matching_rule
from tests.inference.gateway.rig import route_record

KEY = KeyRecord("k", "org_a", "team_a", "proj_a", ())
FACTS = RequestFacts(
    "alias", 4_000, prompt_tokens=1_000, headers=(("x-tier", "gold"), ("x-tier", "silver"))
)
STANDING = Standing(("web", "beta"), PriorityClass.BATCH, TaskClass.CODE)
BERLIN = "Europe/Berlin"


def at(zone: str, *moment: int) -> float:
    return datetime(*moment, tzinfo=ZoneInfo(zone)).timestamp()  # type: ignore[arg-type]


CASE = Circumstances(FACTS, STANDING, KEY, at("UTC", 2026, 12, 1, 9, 30))


@pytest.mark.parametrize(
    ("when", "is_fit"),
    [
        (MatchRecord(), True),
        (MatchRecord(key_ids=("other", "k")), True),
        (MatchRecord(key_ids=("other",)), False),
        (MatchRecord(team_ids=("team_a",)), True),
        (MatchRecord(team_ids=("team_b",)), False),
        (MatchRecord(project_ids=("proj_a",)), True),
        (MatchRecord(project_ids=("proj_b",)), False),
        (MatchRecord(tags=("none", "beta")), True),
        (MatchRecord(tags=("none",)), False),
        (MatchRecord(aliases=("alias",)), True),
        (MatchRecord(aliases=("m",)), False),
        (MatchRecord(tasks=(TaskClass.CODE,)), True),
        (MatchRecord(tasks=(TaskClass.CREATIVE,)), False),
        (MatchRecord(priorities=(PriorityClass.BATCH,)), True),
        (MatchRecord(priorities=(PriorityClass.INTERACTIVE,)), False),
        (MatchRecord(headers=(("x-tier", "silver"),)), True),
        (MatchRecord(headers=(("x-tier", "gold"), ("x-tier", "silver"))), True),
        (MatchRecord(headers=(("x-tier", "gold"), ("x-other", "1"))), False),
        (MatchRecord(headers=(("x-tier", "Gold"),)), False),
        (MatchRecord(prompt_tokens_min=1_000, prompt_tokens_max=1_000), True),
        (MatchRecord(prompt_tokens_min=1_001), False),
        (MatchRecord(prompt_tokens_max=999), False),
        (MatchRecord(schedule=ScheduleRecord(from_minute=570, to_minute=571)), True),
        (MatchRecord(schedule=ScheduleRecord(from_minute=571, to_minute=572)), False),
        # all that is given has to apply
        (MatchRecord(key_ids=("k",), tags=("web",), tasks=(TaskClass.CODE,)), True),
        (MatchRecord(key_ids=("k",), tags=("web",), tasks=(TaskClass.FACTUAL,)), False),
    ],
)
def test_all_that_is_given_applies_and_of_each_any_one(when: MatchRecord, is_fit: bool) -> None:
    assert fits(when, CASE) is is_fit


def test_the_first_enabled_rule_that_fits_decides() -> None:
    never = RuleRecord("r1", "never", MatchRecord(key_ids=("other",)), ())
    disabled = RuleRecord("r2", "off", MatchRecord(), (), is_enabled=False)
    first, second = (RuleRecord(name, name, MatchRecord(), ()) for name in ("r3", "r4"))
    route = replace(route_record("a"), rules=(never, disabled, first, second))
    assert matching_rule(route, CASE) is first
    assert matching_rule(replace(route, rules=(never, disabled)), CASE) is None


def test_the_headers_that_rules_look_at_are_told_whether_or_not_the_rule_is_on() -> None:
    looks = MatchRecord(headers=(("x-a", "1"), ("x-b", "2")))
    rules = (RuleRecord("r", "r", looks, (), is_enabled=False), RuleRecord("s", "s", looks, ()))
    assert headers_of(replace(route_record("a"), rules=rules)) == {"x-a", "x-b"}


@pytest.mark.parametrize(
    ("moment", "is_in"),
    [
        ((2026, 12, 4, 21, 59), False),  # a Friday
        ((2026, 12, 4, 22, 0), True),
        ((2026, 12, 5, 5, 59), True),
        ((2026, 12, 5, 6, 0), False),
        ((2026, 12, 5, 22, 0), False),
        ((2026, 12, 4, 1, 0), False),
    ],
)
def test_a_time_past_midnight_belongs_to_the_day_it_began(
    moment: tuple[int, ...], is_in: bool
) -> None:
    nights = ScheduleRecord(days=(Weekday.FRIDAY,), from_minute=22 * 60, to_minute=6 * 60)
    assert is_within(nights, at(BERLIN, *moment), BERLIN) is is_in


def test_a_schedule_follows_the_clocks_of_its_zone_through_the_year() -> None:
    office = ScheduleRecord(from_minute=9 * 60, to_minute=17 * 60)
    for month, offset_h in ((1, 1), (7, 2)):
        nine = datetime(2026, month, 15, 9 - offset_h, tzinfo=UTC)
        assert is_within(office, nine.timestamp(), BERLIN)
        assert not is_within(office, nine.timestamp() - 60, BERLIN)


def test_an_hour_that_is_skipped_is_in_none_and_one_that_is_repeated_twice() -> None:
    two_to_three = ScheduleRecord(from_minute=120, to_minute=180)

    def minutes(*day: int) -> int:
        midnight = at(BERLIN, *day)
        return sum(is_within(two_to_three, midnight + 60 * n, BERLIN) for n in range(25 * 60))

    assert minutes(2026, 3, 29) == 0
    assert minutes(2026, 10, 25) == 120
    assert minutes(2026, 12, 1) == 60


@pytest.mark.parametrize("zone", ["Nowhere/At_All", "", "../../etc/passwd", "/etc", "Europe"])
def test_a_zone_that_nobody_knows_is_utc(zone: str) -> None:
    noon = ScheduleRecord(from_minute=720, to_minute=721)
    assert is_within(noon, at("UTC", 2026, 7, 1, 12), zone)
    assert not is_within(noon, at("UTC", 2026, 7, 1, 11), zone)


@given(
    days=st.sets(st.sampled_from(list(Weekday))),
    begin=st.integers(0, 1_440),
    end=st.integers(0, 1_440),
    minute=st.integers(0, 7 * 1_440 - 1),
)
def test_a_schedule_is_what_the_days_of_a_calendar_make_it(
    days: set[Weekday], begin: int, end: int, minute: int
) -> None:
    monday = datetime(2026, 11, 30, tzinfo=UTC)
    now = monday + timedelta(minutes=minute)
    length = end - begin if end > begin else end + 1_440 - begin
    expected = False
    for back in range(-8, 8):
        day = monday + timedelta(days=back)
        if not days or list(Weekday)[day.weekday()] in days:
            start = day + timedelta(minutes=begin)
            expected |= start <= now < start + timedelta(minutes=length)
    schedule = ScheduleRecord(tuple(days), begin, end)
    assert is_within(schedule, now.timestamp(), "UTC") is expected
