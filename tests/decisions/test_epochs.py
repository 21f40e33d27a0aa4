"""Who is ahead of a database that was put back, and where its configuration goes on."""

import pytest

from controlplane.decisions.epochs import Newer, Position, adopted_position, find_newer

OURS = ("01a", 5)


@pytest.mark.parametrize(
    ("stored", "applied", "newer"),
    [
        (None, [], None),
        (("01a", 5), [("01a", 5)], None),
        (("01a", 4), [("01a", 3)], None),
        (("01a", 6), [], Newer("the state store holds", "01a", 6)),
        (("01a", 6), [("01a", 7)], Newer("the state store holds", "01a", 6)),
        (("01a", 5), [("01a", 4), ("01a", 7)], Newer("gateways run", "01a", 7)),
        (None, [("01b", 1)], Newer("gateways run", "01b", 1)),
        (("019", 99), [], None),
    ],
)
def test_who_is_ahead_is_the_store_before_the_gateways(
    stored: Position | None, applied: list[Position], newer: Newer | None
) -> None:
    assert find_newer(OURS, stored, applied) == newer


def test_without_a_version_of_ours_whoever_has_one_is_ahead() -> None:
    assert find_newer(None, ("01a", 1), []) == Newer("the state store holds", "01a", 1)
    assert find_newer(None, None, []) is None


@pytest.mark.parametrize("version", [4, 5, 6])
def test_a_store_with_other_content_under_a_number_of_ours_is_ahead_whatever_the_number(
    version: int,
) -> None:
    stored = ("01a", version)
    assert find_newer(OURS, stored, [], is_foreign=True) == Newer("the state store holds", *stored)


def test_an_adopted_configuration_goes_on_after_everything_known() -> None:
    assert adopted_position("01c", [OURS, ("01b", 9)]) == ("01c", 10)
    assert adopted_position("01c", []) == ("01c", 1)


def test_a_clock_that_was_put_back_makes_no_smaller_lineage() -> None:
    lineage, version = adopted_position("01a", [("01b", 2), OURS])
    assert (lineage, version) == ("01b0", 6)
    assert lineage > "01b"
