"""How full the KV cache of a pool's fullest worker is, in per cent: the mean over the window."""

from collections import defaultdict
from collections.abc import Sequence

from controlplane.alerting.base import Facts, Grid, Question, Values
from controlplane.alerting.windows import bins_of, stretch_of
from controlplane.selectors.alerts import Place
from controlplane.selectors.live_rows import read_workers

Sums = dict[int, tuple[float, int]]


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    (workers,) = read_workers([place.id for place in places], [stretch_of(question.window_s, grid)])
    by_pool: dict[str, list[Sums]] = defaultdict(list)
    for worker in workers.values():
        by_pool[worker.pool_id].append(worker.gauges["kv_used"])
    windows = list(bins_of(question.window_s, grid))
    return {
        place.id: [_fullest(by_pool.get(place.id, ()), window) for window in windows]
        for place in places
    }


def _fullest(workers: Sequence[Sums], window: range) -> float | None:
    """A worker that tells nothing is none, and not an empty one."""
    means = []
    for bins in workers:
        held = [bins[one] for one in window if one in bins]
        if held:
            means.append(sum(total for total, _ in held) / sum(count for _, count in held))
    return 100.0 * max(means) if means else None
