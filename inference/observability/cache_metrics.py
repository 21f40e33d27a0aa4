"""What caches did, as metrics: by outcome and tier, never by what callers write."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from inference.contract.events import CacheUse
from inference.contract.kinds import CacheOutcome, CacheTier
from inference.contract.vitals import TierGauge

_NO_TIER = "none"


@dataclass(slots=True)
class _Saved:
    """What was saved by answers of one tier."""

    seconds: float = 0.0
    tokens: int = 0
    nanousd: int = 0


class CacheMetrics:
    """Counts of one gateway process; what tiers hold is asked of them."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._uses: dict[tuple[CacheOutcome, CacheTier | None], int] = {}
        self._saved: dict[CacheTier, _Saved] = {}
        self._inputs = [0, 0]
        self._unreadable = 0
        self._gauges: Callable[[], Sequence[TierGauge]] = tuple
        registry.register(self)

    def watch(self, gauges: Callable[[], Sequence[TierGauge]]) -> None:
        """Have what tiers hold asked of this whenever metrics are read."""
        self._gauges = gauges

    def used(self, use: CacheUse) -> None:
        """Count what a policy did for a request."""
        place = (use.outcome, use.tier)
        self._uses[place] = self._uses.get(place, 0) + 1
        if use.inputs is not None:
            self._inputs[0] += use.inputs
            self._inputs[1] += use.inputs_hit or 0
        if use.tier is not None:
            saved = self._saved.setdefault(use.tier, _Saved())
            saved.seconds += (use.saved_ms or 0.0) / 1000
            saved.tokens += (use.saved_prompt_tokens or 0) + (use.saved_completion_tokens or 0)
            saved.nanousd += use.saved_nanousd or 0

    def unreadable(self) -> None:
        """Count an answer that couldn't be read to be kept, or compared with a kept one."""
        self._unreadable += 1

    def collect(self) -> Iterator[Metric]:
        """Give the counts as metrics; the registry asks for it."""
        yield self._requests()
        yield from self._savings()
        inputs = CounterMetricFamily(
            "headworks_gateway_cache_inputs",
            "Inputs of requests for embeddings whose vectors are kept one by one, and those found",
            labels=("result",),
        )
        inputs.add_metric(("asked",), self._inputs[0])
        inputs.add_metric(("found",), self._inputs[1])
        yield inputs
        unreadable = CounterMetricFamily(
            "headworks_gateway_cache_unreadable",
            "Answers that were passed on, and not kept or compared as they could not be read",
        )
        unreadable.add_metric((), self._unreadable)
        yield unreadable
        yield from _held(self._gauges())

    def _requests(self) -> Metric:
        family = CounterMetricFamily(
            "headworks_gateway_cache_requests",
            "Requests of routes with a cache policy, by what it did and where the answer was",
            labels=("outcome", "tier"),
        )
        for (outcome, tier), count in self._uses.items():
            family.add_metric((outcome.value, _NO_TIER if tier is None else tier.value), count)
        return family

    def _savings(self) -> Iterator[Metric]:
        seconds, tokens, nanousd = (
            CounterMetricFamily(f"headworks_gateway_cache_saved_{name}", words, labels=("tier",))
            for name, words in (
                ("seconds", "Time that kept answers had taken when they were made"),
                ("tokens", "Tokens of kept answers that nobody had to make again"),
                ("nanousd", "What these tokens cost at the price of the intended target"),
            )
        )
        for tier, saved in self._saved.items():
            seconds.add_metric((tier.value,), saved.seconds)
            tokens.add_metric((tier.value,), saved.tokens)
            nanousd.add_metric((tier.value,), saved.nanousd)
        yield from (seconds, tokens, nanousd)


def _held(gauges: Sequence[TierGauge]) -> Iterator[Metric]:
    """What tiers hold. What the store tells of itself is alike in all processes, so it isn't told
    here, where the counts of all are added up.
    """
    entries, size, most = (
        GaugeMetricFamily(f"headworks_gateway_cache_{name}", words, labels=("tier",))
        for name, words in (
            ("entries", "Answers and vectors in the memory of gateway processes"),
            ("bytes", "Bytes that these take"),
            ("bytes_max", "Bytes that these may take"),
        )
    )
    evictions = CounterMetricFamily(
        "headworks_gateway_cache_evictions",
        "Entries that went from the memory of gateway processes for want of room",
        labels=("tier",),
    )
    errors = CounterMetricFamily(
        "headworks_gateway_cache_errors",
        "Calls to cache store or helper that failed, and what was not kept for want of them",
        labels=("tier",),
    )
    for one in gauges:
        name = (one.tier.value,)
        errors.add_metric(name, one.errors_total)
        if one.tier not in (CacheTier.LOCAL, CacheTier.EMBEDDING):
            continue
        entries.add_metric(name, one.entries or 0)
        size.add_metric(name, one.bytes or 0)
        most.add_metric(name, one.bytes_max or 0)
        evictions.add_metric(name, one.evictions_total or 0)
    yield from (entries, size, most, evictions, errors)
