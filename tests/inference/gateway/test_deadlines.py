"""Time limits with one timer for many: in the order of their ends, and none once it was let go."""

import time

from inference.gateway.deadlines import Deadlines
from tests.inference.gateway.rig import PATIENCE_S, until


class Request:
    def __init__(self, name: str, overran: list[str]) -> None:
        self.due_s: float | None = None
        self._name = name
        self._overran = overran

    def overrun(self) -> None:
        self._overran.append(self._name)


async def test_those_whose_time_is_over_learn_it_in_order_and_others_do_not() -> None:
    deadlines, overran = Deadlines(), list[str]()
    now_s = time.perf_counter()
    first, gone, second, late = (Request(one, overran) for one in ("first", "gone", "second", "-"))
    deadlines.add(first, now_s + 0.02, 20, time.perf_counter)
    deadlines.add(gone, now_s + 0.03, 20, time.perf_counter)
    deadlines.add(second, now_s + 0.04, 20, time.perf_counter)
    deadlines.add(late, now_s + 60, 60_000, time.perf_counter)
    deadlines.remove(gone, 20)
    await until(lambda: len(overran) >= 2, PATIENCE_S)
    assert overran == ["first", "second"]
    assert gone.due_s is None
    deadlines.remove(late, 60_000)


async def test_one_whose_body_took_long_is_not_kept_waiting_by_those_that_overtook_it() -> None:
    deadlines, overran = Deadlines(), list[str]()
    now_s = time.perf_counter()
    quick, slow = Request("quick", overran), Request("slow", overran)
    gone = Request("gone", overran)
    deadlines.add(quick, now_s + 0.06, 50, time.perf_counter)
    deadlines.add(gone, now_s, 50, time.perf_counter)
    deadlines.add(slow, now_s + 0.01, 50, time.perf_counter)
    deadlines.remove(gone, 50)
    await until(lambda: len(overran) >= 1, PATIENCE_S)
    assert overran == ["slow"]
    await until(lambda: len(overran) >= 2, PATIENCE_S)
    assert overran == ["slow", "quick"]
    assert not deadlines._overtaken


async def test_a_queue_goes_with_its_last_request_and_comes_back_with_the_next() -> None:
    deadlines, overran = Deadlines(), list[str]()
    for number in range(3):
        one = Request(str(number), overran)
        deadlines.add(one, time.perf_counter() + 0.01, 10, time.perf_counter)
        await until(lambda count=number + 1: len(overran) >= count, PATIENCE_S)
    assert overran == ["0", "1", "2"]
    assert not deadlines._queues


async def test_one_whose_time_is_over_already_learns_it_at_once() -> None:
    deadlines, overran = Deadlines(), list[str]()
    deadlines.add(Request("late", overran), time.perf_counter() - 1, 10, time.perf_counter)
    await until(lambda: len(overran) >= 1, PATIENCE_S)
