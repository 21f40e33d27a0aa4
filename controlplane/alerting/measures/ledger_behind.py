"""For how long the oldest usage event in the stream has waited for the recorder, in seconds."""

from collections.abc import Sequence

from redis.exceptions import RedisError

from controlplane.alerting.base import Facts, Grid, Question, Values, of_now
from controlplane.bridge.store import open_store
from controlplane.selectors.alerts import Place
from inference.contract import wire


def measure(question: Question, places: Sequence[Place], grid: Grid, facts: Facts) -> Values:
    lag_s = read_lag_s()
    return of_now(grid, {place.id: lag_s for place in places})


def read_lag_s() -> float | None:
    """By the store's clock; what is recorded leaves the stream. None if it doesn't answer."""
    try:
        with open_store() as store:
            oldest = store.xrange(wire.USAGE_STREAM, count=1)
            seconds, _ = store.time()
    except (RedisError, OSError):
        return None
    if not oldest:
        return 0.0
    milliseconds, _, _ = oldest[0][0].partition(b"-")
    return max(0.0, seconds - int(milliseconds) / 1_000)
