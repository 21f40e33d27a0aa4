"""A ledger, a store and a gateway played by its fields, for tests of what keeps budgets true."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django.utils import timezone
from redis import Redis

from controlplane.bridge.budgets import keep_budgets
from controlplane.compiler import budget_record
from controlplane.models import (
    Budget,
    BudgetCorrection,
    Organisation,
)
from controlplane.services.actors import Actor
from controlplane.services.budgets import create_budget
from controlplane.services.usage import record_usage
from inference.contract.codec import encode_vitals
from inference.contract.events import End
from inference.contract.kinds import ProcessRole
from inference.contract.vitals import Applied, Traffic, Vitals
from inference.contract.wire import (
    BUDGET_LEDGER,
    BUDGETS_SEEDED,
    LIMITS_EPOCH,
    SEEN,
    vitals_key,
)
from inference.decisions.budgets import Account, period_of
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

TICK = timedelta(seconds=5)
SCOPES = [{"subject": "organisation", "subject_id": None}]


def _midst() -> datetime:
    """A moment to come, far from the ends of its hour, day and month."""
    later = timezone.now() + timedelta(days=31)
    return later.replace(day=10, hour=12, minute=10, second=0, microsecond=0)


@dataclass
class World:
    """A ledger, a store with one gateway process, and the job that keeps their budgets."""

    store: Redis
    actor: Actor
    home: Organisation
    now: datetime = field(default_factory=_midst)
    numbers: int = 0
    process: str = "gw-1/0"
    started_at: float = 1.0

    def budget(self, name: str = "all", **values: Any) -> Budget:
        told = {"scopes": SCOPES, "amount_nanousd": 1_000, "period": "month", **values}
        return create_budget(self.actor, organisation=self.home, name=name, **told)

    def end(self, cost: int | None, **origin: Any) -> End:
        self.numbers += 1
        at = int(self.now.timestamp() * 1000)
        told = make_origin(organisation_id=self.home.pk, **origin)
        charge = make_charge(cost_nanousd=cost)
        return make_end(self.numbers, at_ms=at, received_at_ms=at, origin=told, charges=(charge,))

    def record(self, *costs: int | None, **origin: Any) -> None:
        """Requests that end now and are in the ledger at once."""
        record_usage([self.end(cost, **origin) for cost in costs], now=self.now)

    def account(self, budget: Budget, *subjects: str) -> Account:
        record = budget_record(budget)
        period = period_of(record.period, UTC, self.now.timestamp())
        return Account(record, subjects or (self.home.pk,), period)

    def settle(self, account: Account, amount: int, holder: str = "gw-1/0") -> None:
        """What the process tells the store that it settled, besides what it did already."""
        self.store.hsetnx(account.key, "w", "1")
        self.store.hincrby(account.key, "g", amount)
        self.store.hincrby(account.key, f"g:{holder}", amount)

    def settled(self, account: Account) -> int:
        granted, held = self.store.hmget(account.key, "g", "l")
        return int(granted or 0) - int(held or 0)

    def own(self, account: Account) -> int:
        return int(self.store.hget(account.key, f"g:{BUDGET_LEDGER}") or 0)

    def live(self, epoch: str = "run:1") -> None:
        """A life of the store that is old enough."""
        self.store.set(LIMITS_EPOCH, epoch)

    def vitals(self, *, backlog: int = 0, ended: int = 0) -> None:
        """The process's record of now."""
        at = self.now.timestamp()
        traffic = (Traffic(at=int(at), organisation_id=self.home.pk, requests=ended),)
        record = Vitals(
            role=ProcessRole.GATEWAY,
            gateway="gw-1",
            process=self.process,
            pid=1,
            started_at=self.started_at,
            written_at=at,
            applied=Applied(),
            journal_backlog=backlog,
            traffic=traffic,
        )
        self.store.set(vitals_key(self.process), encode_vitals(record))
        self.store.zadd(SEEN, {self.process: time.time()})

    def tick(self, times: int = 1, **vitals: int) -> str:
        """So many looks of the job, five seconds apart; what the last one waits for."""
        told = ""
        for _ in range(times):
            self.now += TICK
            self.vitals(**vitals)
            told = keep_budgets(self.now)
        return told

    def is_seeded(self) -> bool:
        epoch, seeded = self.store.mget(LIMITS_EPOCH, BUDGETS_SEEDED)
        return epoch is not None and epoch == seeded

    def corrections(self) -> Sequence[tuple[str, int, int]]:
        rows = BudgetCorrection.objects.order_by("id")
        return list(rows.values_list("why", "added_nanousd", "taken_nanousd"))
