"""A copy of a budget in the real state store, by the script that gateways run, and at gateways.

Its counter, and the holders that are counted there, are nobody else's, and are taken away again.
"""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from redis import Redis

from controlplane.bridge.budget_counters import read_counters
from controlplane.bridge.vitals import read_fleet
from controlplane.decisions.budget_proofs import ProofState, ProofStep, judge_gateways
from controlplane.errors import Conflict
from inference.contract.kinds import BudgetAction, ProofVerdict
from inference.contract.lease_scripts import LEASE
from inference.contract.snapshot import BudgetRecord
from inference.contract.wire import (
    BUDGET_PROOF_LIFE_S,
    BUDGET_PROOFS,
    LIMITS_CHANNEL,
    LIMITS_DEAD_S,
    budget_proof_key,
)
from inference.decisions.budgets import (
    FOREVER,
    ROLLING,
    Account,
    Period,
    account_key,
    acts_from,
    dollars,
    refusal_words,
    stake_of,
    throttle_window,
)

AGAIN_S = 15
"""Of one organisation a budget is put to the test so often at most: people get messages by it."""

CAP = 10
"""The amount of the copy, in nano-USD."""

ANSWERS_S = 4.0
"""Gateways look for wishes once a second."""

_LOOKS_S = 0.1
_LIFE_S = 600


def claim_turn(store: Redis, organisation_id: str) -> None:
    """Raise Conflict if a budget of the organisation was put to the test a moment ago."""
    key = f"hw:budget-tests:{organisation_id}"
    if not store.set(key, "1", nx=True, ex=AGAIN_S):
        left_s = max(int(store.ttl(key)), 1)
        raise Conflict(f"A budget was put to the test just now; do it again in {left_s} s.")


@dataclass(frozen=True, slots=True)
class _Reply:
    """What the script says: what is left, and whether what was asked for is short."""

    rest: int
    is_short: bool


class _Counter:
    """A counter that nobody else knows, used by a made-up process that tells of itself."""

    def __init__(self, store: Redis, key: str, *, amount: int, length: str | int) -> None:
        self.key = key
        self._holders = f"{key}:holders"
        self._store = store
        self._amount = amount
        self._length = length
        self._seq = 0
        self._window = ""

    def say(self, *, got: int, held: int, floor: int, take: int, may_return: bool) -> _Reply:
        """Tell what was granted here and may come back, and ask for more of it."""
        self._seq += 1
        head = ("proof", self._seq, int(LIMITS_DEAD_S * 1000), LIMITS_CHANNEL, 0)
        row = (self._length, self._amount, self._window, got, held, 0, 0, 0)
        ask = (1, 1, 1, floor, take, int(may_return), 0)
        told = self._store.eval(LEASE, 2, self._holders, self.key, *head, *row, *ask)
        [[reply], [short]] = told
        self._window = reply[0].decode()
        return _Reply(int(reply[3]), bool(short))

    def drop(self) -> None:
        self._store.unlink(self.key, self._holders)


def try_store(store: Redis, record: BudgetRecord) -> Sequence[ProofStep]:
    """Reserve, settle, and ask for more than is left, by the script that gateways run."""
    word, now_s = secrets.token_hex(8), time.time()
    copy = replace(
        record,
        id=f"{record.id}:proof:{word}",
        amount_nanousd=CAP,
        raised_to_nanousd=None,
        raised_until=None,
        grace_percent=0,
        grace_nanousd=0,
    )
    period = FOREVER if record.is_rolling else Period(int(now_s), int(now_s) + _LIFE_S)
    account = Account(copy, ("proof",) * len(record.scopes), period)
    rolling = ROLLING[record.period]
    length: str | int = -period.ends_s * 1000
    if record.is_rolling:
        length = f"~{rolling.step_s * 1000}:{rolling.steps}"
    counter = _Counter(store, account_key(account), amount=CAP, length=length)
    try:
        accrued = _accrues(store, account, counter)
        if accrued.state is ProofState.FAILED:
            return (accrued,)
        return (accrued, _acts(store, account, counter, now_s))
    finally:
        counter.drop()


def _accrues(store: Redis, account: Account, counter: _Counter) -> ProofStep:
    """Reserve twice for what costs less, and read what is settled and what is held."""
    blocks = account.budget.action is BudgetAction.BLOCK
    first, second, cost = CAP // 2 + 1, CAP - 4, 4
    take = first if blocks else 0
    counter.say(got=0, held=0, floor=take, take=take, may_return=blocks)
    if blocks:
        # that one ended with less than it had reserved; another is under way
        reply = counter.say(got=cost, held=0, floor=second, take=second, may_return=True)
        settled = read_counters(store, [counter.key])[counter.key].settled
        if (settled, reply.rest) != (cost, 0):
            words = f"With {dollars(cost)} spent and {dollars(second)} reserved it has other sums."
            return ProofStep("accrues", ProofState.FAILED, words)
    counter.say(got=cost + second, held=0, floor=0, take=0, may_return=False)
    told = read_counters(store, [counter.key])[counter.key]
    if (told.settled, told.reserved) != (CAP, 0):
        words = f"Two costs that make {dollars(CAP)} read back as {dollars(told.settled)}."
        return ProofStep("accrues", ProofState.FAILED, words)
    does = "were reserved, settled and add" if blocks else "add"
    words = f"Two costs of a copy capped at {dollars(CAP)} {does} up to {dollars(told.settled)}."
    return ProofStep("accrues", ProofState.OK, words)


def _acts(store: Redis, account: Account, counter: _Counter, now_s: float) -> ProofStep:
    """Ask the script for more, now that all of it is spent."""
    record = account.budget
    stake = stake_of(record, 1)
    assert stake is not None
    reply = counter.say(
        got=CAP, held=0, floor=stake.floor, take=stake.take, may_return=record.action == "block"
    )
    if record.action is BudgetAction.BLOCK:
        free = counter.say(got=CAP, held=0, floor=0, take=0, may_return=True)
        if not reply.is_short or free.is_short:
            words = "The store lets in what isn't left for, or refuses what is free."
            return ProofStep("blocks", ProofState.FAILED, words)
        return ProofStep("blocks", ProofState.OK, refusal_words(account, 1, now_s=now_s))
    begins, is_slowed = acts_from(record, now_s), True
    if record.action is BudgetAction.THROTTLE:
        is_slowed = _is_slowed(store, account)
    is_wanted = (begins is None) is (record.action is BudgetAction.NOTIFY)
    if reply.is_short or not is_wanted or CAP - reply.rest < (begins or 0) or not is_slowed:
        words = "The store refuses what this budget lets in, or doesn't tell when it acts."
        return ProofStep("acts", ProofState.FAILED, words)
    does = {
        BudgetAction.NOTIFY: "nobody is refused; people are told",
        BudgetAction.THROTTLE: f"{record.throttle_per_minute} requests a minute have a place",
        BudgetAction.CHEAPER: "requests go to the cheaper model",
    }[record.action]
    return ProofStep("acts", ProofState.OK, f"With all of the copy spent {does}.")


def _is_slowed(store: Redis, account: Account) -> bool:
    """Whether a place of the throttle can be taken as often as it says, and not once more."""
    window_ms, places = throttle_window(account.budget.throttle_per_minute)
    # a window so long that it doesn't end meanwhile
    key = account_key(account, is_throttle=True)
    counter = _Counter(store, key, amount=places, length=window_ms * 1_000_000)
    try:
        taken = counter.say(got=0, held=0, floor=places, take=places, may_return=False)
        more = counter.say(got=places, held=0, floor=1, take=1, may_return=False)
    finally:
        counter.drop()
    return more.is_short and not taken.is_short


def ask_gateways(store: Redis, record: BudgetRecord) -> ProofStep:
    """Have every gateway process that is up put its own copy to the test, and judge what it did."""
    fleet = read_fleet()
    asked = {one.process for one in fleet.gateways} if fleet is not None else set()
    found: Mapping[str, tuple[ProofVerdict, str]] = {}
    if asked:
        word = secrets.token_hex(8)
        with store.pipeline(transaction=True) as pipe:
            pipe.hset(BUDGET_PROOFS, word, record.id)
            pipe.expire(BUDGET_PROOFS, BUDGET_PROOF_LIFE_S)
            pipe.execute()
        try:
            found = _answers(store, word, asked)
        finally:
            store.hdel(BUDGET_PROOFS, word)
            store.unlink(budget_proof_key(word))
    return judge_gateways(record.action, found, len(asked), is_enabled=record.is_enabled)


def _answers(store: Redis, word: str, asked: set[str]) -> Mapping[str, tuple[ProofVerdict, str]]:
    """What processes say, as soon as all could ask the store, or of those that did in time."""
    until_s = time.monotonic() + ANSWERS_S
    while True:
        told = {
            name.decode(): _verdict(words.decode())
            for name, words in store.hgetall(budget_proof_key(word)).items()
        }
        done = {name for name, (verdict, _) in told.items() if verdict is not ProofVerdict.AWAY}
        if asked <= done or time.monotonic() >= until_s:
            return {name: one for name, one in told.items() if name in asked}
        time.sleep(_LOOKS_S)


def _verdict(told: str) -> tuple[ProofVerdict, str]:
    verdict, _, words = told.partition(" ")
    return ProofVerdict(verdict), words
