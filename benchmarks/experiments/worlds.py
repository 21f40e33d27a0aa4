"""What users of an experiment do, drawn: every unit with its values, as sums after every look.

A world draws one experiment: units come one after another, each falls into an arm by a fair coin,
and after every hundred units one looks. All randomness is numpy's, seeded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from controlplane.decisions.experiments.contrasts import Level
from controlplane.decisions.experiments.quantiles import Counted, Quantile, design_effect
from controlplane.decisions.experiments.sums import UnitSums, adjust, estimate
from inference.decisions.histograms import GROWTH

Floats = NDArray[np.float64]

UNITS_A_LOOK = 100


@dataclass(frozen=True)
class Looked:
    """What is known at one look: units of both arms together, control and treatment."""

    units: int
    control: Level
    treatment: Level


World = Callable[[np.random.Generator, int, float], Iterator[Looked]]
"""From chance, the number of looks and the treatment's effect by share to what is seen at each."""


def _arms(chance: np.random.Generator, units: int) -> NDArray[np.bool_]:
    return chance.random(units) < 0.5


def _sums(columns: list[Floats], treated: NDArray[np.bool_], looks: int) -> tuple[Floats, Floats]:
    """Sums of the columns by arm, after every look."""
    stacked = np.stack([np.ones(len(treated)), *columns])
    of_control = np.where(treated, 0.0, stacked).reshape(len(stacked), looks, -1).sum(axis=2)
    of_all = stacked.reshape(len(stacked), looks, -1).sum(axis=2)
    return of_control.cumsum(axis=1).T, (of_all - of_control).cumsum(axis=1).T


def _told(
    y: Floats, x: Floats, c: Floats, treated: NDArray[np.bool_], looks: int, *, is_rate: bool
) -> Iterator[Looked]:
    columns = [y, y * y, x, x * x, x * y, c, c * c, c * y, c * x]
    for one, other in zip(*_sums(columns, treated, looks), strict=True):
        arms = tuple(UnitSums(int(row[0]), *map(float, row[1:])) for row in (one, other))
        control, treatment = adjust(arms, is_rate=is_rate)
        yield Looked(int(one[0] + other[0]), control, treatment)


def mean(chance: np.random.Generator, looks: int, effect: float) -> Iterator[Looked]:
    """What a request costs: log-normal, a standard deviation of 1.3 means."""
    units = looks * UNITS_A_LOOK
    treated = _arms(chance, units)
    y = chance.lognormal(0.0, 1.0, units) * np.where(treated, 1.0 + effect, 1.0)
    ones = np.ones(units)
    return _told(y, ones, 0.0 * ones, treated, looks, is_rate=False)


def past(share: float, *, is_known: bool = True) -> World:
    """What a user costs, of whose variance the past explains this share, if it is known."""

    def drawn(chance: np.random.Generator, looks: int, effect: float) -> Iterator[Looked]:
        units = looks * UNITS_A_LOOK
        treated = _arms(chance, units)
        before, now = chance.normal(size=(2, units))
        y = 5.0 + np.sqrt(share) * before + np.sqrt(1.0 - share) * now
        y = y + np.where(treated, 5.0 * effect, 0.0)
        known = before if is_known else 0.0 * before
        return _told(y, np.ones(units), known, treated, looks, is_rate=False)

    return drawn


def rate(base: float) -> World:
    """Events of a chance, one trial a unit."""

    def drawn(chance: np.random.Generator, looks: int, effect: float) -> Iterator[Looked]:
        units = looks * UNITS_A_LOOK
        treated = _arms(chance, units)
        shares = np.where(treated, base * (1.0 + effect), base)
        y = (chance.random(units) < shares).astype(float)
        ones = np.ones(units)
        return _told(y, ones, 0.0 * ones, treated, looks, is_rate=True)

    return drawn


def _requests(chance: np.random.Generator, units: int) -> Floats:
    """Requests of users: most few, some very many."""
    return np.ceil(chance.lognormal(1.0, 1.0, units))


def clustered_rate(chance: np.random.Generator, looks: int, effect: float) -> Iterator[Looked]:
    """Failed requests of users, each with a chance of failure of their own around 4 %."""
    units = looks * UNITS_A_LOOK
    treated = _arms(chance, units)
    x = _requests(chance, units)
    own = chance.beta(0.8, 19.2, units) * np.where(treated, 1.0 + effect, 1.0)
    y = chance.binomial(x.astype(int), np.minimum(own, 1.0)).astype(float)
    return _told(y, x, 0.0 * x, treated, looks, is_rate=True)


def ratio(chance: np.random.Generator, looks: int, effect: float) -> Iterator[Looked]:
    """Cost by request: users differ in how many requests they make and in what these cost."""
    units = looks * UNITS_A_LOOK
    treated = _arms(chance, units)
    x = _requests(chance, units)
    own = chance.lognormal(0.0, 0.5, units) * np.where(treated, 1.0 + effect, 1.0)
    y = own * chance.gamma(x)
    return _told(y, x, 0.0 * x, treated, looks, is_rate=False)


def returning(chance: np.random.Generator, looks: int, effect: float) -> Iterator[Looked]:
    """Cost by request of users who go on: after a third of the time hardly a new one comes.

    A look comes after every hundred requests, and takes the users as they are by then.
    """
    requests = looks * UNITS_A_LOOK
    users = requests // 10
    asked = np.arange(requests)
    known = np.maximum(users * np.minimum(3.0 * asked / requests, 1.0), 1.0)
    owners = (chance.random(requests) * known).astype(int)
    treated = _arms(chance, users)
    own = chance.lognormal(0.0, 0.5, users) * np.where(treated, 1.0 + effect, 1.0)
    cost = own[owners] * chance.exponential(size=requests)
    x, y = np.zeros((2, looks, users))
    np.add.at(x, (asked // UNITS_A_LOOK, owners), 1.0)
    np.add.at(y, (asked // UNITS_A_LOOK, owners), cost)
    x, y = x.cumsum(axis=0), y.cumsum(axis=0)
    columns = np.stack([x > 0, y, y * y, x, x * x, x * y])
    arms = [columns[:, :, mask].sum(axis=2).T for mask in (~treated, treated)]
    for one, other in zip(*arms, strict=True):
        sums = (UnitSums(int(row[0]), *map(float, row[1:])) for row in (one, other))
        control, treatment = (estimate(arm) for arm in sums)
        yield Looked(int(one[0] + other[0]), control, treatment)


def quantile(fraction: float) -> World:
    """A quantile of the time to the first token: log-normal with a slow tenth; a request a unit."""

    def drawn(chance: np.random.Generator, looks: int, effect: float) -> Iterator[Looked]:
        units = looks * UNITS_A_LOOK
        treated = _arms(chance, units)
        is_slow = chance.random(units) < 0.1
        times = chance.lognormal(5.0, 0.5, units) * np.where(is_slow, 4.0, 1.0)
        times = times * np.where(treated, 1.0 + effect, 1.0)
        owners = np.arange(units)
        return _quantiles(times, owners, treated, looks, fraction=fraction)

    return drawn


def clustered_quantile(fraction: float) -> World:
    """The same of users that make many requests and are slow or quick as a whole."""

    def drawn(chance: np.random.Generator, looks: int, effect: float) -> Iterator[Looked]:
        units = looks * UNITS_A_LOOK
        treated = _arms(chance, units)
        owners = np.repeat(np.arange(units), _requests(chance, units).astype(int))
        own = chance.lognormal(5.0, 0.3, units) * np.where(treated, 1.0 + effect, 1.0)
        times = own[owners] * chance.lognormal(0.0, 0.5, len(owners))
        return _quantiles(times, owners, treated, looks, fraction=fraction)

    return drawn


def _quantiles(
    times: Floats,
    owners: NDArray[np.int64],
    treated: NDArray[np.bool_],
    looks: int,
    *,
    fraction: float,
) -> Iterator[Looked]:
    units = len(treated)
    x = np.bincount(owners, minlength=units).astype(float)
    y = np.bincount(owners, weights=times, minlength=units)
    squares = np.bincount(owners, weights=times * times, minlength=units)
    rows = _sums([y, y * y, x, x * x, x * y, squares], treated, looks)
    buckets = np.ceil(np.log(times) / np.log(GROWTH)).astype(int)
    first = int(buckets.min())
    counts = np.zeros((2, looks, int(buckets.max()) - first + 1), dtype=np.int64)
    look_of = owners // UNITS_A_LOOK
    np.add.at(counts, (treated[owners].astype(int), look_of, buckets - first), 1)
    counts = counts.cumsum(axis=1)
    for look in range(looks):
        found = []
        for arm in (0, 1):
            row = [float(one) for one in rows[arm][look]]
            sums = UnitSums(int(row[0]), *row[1:6])
            filled = np.flatnonzero(counts[arm, look])
            here = dict(
                zip((filled + first).tolist(), counts[arm, look, filled].tolist(), strict=True)
            )
            found.append(Quantile(Counted(here, design_effect(sums, row[6])), fraction))
        yield Looked(int(rows[0][look][0] + rows[1][look][0]), found[0], found[1])
