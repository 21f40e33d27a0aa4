"""Event ids: unique by chance, sorted by time, readable by anything that knows ULIDs."""

from hypothesis import given
from hypothesis import strategies as st

from inference.gateway.identifiers import event_id

CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"
AT = st.integers(0, 2**48 - 1)
CHANCE = st.integers(0, 2**80 - 1)


def test_an_id_is_a_lower_case_ulid() -> None:
    assert event_id(0, 0) == "req_" + "0" * 26
    assert event_id(2**48 - 1, 2**80 - 1) == "req_7" + "z" * 25
    assert event_id(1_469_918_176_385, 0)[:14] == "req_01aryz6s41"


@given(at_ms=AT, chance=CHANCE)
def test_it_holds_time_and_chance(at_ms: int, chance: int) -> None:
    number = 0
    for character in event_id(at_ms, chance).removeprefix("req_"):
        number = number * 32 + CROCKFORD.index(character)
    assert (number >> 80, number & (2**80 - 1)) == (at_ms, chance)


@given(first=AT, second=AT, chance=CHANCE)
def test_ids_sort_by_time(first: int, second: int, chance: int) -> None:
    earlier, later = sorted((first, second))
    assert event_id(earlier, chance) <= event_id(later, chance)
