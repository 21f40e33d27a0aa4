"""What experiments' statistics hold, by simulation: `python -m benchmarks.experiments`.

`--only levels,power,past,ratios` runs some of it. Needs numpy. Seeds are fixed, so a run can be
repeated to the last digit with the same numpy.
"""

import argparse
import time
from collections.abc import Callable

from benchmarks.experiments import false_positives, mismatches, power
from benchmarks.experiments.worlds import UNITS_A_LOOK, mean, past, rate
from controlplane.decisions.experiments.planning import Baseline

SIMULATIONS = 2_000
LOG_NORMAL = Baseline(1.6487, 4.6708)
"""Mean and variance of the world `mean`: exp(1/2) and (e - 1) e."""


def levels(simulations: int) -> None:
    """False positives with a look after every hundred units."""
    looks, units = false_positives.LOOKS, UNITS_A_LOOK
    print(f"no difference, up to {looks * units:,} units, a look after every {units}; level 95 %")
    print(
        "| metric | sequential, any look | fixed, any look | fixed, last look |\n|---|---|---|---|"
    )
    for seed, (name, world) in enumerate(false_positives.WORLDS.items()):
        found = false_positives.run(world, simulations, seed)
        shares = (found.sequential, found.peeking, found.at_the_end)
        print(f"| {name} |{'|'.join(f' {100 * one:.1f} % ' for one in shares)}|", flush=True)


def curves(simulations: int) -> None:
    """Power and units to a decision."""
    effects = (0.0, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2)
    _curve("mean: cost of a request", power.curve(mean, LOG_NORMAL, 0.1, effects, simulations))
    rates = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4)
    base = Baseline(0.05, 0.05 * 0.95)
    _curve("rate of 5 %", power.curve(rate(0.05), base, 0.2, rates, simulations))


def _curve(name: str, drawn: tuple[power.Sizes, list[tuple[float, power.Found]]]) -> None:
    planned, points = drawn
    print(f"\n{name}: fixed {planned.fixed:,} units, sequential at most {planned.sequential:,}")
    print(
        "| effect | found, fixed | found, sequential | mean units until then |\n|---|---|---|---|"
    )
    for effect, found in points:
        print(
            f"| {100 * effect:g} % | {100 * found.fixed:.1f} % | {100 * found.sequential:.1f} % "
            f"| {found.units:,.0f} |",
            flush=True,
        )


def pasts(simulations: int) -> None:
    """What the units' past saves."""
    planned = power.sizes(Baseline(5.0, 1.0), 0.02)
    print(f"\nCUPED: fixed {planned.fixed:,} units, sequential at most {planned.sequential:,}")
    print("| explained | variance less | units without | units with | found without | found with |")
    print("|---|---|---|---|---|---|")
    for share in (0.0, 0.3, 0.6, 0.9):
        without, known = (
            power.run(past(share, is_known=is_known), planned, 0.02, simulations, 7)
            for is_known in (False, True)
        )
        print(
            f"| {100 * share:g} % | {100 * known.reduction:.1f} % | {without.units:,.0f} "
            f"| {known.units:,.0f} | {100 * without.sequential:.1f} % "
            f"| {100 * known.sequential:.1f} % |",
            flush=True,
        )


def ratios(simulations: int) -> None:
    """Sample-ratio mismatches: how soon, and how many false alarms."""
    many = 10 * simulations
    for share, step, sizes, of in (
        (0.5, 100, (10_000, 50_000, 100_000), "as planned"),
        (0.505, 1_000, (100_000, 250_000, 500_000), "control has 50.5 % in place of 50 %"),
        (0.51, 100, (25_000, 50_000, 75_000, 100_000), "control has 51 % in place of 50 %"),
        (0.52, 100, (5_000, 10_000, 20_000), "control has 52 % in place of 50 %"),
    ):
        found = mismatches.run(share, step, sizes, many, 11)
        print(f"\n{of}, a look after every {step:,} units")
        print("| stopped by | at any look | chi-squared at every look |\n|---|---|---|")
        for size, one, other in zip(sizes, found.any_time, found.chi_squared, strict=True):
            print(f"| {size:,} | {100 * one:.3f} % | {100 * other:.3f} % |")
        print(
            f"chi-squared, last look alone: {100 * found.chi_squared_at_the_end:.3f} %", flush=True
        )


PARTS: dict[str, Callable[[int], None]] = {
    "levels": levels,
    "power": curves,
    "past": pasts,
    "ratios": ratios,
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default=",".join(PARTS))
    options.add_argument("--simulations", type=int, default=SIMULATIONS)
    asked = options.parse_args()
    for name in asked.only.split(","):
        began = time.process_time()
        PARTS[name](asked.simulations)
        print(f"({name}: {time.process_time() - began:.0f} s of CPU)\n", flush=True)


if __name__ == "__main__":
    main()
