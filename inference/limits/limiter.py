"""The limits and budgets that bear on a request, found by who asks for what.

The counter of a limit is the same whatever its amount, so an edit of the amount forgets nothing.
"""

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from prometheus_client import CollectorRegistry

from inference.contract.snapshot import (
    BudgetRecord,
    ConfigSnapshot,
    KeyRecord,
    LimitRecord,
    OrganisationRecord,
)
from inference.contract.values import changed
from inference.decisions.admission import (
    Bearing,
    Bounds,
    LimitIndex,
    Requester,
    bearing_limits,
    index_limits,
    is_by_name,
    limits_of_model,
)
from inference.decisions.budgets import (
    ROLLING,
    Account,
    BudgetIndex,
    index_budgets,
    is_of_model,
)
from inference.decisions.plan import Plan
from inference.limits.admissions import Admission
from inference.limits.counted import Counted, Known, counter_of
from inference.limits.leases import Leases
from inference.limits.names import MOST_END_USERS, Names, lasts_s
from inference.limits.purses import from_s, purses_of, until_s
from inference.limits.slices import Counter
from inference.observability.limit_metrics import LimitMetrics, LimitState

# Callers come in all sorts; those of this moment are found without looking through the limits.
_MOST_KNOWN = 4_000
_MOST_COUNTERS = 4 * _MOST_KNOWN

_NONE = Bounds()


class Limiter:
    """The limits and budgets of the configuration that runs, over the leases of this process."""

    def __init__(
        self,
        leases: Leases,
        metrics: LimitMetrics,
        *,
        stopwatch: Callable[[], float],
        clock: Callable[[], float] = time.time,
        most_end_users: int = MOST_END_USERS,
    ) -> None:
        self.leases = leases
        self.metrics = metrics
        self.stopwatch = stopwatch
        self.clock = clock
        self._limits: Mapping[str, LimitRecord] = {}
        self.budgets: Mapping[str, BudgetRecord] = {}
        self._organisations: Mapping[str, OrganisationRecord] = {}
        self._index: LimitIndex = {}
        self._budget_index: BudgetIndex = {}
        self._counters: dict[str, Counter] = {}
        self._known: dict[tuple[str | None, ...], Known] = {}
        self._names = Names(stopwatch=stopwatch, most=most_end_users)
        metrics.watch(self._state)

    def apply_snapshot(self, snapshot: ConfigSnapshot) -> None:
        """Take the limits and budgets of a configuration; a listener of the holder."""
        has_limits = snapshot.limits is self._limits
        has_budgets = (
            snapshot.budgets is self.budgets and snapshot.organisations is self._organisations
        )
        if has_limits and has_budgets:
            return
        self._limits, self.budgets = snapshot.limits, snapshot.budgets
        self._organisations = snapshot.organisations
        self._index = index_limits(snapshot.limits)
        self._budget_index = index_budgets(snapshot.budgets)
        self._forget()

    def admission(
        self,
        request_id: str,
        identity: KeyRecord,
        *,
        end_user: str | None,
        plan: Plan | None,
        at_s: float,
    ) -> Admission | None:
        """What a request that came at this time has to pass; None if nothing bears on it.

        Of one that came to no plan only requests are counted. What is of a model bears on it from
        here on if its targets have but one, else from when one is entered.
        """
        organisation_id = identity.organisation_id
        if organisation_id not in self._index and organisation_id not in self._budget_index:
            return None
        model_id = route_id = None
        tags: tuple[str, ...] = ()
        models: Sequence[str] = ()
        if plan is not None:
            route_id, tags = plan.route.id, plan.standing.tags
            models = [*dict.fromkeys([one.pool.model_id for one in plan.targets])]
            if len(models) == 1:
                model_id = plan.targets[0].pool.model_id
        team_id, project_id = identity.team_id, identity.project_id
        caller = (organisation_id, team_id, project_id, identity.id, end_user, model_id, route_id)
        known = self._known_of(caller, tags, at_s)
        for limit in known.shared:
            self.metrics.shared(limit.unit)
        if plan is None:
            return Admission(self, request_id, known.unread, _NONE) if known.unread else None
        further: Mapping[str, Known] = {}
        if len(models) > 1:
            found = ((one, self._known_of_model(caller, tags, at_s, one)) for one in models)
            further = {one: known for one, known in found if not known.is_nothing}
        if known.is_nothing and not further:
            return None
        bounds = Bounds(plan.prompt_tokens_max, plan.output_tokens_max, plan.cost_max_nanousd)
        return Admission(self, request_id, known, bounds, further)

    def _state(self) -> LimitState:
        leases = self.leases
        late = leases.late
        return LimitState(
            counters=len(leases),
            parallel=leases.held,
            is_away=not leases.is_usable,
            end_users=len(self._names),
            late=(late.counters, late.units, late.past),
        )

    def _known_of(
        self, caller: tuple[str | None, ...], tags: tuple[str, ...], at_s: float
    ) -> Known:
        place = (*caller, *tags) if tags and caller[0] in self._budget_index else caller
        known = self._known.get(place)
        if known is None or not known.from_s <= at_s < known.until_s:
            requester = Requester(*caller)  # type: ignore[arg-type]
            bearings = bearing_limits(self._index, requester)
            budgets = [one for one in self._budgets_of(requester) if _is_known(one, requester)]
            known = self._counted(bearings, budgets, requester, tags, at_s)
            self._keep(place, known)
        return known

    def _known_of_model(
        self, caller: tuple[str | None, ...], tags: tuple[str, ...], at_s: float, model_id: str
    ) -> Known:
        """What is of this model alone, for a request that may go to one of several."""
        place = (*caller, *tags, "model", model_id)
        known = self._known.get(place)
        if known is None or not known.from_s <= at_s < known.until_s:
            requester = changed(Requester(*caller), model_id=model_id)  # type: ignore[arg-type]
            bearings = limits_of_model(self._index, requester.organisation_id, model_id)
            budgets = [one for one in self._budgets_of(requester) if is_of_model(one)]
            known = self._counted(bearings, budgets, requester, tags, at_s)
            self._keep(place, known)
        return known

    def _budgets_of(self, requester: Requester) -> Sequence[BudgetRecord]:
        return self._budget_index.get(requester.organisation_id, ())

    def _keep(self, place: tuple[str | None, ...], known: Known) -> None:
        # callers that share a counter aren't known, but have others of their own
        if not (known.shared or any(one.is_shared for one in known.purses)):
            self._known[place] = known

    def _counted(
        self,
        bearings: Iterable[Bearing],
        budgets: Sequence[BudgetRecord],
        requester: Requester,
        tags: tuple[str, ...],
        at_s: float,
    ) -> Known:
        if len(self._known) >= _MOST_KNOWN or len(self._counters) >= _MOST_COUNTERS:
            self._forget()
        found: list[Counted] = []
        for bearing in bearings:
            limit = bearing.limit
            is_shared = is_by_name(limit) and not self._names.is_apart(
                limit.id,
                requester.key_id,
                bearing.subject,
                lasts_s=lasts_s(limit),
            )
            counter = counter_of(bearing, shared_by=requester.key_id if is_shared else "")
            counter = self._counters.setdefault(counter.key, counter)
            found.append(Counted(limit, counter, is_shared))
        if not budgets:
            return Known(found)

        def is_apart(account: Account) -> bool:
            name, ends_s = "\0".join(account.subjects), float(account.period.ends_s)
            if account.budget.is_rolling:
                ends_s = at_s + ROLLING[account.budget.period].length_s
            return self._names.is_apart(
                account.budget.id,
                requester.key_id,
                name,
                lasts_s=max(ends_s - at_s, 1.0),
            )

        zone = self._organisations[requester.organisation_id].time_zone
        purses = purses_of(budgets, requester, tags, time_zone=zone, at_s=at_s, is_apart=is_apart)
        return Known(found, purses, from_s=from_s(purses), until_s=until_s(purses, at_s))

    def _forget(self) -> None:
        self._known, self._counters = {}, {}


def _is_known(budget: BudgetRecord, requester: Requester) -> bool:
    """Whether it can be told by now if a budget bears on a request."""
    return requester.model_id is not None or not is_of_model(budget)


def make_limiter(
    registry: CollectorRegistry,
    *,
    stopwatch: Callable[[], float] = time.perf_counter,
    clock: Callable[[], float] = time.time,
    most_end_users: int = MOST_END_USERS,
) -> Limiter:
    """The limits of one life of a process, which the store knows by a name of its own."""
    leases = Leases(secrets.token_hex(8), stopwatch=stopwatch)
    return Limiter(
        leases,
        LimitMetrics(registry),
        stopwatch=stopwatch,
        clock=clock,
        most_end_users=most_end_users,
    )
