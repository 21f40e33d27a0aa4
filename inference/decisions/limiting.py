"""What limits and budgets make of one request, step by step as a gateway asks them.

Those that bear on it whatever serves it come first, all or none. If its plan has targets of several
models, those of a model are asked once a worker of it was found; targets of one that is short are
passed over. Where both are short, it is the budget that is told.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from inference.contract.kinds import BudgetAction, TooLong
from inference.contract.snapshot import BudgetRecord, ConfigSnapshot, KeyRecord
from inference.contract.values import changed
from inference.decisions.admission import (
    WINDOW_MS,
    Bearing,
    Bounds,
    Requester,
    Stake,
    bearing_limits,
    caps_output,
    index_limits,
    limits_of_model,
    stake_of,
)
from inference.decisions.budgets import (
    Account,
    accounts_of,
    acts_from,
    amount_at,
    index_budgets,
    is_of_model,
)
from inference.decisions.budgets import stake_of as budget_stake
from inference.decisions.easing import cheaper, shortened
from inference.decisions.plan import Plan
from inference.decisions.rules import zone_of

Left = Mapping[tuple[str, str], int]
"""How many units are left of limits, by id and the one they count for; of others all of them."""

P = TypeVar("P")


@dataclass(frozen=True, slots=True)
class LimitVerdict:
    """A limit the request has to keep, whom it counts for, what it wants of it, and what is left.

    `left` is the whole amount where nobody knows better.
    """

    bearing: Bearing
    stake: Stake
    left: int

    @property
    def is_short(self) -> bool:
        return self.left < self.stake.floor


@dataclass(frozen=True, slots=True)
class BudgetVerdict:
    """An account the request is counted on, what it reserves there, and what is left of it.

    A stake of None can't be let in at all. `left` is the whole amount where nobody knows better.
    """

    account: Account
    stake: Stake | None
    left: int

    @property
    def is_short(self) -> bool:
        return self.stake is None or self.left < self.stake.floor

    @property
    def is_refusing(self) -> bool:
        """Whether it refuses what it is short for, rather than have the answer shortened."""
        return self.stake is None or self.account.budget.too_long is TooLong.REFUSE


Verdict = LimitVerdict | BudgetVerdict


@dataclass(frozen=True, slots=True)
class Bearings:
    """The limits and budgets that are asked in one step."""

    limits: tuple[LimitVerdict, ...] = ()
    budgets: tuple[BudgetVerdict, ...] = ()

    def refusing(self, now_s: float) -> Verdict | None:
        """What refuses, None if nothing is short: a budget first, then the longest of limits."""
        short = [one for one in self.budgets if one.is_short]
        closed = [one for one in short if one.stake is None]
        return next(iter(closed or short), None) or refusing(self.limits, now_s)


_NOTHING = Bearings()


@dataclass(frozen=True, slots=True)
class Limiting:
    """What bears on one plan: `first` is asked beforehand, `of_models` when a model is entered.

    Budgets had it made `cheaper`, and its answers `lowered` to so many tokens each.
    """

    first: Bearings = _NOTHING
    of_models: Mapping[str, Bearings] = field(default_factory=dict)
    cost_max_nanousd: int | None = None
    cheaper: tuple[str, ...] = ()
    lowered: tuple[str, ...] = ()
    lowered_to: int | None = None

    @property
    def caps_output(self) -> bool:
        """Whether something relies on the answer's being no longer than its bound."""
        every = (self.first, *self.of_models.values())
        return any(
            any(caps_output(one.bearing.limit) for one in part.limits)
            or any(one.account.budget.action is BudgetAction.BLOCK for one in part.budgets)
            for part in every
        )

    def of_model(self, model_id: str | None) -> Bearings:
        """What is asked when this model is entered."""
        return _NOTHING if model_id is None else self.of_models.get(model_id, _NOTHING)

    def records(
        self,
        *,
        entered: str | None = None,
        passed_over: Sequence[Verdict] = (),
        refused: Verdict | None = None,
        output_tokens_sent: int | None = None,
    ) -> Mapping[str, object]:
        """What the decision record says of limits and of budgets, if any bear on the request."""
        every, own = (self.first, *self.of_models.values()), self.of_model(entered)
        told: dict[str, object] = {}
        if any(part.limits for part in every):
            kept = [one.bearing.limit.id for one in (*self.first.limits, *own.limits)]
            record = told["limits"] = dict[str, object](kept=kept)
            if passed_over:
                shut = [one for one in passed_over if isinstance(one, LimitVerdict)]
                record["passed_over"] = [one.bearing.limit.id for one in shut]
            if output_tokens_sent is not None:
                record["output_tokens_sent"] = output_tokens_sent
            if isinstance(refused, LimitVerdict):
                record["refused"] = refused.bearing.limit.id
        if any(part.budgets for part in every):
            kept = [one.account.budget.id for one in (*self.first.budgets, *own.budgets)]
            record = told["budgets"] = dict[str, object](kept=kept)
            if self.cost_max_nanousd is not None:
                record["reserved_nanousd"] = self.cost_max_nanousd
            if passed_over:
                over = [one for one in passed_over if isinstance(one, BudgetVerdict)]
                record["passed_over"] = [one.account.budget.id for one in over]
            if isinstance(refused, BudgetVerdict):
                record["refused"] = refused.account.budget.id
            record |= self._eased()
        return told

    @property
    def is_eased(self) -> bool:
        """Whether budgets made the plan another."""
        return bool(self.cheaper or self.lowered)

    def _eased(self) -> dict[str, object]:
        told: dict[str, object] = {}
        if self.cheaper:
            told["cheaper"] = list(self.cheaper)
        if self.lowered:
            told |= {"lowered": list(self.lowered), "lowered_to": self.lowered_to}
        return told


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a request got past the limits of models.

    `plan` is what is left of its plan, `closed` what models were passed over for, by model in that
    order.
    """

    plan: Plan
    closed: Mapping[str, Verdict]


def limiting_of(
    snapshot: ConfigSnapshot,
    identity: KeyRecord,
    plan: Plan,
    left: Left,
    *,
    budgets_left: Mapping[str, int] = MappingProxyType({}),
) -> Limiting:
    """What bears on a request with this plan, before any step of degradation.

    `budgets_left` is what is left of accounts, by their keys.
    """
    index, owner = index_limits(snapshot.limits), identity.organisation_id
    models = list(dict.fromkeys(one.pool.model_id for one in plan.targets))
    bounds = Bounds(plan.prompt_tokens_max, plan.output_tokens_max, plan.cost_max_nanousd)
    budgets = index_budgets(snapshot.budgets).get(owner, ())
    zone = zone_of(snapshot.organisations[owner].time_zone)
    requester = Requester(
        owner,
        identity.team_id,
        identity.project_id,
        identity.id,
        end_user=plan.facts.end_user,
        model_id=models[0] if len(models) == 1 else None,
        route_id=plan.route.id,
    )

    def asked(limits: Sequence[Bearing], who: Requester, own: Sequence[BudgetRecord]) -> Bearings:
        accounts = accounts_of(own, who, plan.standing.tags, zone=zone, at_s=plan.at)
        over = tuple(_budget_verdict(one, bounds, budgets_left, plan.at) for one in accounts)
        return Bearings(_verdicts(limits, bounds, left), over)

    further: dict[str, Bearings] = {}
    of_models = [one for one in budgets if is_of_model(one)]
    for model_id in models if len(models) > 1 else ():
        who = changed(requester, model_id=model_id)
        found = asked(limits_of_model(index, owner, model_id), who, of_models)
        if found != _NOTHING:
            further[model_id] = found
    known = budgets if len(models) == 1 else [one for one in budgets if not is_of_model(one)]
    first = asked(bearing_limits(index, requester), requester, known)
    return Limiting(first, further, plan.cost_max_nanousd)


def eased(
    plan: Plan, limiting: Limiting, asked: Callable[[Plan], Limiting]
) -> tuple[Plan, Limiting]:
    """The plan that budgets leave which take the cheaper or shorten, and what bears on that one.

    `asked` is what bears on a plan.
    """
    ids: list[str] = []
    every = (limiting.first, *limiting.of_models.values())
    for verdict in (one for part in every for one in part.budgets):
        budget, begins = verdict.account.budget, acts_from(verdict.account.budget, plan.at)
        is_over = begins is not None and amount_at(budget, plan.at) - verdict.left >= begins
        if is_over and budget.action is BudgetAction.CHEAPER:
            left = cheaper(plan, budget.cheaper_model_id)
            if left is not plan:
                ids.append(budget.id)
                plan = left
    if ids:
        limiting = replace(asked(plan), cheaper=tuple(dict.fromkeys(ids)))
    short = [one for one in limiting.first.budgets if one.is_short]
    if not short or any(one.is_refusing for one in short):
        return plan, limiting
    shorter = shortened(plan, min(one.left for one in short))
    if shorter is None:
        return plan, limiting
    lowered = tuple(dict.fromkeys(one.account.budget.id for one in short))
    most = shorter.output_tokens_max // shorter.facts.answers
    found = asked(shorter)
    return shorter, replace(found, cheaper=limiting.cheaper, lowered=lowered, lowered_to=most)


def _budget_verdict(
    account: Account, bounds: Bounds, left: Mapping[str, int], at_s: float
) -> BudgetVerdict:
    stake = budget_stake(account.budget, bounds.cost_nanousd)
    whole = amount_at(account.budget, at_s)
    return BudgetVerdict(account, stake, left.get(account.key, whole) if left else whole)


def _verdicts(bearings: Sequence[Bearing], bounds: Bounds, left: Left) -> tuple[LimitVerdict, ...]:
    return tuple(
        LimitVerdict(one, stake_of(one.limit, bounds), left.get(_place(one), one.limit.amount))
        for one in bearings
    )


def _place(bearing: Bearing) -> tuple[str, str]:
    return bearing.limit.id, bearing.subject


def refusing(verdicts: Sequence[LimitVerdict], now_s: float) -> LimitVerdict | None:
    """The limit that refuses, None if none is short; of several the one that lasts longest."""
    short = [one for one in verdicts if one.is_short]
    return max(short, key=lambda one: _lasts_ms(one, now_s), default=None)


def _lasts_ms(verdict: LimitVerdict, now_s: float) -> float:
    """Until its window ends; what has none may be free at any time."""
    window_ms = WINDOW_MS[verdict.bearing.limit.window]
    return window_ms - now_s * 1000 % window_ms if window_ms else -1.0


def enter(
    plan: Plan, limiting: Limiting, *, now_s: float, choose: Callable[[Plan], tuple[P, str | None]]
) -> tuple[P, Entry]:
    """Choose among the targets, and again without models whose limits are short.

    `choose` gives whatever it likes and the model it came to, None if there is nobody.
    """
    closed: dict[str, Verdict] = {}
    while True:
        left = plan
        if closed:
            targets = tuple(one for one in plan.targets if one.pool.model_id not in closed)
            left = replace(plan, targets=targets)
        found, model_id = choose(left)
        short = limiting.of_model(model_id).refusing(now_s)
        if model_id is None or short is None:
            return found, Entry(left, closed)
        closed[model_id] = short


def bound_to_send(plan: Plan) -> int | None:
    """The maximum of each answer that an engine is told if strict limits rely on one.

    It is the route's, or what a model's context has room for, which engines insist on; None if the
    caller named one, or nothing is generated.
    """
    facts = plan.facts
    if facts.output_tokens_requested is not None or not facts.answers:
        return None
    most = plan.output_tokens_max // facts.answers
    contexts = [one.max_context_tokens for one in plan.targets if one.max_context_tokens]
    if contexts:
        rooms = (min(contexts) - used for used in (plan.prompt_tokens_max, facts.prompt_tokens))
        most = min(most, next((room for room in rooms if room > 0), most))
    return max(most, 1)
