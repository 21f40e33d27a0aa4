"""Generated limits and budgets of a world, used in a real store as far as is drawn."""

import asyncio
from dataclasses import dataclass, replace
from random import Random

from inference.contract.kinds import (
    BudgetAction,
    BudgetPeriod,
    BudgetSubject,
    DegradationStep,
    Enforcement,
    LimitSubject,
    LimitUnit,
    LimitWindow,
    TooLong,
    UnknownPrice,
)
from inference.contract.snapshot import (
    BudgetRecord,
    BudgetScope,
    ConfigSnapshot,
    LimitRecord,
    PriceRecord,
)
from inference.decisions.admission import Bearing, Requester
from inference.decisions.budgets import amount_at
from inference.limits.counted import counter_of
from inference.limits.leases import Leases
from inference.limits.purses import Purse, purses_of
from inference.limits.slices import Claim
from tests.decisions.fleets import KEY
from tests.inference.gateway.test_explained import (
    NOW,
    World,
)

STEPS = tuple(DegradationStep)
CENT = 10_000_000
SUBJECTS = {
    LimitSubject.ORGANISATION: KEY.organisation_id,
    LimitSubject.TEAM: KEY.team_id,
    LimitSubject.PROJECT: KEY.project_id,
    LimitSubject.KEY: KEY.id,
    LimitSubject.ROUTE: "rt_m",
    LimitSubject.END_USER: "ann",
    LimitSubject.MODEL: "",
}


def some_limit(chance: Random, name: str) -> tuple[LimitRecord, str, int]:
    """A limit, whom it counts for, and what is left of it: plenty, too little or none."""
    # models oftener, for only a plan with several of them has anything to pass over
    subject = chance.choice((*LimitSubject, *[LimitSubject.MODEL] * 6))
    whom = SUBJECTS[subject] or chance.choice(("mdl_a", "mdl_b"))
    unit = chance.choice(tuple(LimitUnit))
    is_counted = unit in (LimitUnit.REQUESTS, LimitUnit.PARALLEL)
    amount = 50 if is_counted else 1_000_000
    record = LimitRecord(
        f"lim_{name}",
        "org_a",
        name,
        subject,
        unit,
        amount,
        None if chance.random() < 0.3 else whom,
        None if unit is LimitUnit.PARALLEL else LimitWindow.DAY,
        chance.choice(tuple(Enforcement)),
        is_enabled=chance.random() < 0.9,
    )
    rests = (*[amount] * 8, 0, amount if is_counted else 300)
    left = chance.choice((amount, 0) if subject is LimitSubject.MODEL else rests)
    return record, whom, left


def some_budget(chance: Random, name: str) -> tuple[BudgetRecord, int]:
    """A budget, and what is left of whoever it counts for: plenty, too little or nothing."""
    kinds = [BudgetSubject(one) for one in SUBJECTS] + [BudgetSubject.MODEL] * 4
    subjects = dict.fromkeys(chance.choices(kinds, k=chance.choice((1, 1, 2))))
    scopes = tuple(
        BudgetScope(one, None if chance.random() < 0.3 else _whom(one, chance)) for one in subjects
    )
    further = Random(name)
    record = BudgetRecord(
        f"bud_{name}",
        "org_a",
        name,
        scopes,
        chance.choice((*[10**9 * CENT] * 6, 1)),
        BudgetPeriod.MONTH,
        chance.choice((*[BudgetAction.BLOCK] * 3, BudgetAction.CHEAPER, BudgetAction.NOTIFY)),
        chance.choice(tuple(UnknownPrice)),
        is_enabled=chance.random() < 0.9,
        too_long=further.choice(tuple(TooLong)),
        cheaper_model_id=further.choice((None, None, "mdl_a", "mdl_gone")),
    )
    return record, chance.choice((*[amount_at(record, NOW)] * 4, 62 * CENT, 130 * CENT, 0, 300))


def _whom(subject: BudgetSubject, chance: Random) -> str | None:
    if subject is BudgetSubject.ORGANISATION:
        return None
    return SUBJECTS[LimitSubject(subject)] or chance.choice(("mdl_a", "mdl_b"))


def limited(
    world: World, limits: list[LimitRecord], budgets: list[BudgetRecord], chance: Random
) -> ConfigSnapshot:
    """The same configuration with limits, and a route that has a ladder and doesn't wait.

    Its pools are of two models in turn, so that most plans have both.
    """
    route = replace(
        world.snapshot.routes["org_a", "m"],
        degradation=tuple(chance.sample(STEPS, chance.randint(0, len(STEPS)))),
        max_queue_wait_ms=0,
    )
    pools = {
        one.id: replace(one, model_id=("mdl_a", "mdl_b")[place % 2])
        for place, one in enumerate(world.snapshot.pools.values())
    }
    return replace(
        world.snapshot,
        pools=pools,
        routes={("org_a", "m"): route},
        aliases={("org_a", "other"): route},
        limits={one.id: one for one in limits},
        budgets={one.id: one for one in budgets},
        prices={
            model: PriceRecord(f"prc_{model}", "org_a", model, CENT * price, CENT * price)
            for model, price in (("mdl_a", 10_000), ("mdl_b", 20_000))
            if chance.random() < 0.9
        },
    )


@dataclass
class Limits:
    """What limits and budgets of a world there are, and what is left of them."""

    records: list[LimitRecord]
    left: dict[tuple[str, str], int]
    budgets: list[BudgetRecord]
    budgets_left: dict[str, int]

    @classmethod
    async def used(cls, leases: Leases, chance: Random, name: str) -> "Limits":
        """Some limits, used as far as is drawn, in the store."""
        drawn = [some_limit(chance, f"{name}_{n}") for n in range(chance.choice((0, 1, 2, 4)))]
        for limit, whom, left in drawn:
            used = limit.amount - left
            if used and limit.is_enabled:
                counter = counter_of(Bearing(limit, whom))
                taken = leases.take("fill", [Claim(counter, used, used, True)])
                if isinstance(taken, asyncio.Future):
                    await leases.outcome(taken)
        left = {(limit.id, whom): rest for limit, whom, rest in drawn}
        budgets = [
            some_budget(chance, f"{name}_{n}") for n in range(chance.choice((0, 0, 0, 1, 2)))
        ]
        budgets_left: dict[str, int] = {}
        for budget, rest in budgets:
            for purse in purses_of_anybody(budget):
                used = max(amount_at(budget, NOW) - rest, 0)
                budgets_left[purse.account.key] = amount_at(budget, NOW) - used
                taken = leases.take("fill", [Claim(purse.counter, used, used, True)])
                if isinstance(taken, asyncio.Future):
                    await leases.outcome(taken)
        return cls(
            [limit for limit, _, _ in drawn], left, [one for one, _ in budgets], budgets_left
        )


def purses_of_anybody(budget: BudgetRecord) -> list[Purse]:
    """Those of all that requests can be of, each once."""
    whose = (KEY.organisation_id, KEY.team_id, KEY.project_id, KEY.id)
    found: dict[str, Purse] = {}
    for model_id in ("mdl_a", "mdl_b"):
        requester = Requester(*whose, "ann", model_id, "rt_m")
        for purse in purses_of(
            [budget], requester, (), time_zone="UTC", at_s=NOW, is_apart=lambda _: True
        ):
            found[purse.account.key] = purse
    return list(found.values())
