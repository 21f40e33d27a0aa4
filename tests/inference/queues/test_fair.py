"""Equal parts of the work at every level, whoever asks for how much."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from inference.queues.fair import FairQueue

PATHS = st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), st.sampled_from("12"))


def anybody(_item: object) -> bool:
    return True


def drained(queue: FairQueue[str], count: int) -> list[str]:
    taken = (queue.take(anybody) for _ in range(count))
    return [item for item in taken if item is not None]


def test_one_tenant_is_served_in_the_order_of_arrival() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in "abc":
        queue.add(("org", "team"), item, 5.0)
    assert drained(queue, 9) == ["a", "b", "c"]
    assert queue.size == 0


def test_a_crowd_of_one_tenant_does_not_hold_up_another() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(50):
        queue.add(("org", "loud"), f"loud{number}", 1.0)
    queue.add(("org", "quiet"), "quiet", 1.0)
    assert "quiet" in drained(queue, 2)


def test_who_asks_for_more_each_time_gets_fewer_turns() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(60):
        queue.add(("org", "long"), f"long{number}", 30.0)
        queue.add(("org", "short"), f"short{number}", 10.0)
    turns = Counter(item.rstrip("0123456789") for item in drained(queue, 40))
    assert turns == {"short": 30, "long": 10}


def test_organisations_share_first_and_teams_inside_them() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(40):
        for path in (("a", "x"), ("a", "y"), ("b", "z")):
            queue.add(path, f"{''.join(path)}{number}", 1.0)
    turns = Counter(item[:2] for item in drained(queue, 40))
    assert turns == {"bz": 20, "ax": 10, "ay": 10}


def test_a_pause_saves_nothing_up() -> None:
    queue: FairQueue[str] = FairQueue()
    for number in range(30):
        queue.add(("org", "busy"), f"busy{number}", 1.0)
    drained(queue, 20)
    for number in range(30):
        queue.add(("org", "late"), f"late{number}", 1.0)
    turns = Counter(item[:4] for item in drained(queue, 10))
    assert turns == {"busy": 5, "late": 5}


def test_what_does_not_fit_keeps_its_place() -> None:
    queue: FairQueue[str] = FairQueue()
    for item in ("a1", "a2"):
        queue.add(("org", "a"), item, 1.0)
    queue.add(("org", "b"), "b1", 1.0)
    assert queue.take(lambda item: item == "b1") == "b1"
    assert queue.take(lambda item: item == "nobody") is None
    assert drained(queue, 9) == ["a1", "a2"]


@given(st.lists(st.tuples(PATHS, st.floats(0.1, 1e6), st.sampled_from(["add", "take", "remove"]))))
def test_nothing_is_lost_or_served_twice(
    steps: list[tuple[tuple[str, str, str], float, str]],
) -> None:
    queue: FairQueue[int] = FairQueue()
    waiting: dict[int, tuple[str, ...]] = {}
    for number, (path, work, what) in enumerate(steps):
        if what == "add":
            queue.add(path, number, work)
            waiting[number] = path
        elif what == "take":
            taken = queue.take(anybody)
            assert (taken is None) is (not waiting)
            if taken is not None:
                del waiting[taken]
        elif waiting:
            item = min(waiting)
            queue.remove(waiting.pop(item), item)
        assert queue.size == len(waiting)
