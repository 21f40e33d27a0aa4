"""Metrics of several processes as one: each tells its own, and what dead ones counted stays."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric

Labels = tuple[tuple[str, str], ...]
Series = dict[tuple[str, Labels], float]

_GAUGE = "gauge"
_CREATED = "_created"


@dataclass(frozen=True, slots=True)
class Sample:
    """One series' value; `labels` are in the order they are shown."""

    name: str
    labels: Labels
    value: float


@dataclass(frozen=True, slots=True)
class Family:
    """One metric of one process. `kind` is Prometheus' word for its type."""

    name: str
    kind: str
    help: str
    samples: tuple[Sample, ...]


def families_of(registry: CollectorRegistry) -> tuple[Family, ...]:
    """All that a registry has counted. When a series began is left out: it can't be merged."""
    return tuple(
        Family(
            metric.name,
            metric.type,
            metric.documentation,
            tuple(
                Sample(one.name, tuple(one.labels.items()), one.value)
                for one in metric.samples
                if not one.name.endswith(_CREATED) and isfinite(one.value)
            ),
        )
        for metric in registry.collect()
    )


class Merger:
    """Puts processes together. Counters and histograms are summed and kept when one is gone.

    Gauges count what is there now: they are summed over the living.
    """

    def __init__(self) -> None:
        self._kept: tuple[Family, ...] = ()

    def retire(self, families: Sequence[Family]) -> None:
        """Keep what a process had counted by its end."""
        lasting = tuple(one for one in families if one.kind != _GAUGE)
        self._kept = tuple(_merged((self._kept, lasting)))

    def text(self, living: Iterable[Sequence[Family]]) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(_Merged(tuple(_merged((self._kept, *living)))))


@dataclass(frozen=True, slots=True)
class _Merged:
    """A collector of what is merged already."""

    families: tuple[Family, ...]

    def collect(self) -> Iterator[Metric]:
        for family in self.families:
            metric = Metric(family.name, family.help, family.kind)
            for one in family.samples:
                metric.add_sample(one.name, dict(one.labels), one.value)
            yield metric


def _merged(processes: Iterable[Sequence[Family]]) -> Iterator[Family]:
    """One family a name, as the first process to have it describes it."""
    described: dict[str, Family] = {}
    sums: dict[str, Series] = {}
    for families in processes:
        for family in families:
            described.setdefault(family.name, family)
            series = sums.setdefault(family.name, {})
            for one in family.samples:
                key = (one.name, one.labels)
                series[key] = series.get(key, 0.0) + one.value
    for name, family in described.items():
        yield Family(name, family.kind, family.help, tuple(_samples(sums[name])))


def _samples(series: Mapping[tuple[str, Labels], float]) -> Iterator[Sample]:
    for (name, labels), value in series.items():
        yield Sample(name, labels, value)
