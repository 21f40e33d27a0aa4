"""What binned live figures read as: rates, shares, trailing percentiles, means. None is no data.

A bin nobody covered has no values. A covered bin without requests has rates of 0, and neither a
failure share nor percentiles of its own. What nobody counted or priced is None, never 0.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from controlplane.decisions.live import add_counts
from inference.decisions.histograms import ENOUGH_SAMPLES, percentiles

SHARES = tuple(ENOUGH_SAMPLES)

LEAST_COVERED_S = 1.0
"""Rates are never by less time, or one request in a bin that has just begun looks like many."""

_HOUR_S = 3_600.0

Values = tuple[float | None, ...]


@dataclass(slots=True)
class Tally:
    """The traffic of some time: sums, failures by code, sheds by class, refusals by reason, and two
    histograms.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_nanousd: int = 0
    unknown_usage: int = 0
    unknown_cost: int = 0
    failures: dict[str, int] = field(default_factory=dict)
    first_token_ms: dict[int, int] = field(default_factory=dict)
    output_token_ms: dict[int, int] = field(default_factory=dict)
    shed: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)

    def add(self, other: "Tally") -> None:
        """Add another's to this, in place."""
        self.requests += other.requests
        self.prompt_tokens += other.prompt_tokens
        self.completion_tokens += other.completion_tokens
        self.cost_nanousd += other.cost_nanousd
        self.unknown_usage += other.unknown_usage
        self.unknown_cost += other.unknown_cost
        add_counts(self.failures, other.failures)
        add_counts(self.first_token_ms, other.first_token_ms)
        add_counts(self.output_token_ms, other.output_token_ms)
        add_counts(self.shed, other.shed)
        add_counts(self.refused, other.refused)

    @property
    def failed(self) -> int:
        return sum(self.failures.values())

    @property
    def failure_share(self) -> float | None:
        return self.failed / self.requests if self.requests else None

    @property
    def has_known_usage(self) -> bool:
        """False if there were requests and the tokens of none of them are known."""
        return self.unknown_usage == 0 or self.prompt_tokens + self.completion_tokens > 0

    @property
    def has_known_cost(self) -> bool:
        """False if there were requests and none of them has a price."""
        return self.unknown_cost == 0 or self.cost_nanousd > 0 or self.unknown_cost < self.requests


def tally_of(tallies: Iterable[Tally]) -> Tally:
    """The sum of tallies."""
    total = Tally()
    for tally in tallies:
        total.add(tally)
    return total


@dataclass(frozen=True, slots=True)
class Rates:
    """What a tally is by time. Money is nano-USD an hour."""

    requests_per_s: float
    failure_share: float | None
    prompt_tokens_per_s: float | None
    completion_tokens_per_s: float | None
    cost_nanousd_per_hour: float | None
    shed_per_s: Mapping[str, float] = field(default_factory=dict)
    refused_per_s: Mapping[str, float] = field(default_factory=dict)


def rates_of(tally: Tally, covered_s: float) -> Rates | None:
    """The rates of what happened in so many covered seconds; None if nothing was covered."""
    if covered_s <= 0:
        return None
    time_s = max(covered_s, LEAST_COVERED_S)
    has_usage = tally.has_known_usage
    return Rates(
        requests_per_s=tally.requests / time_s,
        failure_share=tally.failure_share,
        prompt_tokens_per_s=tally.prompt_tokens / time_s if has_usage else None,
        completion_tokens_per_s=tally.completion_tokens / time_s if has_usage else None,
        cost_nanousd_per_hour=(
            tally.cost_nanousd * _HOUR_S / time_s if tally.has_known_cost else None
        ),
        shed_per_s={priority: count / time_s for priority, count in tally.shed.items()},
        refused_per_s={reason: count / time_s for reason, count in tally.refused.items()},
    )


def trailing_percentiles(
    histograms: Mapping[int, Mapping[int, int]], bins: range, window: int, covered: Iterable[int]
) -> dict[float, Values]:
    """By share, the percentiles of each bin and the `window - 1` before it, merged as they slide.

    `histograms` are by bin and may reach back further than `bins`; a bin not covered has none.
    """
    of_bin = dict(_sliding(histograms, bins, window))
    known = set(covered)
    return {
        share: tuple(of_bin[number][share] if number in known else None for number in bins)
        for share in SHARES
    }


def _sliding(
    histograms: Mapping[int, Mapping[int, int]], bins: range, window: int
) -> Iterator[tuple[int, Mapping[float, float | None]]]:
    held: dict[int, int] = {}
    for number in range(bins.start - window + 1, bins.start):
        add_counts(held, histograms.get(number, {}))
    read = percentiles(held, SHARES)
    for number in bins:
        leaving, coming = histograms.get(number - window, {}), histograms.get(number, {})
        if number > bins.start:
            _take_away(held, leaving)
        add_counts(held, coming)
        if leaving or coming:
            read = percentiles(held, SHARES)
        yield number, read


def _take_away(total: dict[int, int], less: Mapping[int, int]) -> None:
    for key, count in less.items():
        left = total[key] - count
        if left:
            total[key] = left
        else:
            del total[key]


def means(sums: Mapping[int, tuple[float, int]], bins: Sequence[int]) -> tuple[float | None, ...]:
    """The mean of each bin's (sum, samples); None where nothing was measured."""
    pairs = (sums.get(number, (0.0, 0)) for number in bins)
    return tuple(total / samples if samples else None for total, samples in pairs)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of what is known; None if nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def total(values: Iterable[float | None]) -> int | None:
    """The sum of what is known, whole; None if nothing is."""
    known = [value for value in values if value is not None]
    return round(sum(known)) if known else None
