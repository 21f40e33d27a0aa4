"""What limits did, as metrics: by unit, never by what callers write."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from inference.contract.kinds import LimitUnit


@dataclass(frozen=True, slots=True)
class LimitState:
    """What one process holds now.

    `late` is what it reserved again after it had been taken for dead: counters, nano-USD, and what
    of these went past amounts.
    """

    counters: int
    parallel: int
    is_away: bool
    end_users: int
    late: tuple[int, int, int] = (0, 0, 0)


class LimitMetrics:
    """Counts of one gateway process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._refused = Counter(
            "headworks_gateway_limit_refusals",
            "Requests refused because a limit was reached, by its unit",
            ("unit",),
            registry=registry,
        )
        self._unenforced = Counter(
            "headworks_gateway_limits_unenforced",
            "Requests served past a lenient limit that nobody could ask for, by its unit",
            ("unit",),
            registry=registry,
        )
        self._unavailable = Counter(
            "headworks_gateway_limits_unavailable",
            "Requests refused because a strict limit could not be asked for, by its unit",
            ("unit",),
            registry=registry,
        )
        self._estimated = Counter(
            "headworks_gateway_limit_estimates",
            "Requests counted as the most they can have used, for want of a count",
            ("unit",),
            registry=registry,
        )

        self._shared = Counter(
            "headworks_gateway_limit_shared",
            "Requests whose end user was one too many to be counted apart, by the limit's unit",
            ("unit",),
            registry=registry,
        )

        self._over_budget = Counter(
            "headworks_gateway_budget_refusals",
            "Requests refused because too little was left of a budget, or their cost is unknown",
            registry=registry,
        )
        self._eased = Counter(
            "headworks_gateway_budget_effects",
            "Requests that a budget slowed down, sent to a cheaper model or shortened",
            ("effect",),
            registry=registry,
        )
        self._budget_unavailable = Counter(
            "headworks_gateway_budgets_unavailable",
            "Requests refused because a budget that blocks could not be asked for",
            registry=registry,
        )

    def over_budget(self) -> None:
        """Count a request that a budget refused."""
        self._over_budget.inc()

    def eased(self, effect: str) -> None:
        """Count a request that a budget served otherwise than it asked for."""
        self._eased.labels(effect).inc()

    def budget_unavailable(self) -> None:
        """Count a request refused because nobody knows what is left of a budget."""
        self._budget_unavailable.inc()

    def refused(self, unit: LimitUnit) -> None:
        """Count a request that a limit refused."""
        self._refused.labels(unit.value).inc()

    def unenforced(self, unit: LimitUnit) -> None:
        """Count a request that a limit was not asked for."""
        self._unenforced.labels(unit.value).inc()

    def unavailable(self, unit: LimitUnit) -> None:
        """Count a request refused because nobody knows what is left."""
        self._unavailable.labels(unit.value).inc()

    def estimated(self, unit: LimitUnit) -> None:
        """Count a request whose use is not known."""
        self._estimated.labels(unit.value).inc()

    def shared(self, unit: LimitUnit) -> None:
        """Count a request whose end user is counted with others."""
        self._shared.labels(unit.value).inc()

    def watch(self, read: Callable[[], LimitState]) -> None:
        """Have the state asked of this whenever metrics are read."""
        self._registry.register(_State(read))


@dataclass(frozen=True, slots=True)
class _State:
    read: Callable[[], LimitState]

    def collect(self) -> Iterator[Metric]:
        state = self.read()
        yield from _late(state)
        for name, text, value in (
            ("limit_counters", "Counters of limits that processes know", state.counters),
            ("limit_parallel", "Slots of limits on parallel requests in use", state.parallel),
            ("limit_end_users", "End users that limits count apart", state.end_users),
            ("limits_away", "Processes that can't ask the store for limits", int(state.is_away)),
        ):
            family = GaugeMetricFamily(f"headworks_gateway_{name}", text)
            family.add_metric((), value)
            yield family


def _late(state: LimitState) -> Iterator[Metric]:
    told = (
        ("late_settlements", "Counters of budgets reserved on again after that had been freed"),
        ("late_nanousd", "Nano-USD reserved on budgets again after that had been freed"),
        ("late_past_nanousd", "What of that went past the amounts of budgets"),
    )
    for (name, text), value in zip(told, state.late, strict=True):
        family = CounterMetricFamily(f"headworks_gateway_budget_{name}", text)
        family.add_metric((), value)
        yield family
