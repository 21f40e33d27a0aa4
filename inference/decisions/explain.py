"""Which target a request would get and why: the functions of the live path, asked step by step."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeVar

from inference.contract.kinds import BreakerState, DegradationStep, Endpoint, WorkerState
from inference.contract.snapshot import ConfigSnapshot, KeyRecord, RouteRecord, TargetRecord
from inference.decisions.arms import targets_in_question
from inference.decisions.breaker import lets_through
from inference.decisions.degradation.base import Serving
from inference.decisions.degradation.registry import degraded
from inference.decisions.endpoints import Offers
from inference.decisions.facts import RequestFacts, Standing, standing_of
from inference.decisions.fleet_view import FleetView, WorkerView
from inference.decisions.limiting import (
    BudgetVerdict,
    Entry,
    Left,
    Limiting,
    LimitVerdict,
    Verdict,
    bound_to_send,
    eased,
    enter,
    limiting_of,
)
from inference.decisions.mismatches import RuleVerdict, rule_verdicts
from inference.decisions.placing import Placing, place_first
from inference.decisions.plan import LeftOut, Plan, Refusal, find_route, plan_request
from inference.decisions.record import Step, decision_record
from inference.decisions.routing.base import Choice, Score
from inference.decisions.routing.waits import score_of
from inference.decisions.rules import Circumstances

DRAWS = 512
"""So many chances, spread evenly, stand for all there are: shares are right to a 500th."""

_GOLDEN = 0.6180339887498949
"""Multiples of it fall evenly into [0, 1), whatever they are paired with."""


class Standby(StrEnum):
    """Why a worker of a planned target could not be chosen."""

    NOT_READY = "not_ready"
    BREAKER_OPEN = "breaker_open"
    FULL = "full"
    SET_ASIDE = "set_aside"
    NOT_ITS_TURN = "not_its_turn"


@dataclass(frozen=True, slots=True)
class WorkerVerdict:
    """One worker of a planned target: its wait term by term, and how often it would be chosen.

    `standby` None could have been chosen; `hit` is the share of the prompt it has cached.
    """

    worker: WorkerView
    standby: Standby | None
    score: Score
    hit: float
    share: float
    is_chosen: bool


@dataclass(frozen=True, slots=True)
class TargetVerdict:
    """One target of those that serve the request, in the route's or rule's order.

    `place` is its place in the plan from 0, None if it has none; then `left_out` says why, unless
    its weight is 0. `share` is how often a request like this goes there. `bridge` is the endpoint
    in whose words it is asked there, if its pool doesn't have the request's own. One that
    `stands_in` is the control's, in case the variant's fail.
    """

    target: TargetRecord
    place: int | None
    left_out: LeftOut | None
    share: float
    cost_max_nanousd: int | None = None
    max_context_tokens: int | None = None
    workers: tuple[WorkerVerdict, ...] = ()
    bridge: Endpoint | None = None
    stands_in: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that decides about one request, and what that comes to.

    `choice` is for the chances that were given, None if nobody can be sent to, or not yet: then it
    `waits` for a worker that is full. One that `is_shed` is not served while its route is busy;
    `degraded` are the steps that change how it is. `unserved` is the share of chances for which
    there is no worker. `limits` and `budgets` are those it has to keep, wherever it is sent; one
    that is `refused_by` any goes nowhere, and models that were short of any are `passed_over`.
    `record` is the decision record of that very request, None if it is refused a plan.
    """

    decided: Plan | Refusal
    route: RouteRecord | None
    standing: Standing
    rules: tuple[RuleVerdict, ...] = ()
    targets: tuple[TargetVerdict, ...] = ()
    limits: tuple[LimitVerdict, ...] = ()
    budgets: tuple[BudgetVerdict, ...] = ()
    choice: Choice[WorkerView] | None = None
    waits: bool = False
    is_shed: bool = False
    degraded: tuple[DegradationStep, ...] = ()
    unserved: float = 0.0
    refused_by: Verdict | None = None
    passed_over: tuple[Verdict, ...] = ()
    record: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One request and the world it comes into.

    `now` is seconds since the epoch, `plan_u` and `worker_u` the chances of plan and choice, `hits`
    the shares of its prompt that workers have cached, `steps` how many steps of degradation are
    taken, by route, `left` how much is left of limits, `budgets_left` of accounts by their keys.
    """

    snapshot: ConfigSnapshot
    identity: KeyRecord
    facts: RequestFacts
    fleet: FleetView
    now: float
    offers: Offers
    plan_u: float = 0.0
    worker_u: float = 0.0
    hits: Mapping[str, float] = field(default_factory=dict)
    steps: Mapping[str, int] = field(default_factory=dict)
    left: Left = field(default_factory=dict)
    budgets_left: Mapping[str, int] = field(default_factory=dict)

    def plan(self, u: float) -> Plan | Refusal:
        """The plan with this chance."""
        return plan_request(
            self.snapshot,
            self.identity,
            request=self.facts,
            now=self.now,
            u=u,
            offers=self.offers,
        )

    def ease(self, plan: Plan) -> tuple[Plan, Limiting]:
        """The plan as budgets leave it, and what bears on it."""

        def asked(plan: Plan) -> Limiting:
            left = self.budgets_left
            return limiting_of(self.snapshot, self.identity, plan, self.left, budgets_left=left)

        return eased(plan, asked(plan), asked)

    def serve(self, plan: Plan) -> Serving:
        """The plan as the steps in force at its route leave it."""
        taken = self.steps.get(plan.route.id, 0)
        return degraded(plan, plan.route.degradation[:taken])

    def place(self, plan: Plan, u: float) -> Placing[WorkerView]:
        """Who is chosen with this chance."""
        capacities = self.fleet.capacities(plan)
        return place_first(plan, capacities, hits=self.hits, now_s=self.fleet.now_s, u=u)

    def enter(self, plan: Plan, limiting: Limiting, u: float) -> tuple[Placing[WorkerView], Entry]:
        """The same past models whose limits are short."""

        def choose(left: Plan) -> tuple[Placing[WorkerView], str | None]:
            placing = self.place(left, u)
            choice = placing.choice
            model_id = None if choice is None else left.targets[choice.room.position].pool.model_id
            return placing, model_id

        return enter(plan, limiting, now_s=self.now, choose=choose)


V = TypeVar("V", LimitVerdict, BudgetVerdict)


@dataclass(slots=True)
class _Tally:
    """How often each target and worker is chosen over so many chances."""

    draws: int
    targets: dict[str, int] = field(default_factory=dict)
    workers: dict[tuple[str, str], int] = field(default_factory=dict)
    unserved: int = 0


def explain(case: Case, *, draws: int = DRAWS) -> Explanation:
    """Explain one request; shares are over so many chances."""
    decided = case.plan(case.plan_u)
    route = find_route(case.snapshot, case.identity, case.facts.model)
    standing = standing_of(case.facts, case.identity, route)
    rules: tuple[RuleVerdict, ...] = ()
    if route is not None:
        rules = rule_verdicts(route, _circumstances(case, standing))
    if isinstance(decided, Refusal):
        return Explanation(decided, decided.route or route, standing, rules)
    decided, limiting = case.ease(decided)
    first = limiting.first
    found = Explanation(
        decided, decided.route, standing, rules, limits=first.limits, budgets=first.budgets
    )
    refused = first.refusing(case.now)
    if refused is not None:
        record = {**decision_record(decided, ()), **limiting.records(refused=refused)}
        return replace(found, refused_by=refused, record=record)
    serving = case.serve(decided)
    if serving.is_shed:
        record = {**decision_record(decided, ()), **limiting.records()}
        steps = serving.changed_by
        return replace(found, is_shed=True, degraded=steps, record=_degraded(record, steps))
    return _placed(case, found, serving, limiting, draws)


def _placed(
    case: Case, found: Explanation, serving: Serving, limiting: Limiting, draws: int
) -> Explanation:
    """What becomes of a request that is let in."""
    plan = serving.plan
    placing, entry = case.enter(plan, limiting, case.worker_u)
    choice, closed = placing.choice, tuple(entry.closed.values())
    refused = closed[0] if choice is None and closed and not placing.waits else None
    planned = None if choice is None else entry.plan.targets[choice.room.position]
    entered = None if planned is None else planned.pool.model_id
    record = {
        **record_of(plan, choice, case.fleet, left=entry.plan),
        **limiting.records(
            entered=entered,
            passed_over=closed,
            refused=refused,
            output_tokens_sent=bound_to_send(plan) if limiting.caps_output else None,
        ),
    }
    tally = _tally(case, limiting, draws)
    # of a request that isn't sent anywhere yet, those of the model it would be sent to first
    further = limiting.of_model(entered or plan.targets[0].pool.model_id)
    return replace(
        found,
        targets=_targets(case, plan, placing, tally),
        limits=_once((*limiting.first.limits, *closed, *further.limits), LimitVerdict),
        budgets=_once((*limiting.first.budgets, *closed, *further.budgets), BudgetVerdict),
        choice=choice,
        waits=placing.waits,
        degraded=serving.changed_by,
        unserved=tally.unserved / draws,
        refused_by=refused,
        passed_over=closed,
        record=_degraded(record, serving.changed_by),
    )


def _once(verdicts: Iterable[Verdict], kind: type[V]) -> tuple[V, ...]:
    """Those of a kind, each once."""
    found: list[V] = []
    for one in verdicts:
        if isinstance(one, kind) and one not in found:
            found.append(one)
    return tuple(found)


def _degraded(
    record: Mapping[str, object], steps: Sequence[DegradationStep]
) -> Mapping[str, object]:
    return {**record, "degraded": [step.value for step in steps]} if steps else record


def record_of(
    plan: Plan,
    choice: Choice[WorkerView] | None,
    fleet: FleetView,
    *,
    left: Plan | None = None,
) -> Mapping[str, object]:
    """The decision record of a request whose first attempt is this one, or that has none.

    The choice was made among what is `left` of the plan, all of it if that is None.
    """
    if choice is None:
        return decision_record(plan, ())
    worker, chosen_of = choice.worker, plan if left is None else left
    step = Step(
        chosen_of.targets[choice.room.position],
        worker.id,
        worker.inflight,
        choice,
        is_trial=worker.breaker.state is not BreakerState.CLOSED
        and lets_through(worker.breaker, fleet.now_s),
        set_aside=fleet.set_aside(chosen_of),
    )
    return decision_record(plan, (step,))


def _circumstances(case: Case, standing: Standing) -> Circumstances:
    owner = case.snapshot.organisations.get(case.identity.organisation_id)
    zone = "UTC" if owner is None else owner.time_zone
    return Circumstances(case.facts, standing, case.identity, case.now, zone)


def _tally(case: Case, limiting: Limiting, draws: int) -> _Tally:
    tally = _Tally(draws)
    for draw in range(draws):
        plan = case.plan((draw + 0.5) / draws)
        choice = None
        if isinstance(plan, Plan):
            plan = case.ease(plan)[0] if limiting.is_eased else plan
            u = (draw + 0.5) * _GOLDEN % 1
            choice = case.enter(case.serve(plan).plan, limiting, u)[0].choice
        if choice is None:
            tally.unserved += 1
            continue
        target, worker = choice.room.target.id, choice.worker.id
        tally.targets[target] = tally.targets.get(target, 0) + 1
        tally.workers[target, worker] = tally.workers.get((target, worker), 0) + 1
    return tally


def _targets(
    case: Case,
    plan: Plan,
    placing: Placing[WorkerView],
    tally: _Tally,
) -> tuple[TargetVerdict, ...]:
    chosen = next((one.targets for one in plan.route.rules if one.id == plan.rule_id), None)
    usual = plan.route.targets if chosen is None else chosen
    left_out = {one.target_id: one for one in plan.left_out}
    places = {planned.target.id: place for place, planned in enumerate(plan.targets)}
    candidates = {
        room.target.id: {one.id for one in room.workers if not one.is_full}
        for room in placing.rooms
    }
    verdicts = []
    for target in targets_in_question(usual, plan.assignments):
        place = places.get(target.id)
        planned = None if place is None else plan.targets[place]
        workers = _workers(case, target, candidates.get(target.id, set()), placing.choice, tally)
        verdicts.append(
            TargetVerdict(
                target,
                place,
                left_out.get(target.id),
                tally.targets.get(target.id, 0) / tally.draws,
                None if planned is None else planned.cost_max_nanousd,
                None if planned is None else planned.max_context_tokens,
                () if planned is None else workers,
                None if planned is None else planned.bridge,
                stands_in=planned is not None and planned.stands_in,
            )
        )
    return tuple(verdicts)


def _workers(
    case: Case,
    target: TargetRecord,
    candidates: set[str],
    choice: Choice[WorkerView] | None,
    tally: _Tally,
) -> tuple[WorkerVerdict, ...]:
    is_target = choice is not None and choice.room.target.id == target.id
    return tuple(
        WorkerVerdict(
            worker,
            None if worker.id in candidates else _standby(case, worker),
            score_of(worker),
            case.hits.get(worker.id, 0.0),
            tally.workers.get((target.id, worker.id), 0) / tally.draws,
            is_chosen=is_target and choice is not None and choice.worker.id == worker.id,
        )
        for worker in case.fleet.of_pool(target.pool_id)
    )


def _standby(case: Case, worker: WorkerView) -> Standby:
    if worker.state is not WorkerState.READY:
        return Standby.NOT_READY
    if not lets_through(worker.breaker, case.fleet.now_s):
        return Standby.BREAKER_OPEN
    if worker.is_full:
        return Standby.FULL
    if case.fleet.is_aside(worker):
        return Standby.SET_ASIDE
    return Standby.NOT_ITS_TURN
