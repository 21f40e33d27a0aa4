"""The values live pages show, and how they are made of what was read in bins.

A bucket that no gateway reported is a gap: its values are None. A bucket they reported without
requests has 0 requests and no percentiles.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from controlplane.decisions.live import GAUGES
from controlplane.decisions.live_series import (
    Rates,
    Tally,
    mean,
    means,
    rates_of,
    tally_of,
    total,
    trailing_percentiles,
)
from controlplane.decisions.propagation import PartlySilent
from controlplane.models import LiveCoverage
from controlplane.selectors.live_rows import WorkerBins
from inference.contract.kinds import PriorityClass
from inference.decisions.histograms import ENOUGH_SAMPLES, percentiles

Values = Sequence[float | None]

PERCENTILE_WINDOW_S = 300
"""A percentile is of at least this long; of one small bucket alone it would be noise."""


@dataclass(frozen=True, slots=True)
class Span:
    """A half-open range of whole buckets, aligned to the epoch; the last may still be filling."""

    since: datetime
    until: datetime
    bucket_s: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """Which gateways report now: `live` of `seen`, and the names of those that are missing.

    `partly` are those of the missing of which some process still reports.
    """

    live: int
    seen: int
    missing: Sequence[str]
    as_of: datetime | None
    partly: Sequence[PartlySilent] = ()

    @classmethod
    def of_row(cls, row: LiveCoverage | None) -> "Coverage":
        """What a sample found; nothing before the first."""
        if row is None:
            return cls(0, 0, (), None)
        names = [one if isinstance(one, str) else one["name"] for one in row.missing]
        partly = [PartlySilent(**one) for one in row.missing if not isinstance(one, str)]
        return cls(row.live, row.seen, tuple(names), row.as_of, tuple(partly))

    @property
    def silent(self) -> Sequence[str]:
        """The names of those of which nothing reports."""
        partly = {one.name for one in self.partly}
        return tuple(name for name in self.missing if name not in partly)


@dataclass(frozen=True, slots=True)
class TrafficSeries:
    """One pool's traffic, or all traffic, a value a bucket.

    Rates are a second of the time the bucket has covered so far. `failures` are counts by error
    code, `shed_per_s` rates by class of what was sent away for want of room, `refused_per_s` by
    reason of all that was turned away before any pool saw it, where there was any. Percentiles are
    by share (0.5, 0.95, 0.99) in ms, of the bucket and as many before it as `percentile_window_s`
    takes, None where the values are too few. Money is nano-USD an hour.
    """

    key: str
    label: str
    requests: Values
    requests_per_s: Values
    failure_share: Values
    failures: Mapping[str, Values]
    prompt_tokens_per_s: Values
    completion_tokens_per_s: Values
    cost_nanousd_per_hour: Values
    first_token_ms: Mapping[float, Values]
    output_token_ms: Mapping[float, Values]
    shed_per_s: Mapping[str, Values] = field(default_factory=dict)
    refused_per_s: Mapping[str, Values] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkerSeries:
    """One worker's gauges, a value a bucket: the mean of what was measured in it."""

    key: str
    label: str
    pool_id: str
    running: Values
    waiting: Values
    kv_used: Values
    utilisation: Values
    memory_bytes: Values
    is_gpu: bool


@dataclass(frozen=True, slots=True)
class Summary:
    """One figure each of the newest minutes, for tiles and lists; None is no data.

    Rates and shares are over the last minute that is covered, percentiles over the last five.
    `samples` is how many first-token times those five minutes hold, `output_samples` how many times
    per output token, `failures` how many requests of the last minute failed, by error code, `shed`
    how many were sent away for want of room, by class, `refused` how many were turned away before
    any pool saw them, by reason.
    """

    requests_per_s: float | None
    failure_share: float | None
    first_token_ms: Mapping[float, float | None]
    output_token_ms: Mapping[float, float | None]
    samples: int
    prompt_tokens_per_s: float | None
    completion_tokens_per_s: float | None
    running: int | None
    waiting: int | None
    kv_used: float | None
    utilisation: float | None
    is_gpu: bool
    cost_nanousd_per_hour: int | None
    has_unknown_cost: bool
    output_samples: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)
    shed: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[str, int] = field(default_factory=dict)

    def lacks_price(self, *, is_priced: bool) -> bool:
        """Whether 0 would be a lie: nothing was booked, and it had no price or there is none.

        `is_priced` is whether a model that may serve has a price now.
        """
        if self.cost_nanousd_per_hour is None:
            return self.requests_per_s is not None
        is_unpriced = self.has_unknown_cost or not is_priced
        return self.cost_nanousd_per_hour == 0 and is_unpriced


def priced_costs(series: TrafficSeries, *, lacks_price: bool) -> Values:
    """The cost of each bucket; nowhere a 0 if nothing that is shown has a price.

    `lacks_price` is what the summary of the same scope says.
    """
    costs = series.cost_nanousd_per_hour
    has_unpriced = lacks_price or any(
        cost is None and requests for cost, requests in zip(costs, series.requests, strict=True)
    )
    return [None] * len(costs) if has_unpriced and not any(costs) else costs


def summed(traffic: Mapping[str, Mapping[int, Tally]]) -> dict[int, Tally]:
    """All pools' traffic by bin."""
    totals: dict[int, Tally] = {}
    for number, tally in chain.from_iterable(one.items() for one in traffic.values()):
        if number not in totals:
            totals[number] = Tally()
        totals[number].add(tally)
    return totals


@dataclass(frozen=True, slots=True)
class Lines:
    """Makes the series of one span; `covered` are the seconds of each bin."""

    span: Span
    covered: Mapping[int, float]

    @property
    def bins(self) -> range:
        """The numbers of the span's buckets: seconds since the epoch by their length."""
        bucket_s = self.span.bucket_s
        ends = self.span.since.timestamp(), self.span.until.timestamp()
        return range(*(int(end // bucket_s) for end in ends))

    def traffic(self, key: str, label: str, tallies: Mapping[int, Tally]) -> TrafficSeries:
        """One line of traffic, from the span's tallies and those before that percentiles need."""
        bins, covered = self.bins, self.covered
        known = [number for number in bins if covered.get(number, 0.0) > 0]
        of_bin = {number: tallies.get(number, Tally()) for number in known}
        rates = [
            rates_of(of_bin[number], covered[number]) if number in of_bin else None
            for number in bins
        ]
        codes = sorted({code for tally in of_bin.values() for code in tally.failures})
        window = max(1, PERCENTILE_WINDOW_S // self.span.bucket_s)
        first = {number: tally.first_token_ms for number, tally in tallies.items()}
        output = {number: tally.output_token_ms for number, tally in tallies.items()}
        return TrafficSeries(
            key=key,
            label=label,
            requests=self._values(of_bin, lambda tally: tally.requests),
            requests_per_s=_of(rates, "requests_per_s"),
            failure_share=_of(rates, "failure_share"),
            failures={
                code: self._values(of_bin, lambda tally, code=code: tally.failures.get(code, 0))
                for code in codes
            },
            prompt_tokens_per_s=_of(rates, "prompt_tokens_per_s"),
            completion_tokens_per_s=_of(rates, "completion_tokens_per_s"),
            cost_nanousd_per_hour=_of(rates, "cost_nanousd_per_hour"),
            first_token_ms=trailing_percentiles(first, bins, window, known),
            output_token_ms=trailing_percentiles(output, bins, window, known),
            shed_per_s={
                one.value: tuple(
                    None if rate is None else rate.shed_per_s.get(one.value, 0.0) for rate in rates
                )
                for one in PriorityClass
            },
            refused_per_s={
                one: tuple(rate and rate.refused_per_s.get(one, 0.0) for rate in rates)
                for one in sorted({one for tally in of_bin.values() for one in tally.refused})
            },
        )

    def _values(self, of_bin: Mapping[int, Tally], read: Callable[[Tally], float]) -> Values:
        return tuple(read(of_bin[number]) if number in of_bin else None for number in self.bins)

    def pools(
        self, traffic: Mapping[str, Mapping[int, Tally]], names: Mapping[str, str]
    ) -> Sequence[TrafficSeries]:
        """Every pool there is and every other that had traffic, most requests first."""
        lines = [self.traffic(key, names[key], traffic.get(key, {})) for key in names]
        return sorted(
            lines, key=lambda line: (-sum(one or 0 for one in line.requests), line.label, line.key)
        )

    def workers(
        self, found: Mapping[str, WorkerBins], names: Mapping[str, str]
    ) -> Sequence[WorkerSeries]:
        """The workers that were measured, by pool and number."""
        lines = [
            WorkerSeries(
                key=worker_id,
                label=worker_id.replace(worker.pool_id, names[worker.pool_id], 1),
                pool_id=worker.pool_id,
                is_gpu=worker.is_gpu,
                **{name: means(worker.gauges[name], self.bins) for name in GAUGES},
            )
            for worker_id, worker in found.items()
        ]
        return sorted(lines, key=lambda line: (line.label.rpartition("-")[0], _ordinal(line.key)))


def _ordinal(worker_id: str) -> tuple[int, str]:
    number = worker_id.rpartition("-")[2]
    return (int(number), "") if number.isdecimal() else (0, worker_id)


def _of(rates: Iterable[Rates | None], name: str) -> Values:
    return tuple(None if one is None else getattr(one, name) for one in rates)


@dataclass(frozen=True, slots=True)
class Tiles:
    """Makes the summaries of one scope and its pools, from what its last minutes hold."""

    minute_covered_s: float
    before: Mapping[str, Mapping[int, Tally]]
    minute: Mapping[str, Mapping[int, Tally]]
    workers: Sequence[WorkerBins]

    def summary(self, pool_id: str | None) -> Summary:
        """One pool's figures; all traffic's for None."""
        last = _whole(self.minute, pool_id)
        rates = rates_of(last, self.minute_covered_s)
        whole = tally_of([last, _whole(self.before, pool_id)])
        gauges = self._gauges(pool_id)
        on_gpu = [one for one in gauges if one["is_gpu"]]
        cost = rates.cost_nanousd_per_hour if rates else None
        return Summary(
            requests_per_s=rates.requests_per_s if rates else None,
            failure_share=rates.failure_share if rates else None,
            first_token_ms=percentiles(whole.first_token_ms, ENOUGH_SAMPLES),
            output_token_ms=percentiles(whole.output_token_ms, ENOUGH_SAMPLES),
            samples=sum(whole.first_token_ms.values()),
            prompt_tokens_per_s=rates.prompt_tokens_per_s if rates else None,
            completion_tokens_per_s=rates.completion_tokens_per_s if rates else None,
            running=total(one["running"] for one in gauges),
            waiting=total(one["waiting"] for one in gauges),
            kv_used=mean(one["kv_used"] for one in gauges),
            utilisation=mean(one["utilisation"] for one in on_gpu or gauges),
            is_gpu=bool(on_gpu),
            cost_nanousd_per_hour=None if cost is None else round(cost),
            has_unknown_cost=last.unknown_cost > 0,
            output_samples=sum(whole.output_token_ms.values()),
            failures={code: count for code, count in last.failures.items() if count},
            shed={priority: count for priority, count in last.shed.items() if count},
            refused={reason: count for reason, count in last.refused.items() if count},
        )

    def _gauges(self, pool_id: str | None) -> list[dict[str, float | None]]:
        """Each worker's newest measurement of each gauge."""
        return [
            {name: _newest_of(worker.gauges[name]) for name in GAUGES} | {"is_gpu": worker.is_gpu}
            for worker in self.workers
            if pool_id in (None, worker.pool_id)
        ]


def _whole(traffic: Mapping[str, Mapping[int, Tally]], pool_id: str | None) -> Tally:
    """All that was read of a pool, or of all."""
    scope = traffic.values() if pool_id is None else [traffic.get(pool_id, {})]
    return tally_of(tally for tallies in scope for tally in tallies.values())


def _newest_of(gauge: Mapping[int, tuple[float, int]]) -> float | None:
    if not gauge:
        return None
    total_of_newest, samples = gauge[max(gauge)]
    return total_of_newest / samples
