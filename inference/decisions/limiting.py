"""What limits make of one request, step by step as a gateway asks them.

Those that bear on it whatever serves it come first, all or none. If its plan has targets of several
models, those of a model are asked once a worker of it was found; targets of one that is short are
passed over.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from inference.contract.snapshot import ConfigSnapshot, KeyRecord
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
from inference.decisions.plan import Plan

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
class Limiting:
    """The limits of one plan: `first` are asked beforehand, `of_models` when a model is entered."""

    first: tuple[LimitVerdict, ...] = ()
    of_models: Mapping[str, tuple[LimitVerdict, ...]] = field(default_factory=dict)

    @property
    def caps_output(self) -> bool:
        """Whether a strict one relies on the answer's being no longer than its bound."""
        every = (self.first, *self.of_models.values())
        return any(caps_output(one.bearing.limit) for part in every for one in part)

    def record(
        self,
        *,
        entered: str | None = None,
        passed_over: Sequence[LimitVerdict] = (),
        refused: LimitVerdict | None = None,
        output_tokens_sent: int | None = None,
    ) -> Mapping[str, object] | None:
        """What the decision record says of limits; None if no limit bears on the request."""
        if not (self.first or self.of_models):
            return None
        kept = (*self.first, *(self.of_models.get(entered, ()) if entered is not None else ()))
        record: dict[str, object] = {"kept": [one.bearing.limit.id for one in kept]}
        if passed_over:
            record["passed_over"] = [one.bearing.limit.id for one in passed_over]
        if output_tokens_sent is not None:
            record["output_tokens_sent"] = output_tokens_sent
        if refused is not None:
            record["refused"] = refused.bearing.limit.id
        return record


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a request got past the limits of models.

    `plan` is what is left of its plan, `closed` the limits that models were passed over for, by
    model in that order.
    """

    plan: Plan
    closed: Mapping[str, LimitVerdict]


def limiting_of(snapshot: ConfigSnapshot, identity: KeyRecord, plan: Plan, left: Left) -> Limiting:
    """The limits that bear on a request with this plan, before any step of degradation."""
    index, owner = index_limits(snapshot.limits), identity.organisation_id
    models = list(dict.fromkeys(one.pool.model_id for one in plan.targets))
    bounds = Bounds(plan.prompt_tokens_max, plan.output_tokens_max)
    requester = Requester(
        owner,
        identity.team_id,
        identity.project_id,
        identity.id,
        end_user=plan.facts.end_user,
        model_id=models[0] if len(models) == 1 else None,
        route_id=plan.route.id,
    )
    further: dict[str, tuple[LimitVerdict, ...]] = {}
    for model_id in models if len(models) > 1 else ():
        found = _verdicts(limits_of_model(index, owner, model_id), bounds, left)
        if found:
            further[model_id] = found
    return Limiting(_verdicts(bearing_limits(index, requester), bounds, left), further)


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
    closed: dict[str, LimitVerdict] = {}
    while True:
        left = plan
        if closed:
            targets = tuple(one for one in plan.targets if one.pool.model_id not in closed)
            left = replace(plan, targets=targets)
        found, model_id = choose(left)
        short = None
        if model_id is not None:
            short = refusing(limiting.of_models.get(model_id, ()), now_s)
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
