"""Workers' gauges as series: by worker on a pool's page, by pool on the overview."""

from collections.abc import Callable, Sequence

from controlplane.selectors.live import WorkerSeries
from dashboards.base import OTHER_SLOT, SLOTS, Scene, Series, Values
from dashboards.kinds import Page

Gauge = Callable[[WorkerSeries], Values]


def total(workers: Sequence[WorkerSeries], gauge: Gauge, points: int) -> Values:
    """The sum over the workers that were measured; None where none was."""
    return [sum(known) if known else None for known in _known(workers, gauge, points)]


def mean(workers: Sequence[WorkerSeries], gauge: Gauge, points: int) -> Values:
    """The mean over the workers that were measured; None where none was."""
    return [sum(known) / len(known) if known else None for known in _known(workers, gauge, points)]


def _known(workers: Sequence[WorkerSeries], gauge: Gauge, points: int) -> list[list[float]]:
    columns = [gauge(worker) for worker in workers]
    return [[v for column in columns if (v := column[at]) is not None] for at in range(points)]


def scaled(values: Values, factor: float) -> Values:
    """The same in another unit."""
    return [None if value is None else value * factor for value in values]


def series_of(scene: Scene, gauge: Gauge, *, factor: float = 1.0) -> tuple[Series, ...]:
    """One line a worker of this pool, or one a pool: the mean of its workers."""
    workers = scene.view.workers
    if scene.page is Page.POOL:
        return tuple(
            Series(one.key, one.label, scaled(gauge(one), factor), 1 + place % SLOTS)
            for place, one in enumerate(workers)
        )
    points = len(scene.view.at)
    return tuple(
        Series(
            pool.id,
            pool.name,
            scaled(mean([one for one in workers if one.pool_id == pool.id], gauge, points), factor),
            scene.slots.get(pool.id, OTHER_SLOT),
        )
        for pool in scene.pools
        if any(one.pool_id == pool.id for one in workers)
    )


def whose(scene: Scene) -> str:
    """Over what a gauge's single figure is the mean."""
    return "the pool's workers" if scene.page is Page.POOL else "all workers"
