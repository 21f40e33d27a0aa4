"""The pages of budgets."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from controlplane.alerting.budget_proof import prove_budget
from controlplane.bridge.budget_status import read_standings, read_status
from controlplane.console.api_calls import changing, reading
from controlplane.console.budget_facts import (
    PROOF_STATES,
    account_line,
    effects_words,
    figures_of,
    late_words,
    past_lines,
    past_words,
    state_of,
    subjects_words,
    what_counts,
)
from controlplane.console.budget_figure import burn_down
from controlplane.console.budget_impact import impact_of_budget
from controlplane.console.carrying import Base
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import ACTIVITY, DetailPage, Fact, State
from controlplane.console.editing import EditPage
from controlplane.console.formats import dollars, minute
from controlplane.console.forms.base import NounForm
from controlplane.console.forms.budgets import BudgetForm, RaiseForm
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import BUDGETS
from controlplane.console.pages import Action, Crumb, Page
from controlplane.console.reviews import Check, Impact, Reach, checks_of
from controlplane.console.tables.budgets import BudgetTable
from controlplane.decisions.budget_proofs import ProofStep
from controlplane.decisions.budgets import (
    action_words,
    budget_words,
    period_words,
    scopes_words,
    state_with,
)
from controlplane.errors import Conflict
from controlplane.models import Budget
from controlplane.selectors.budget_filters import BudgetFilters
from controlplane.selectors.budgets import list_budgets, list_corrections, list_scope_names
from controlplane.selectors.names import list_names
from controlplane.services.actors import Actor
from controlplane.services.budgets import (
    create_budget,
    delete_budget,
    raise_budget,
    update_budget,
)
from controlplane.services.drafts import Draft
from inference.contract.kinds import BudgetAction

_TOP = 20
_CORRECTIONS = 10
_LINKED = {"team": "team", "project": "project", "key": "key", "model": "model", "route": "route"}
_WHY = {
    "seeded": "told of what the ledger had",
    "missed": "spending added that they had missed",
    "twice": "taken back what was counted twice",
}


def _budgets(access: Any) -> QuerySet[Budget]:
    return list_budgets(access).select_related("organisation")


class BudgetList(ListPage):
    noun = BUDGETS
    selector = staticmethod(_budgets)
    filters = BudgetFilters
    table = BudgetTable
    hidden_filters = ListPage.hidden_filters | {"name"}
    intro = "What may be spent in a period; of those that count several apart, whoever spent most"
    empty = Empty(
        "No budget yet",
        "A budget bounds what may be spent in an hour, day, week, month or quarter: by the "
        "organisation, one team, project, key, end user, tag, model or route, several of these "
        "together, or each of them apart. It refuses what doesn't fit, or only tells.",
    )

    def extra(self, table: NounTable) -> dict[str, Any]:
        assert isinstance(table, BudgetTable)
        shown = [row.record for row in table.paginated_rows]
        table.names = list_scope_names(self.scope.access, shown)
        table.standings = read_standings(self.scope.access, shown, timezone.now())
        return {}


class BudgetDetail(DetailPage):
    noun = BUDGETS
    selector = staticmethod(_budgets)
    template_name = "console/budgets/detail.html"
    is_name_mono = False

    def get_row(self, pk: str) -> Any:
        row = super().get_row(pk)
        self.now = timezone.now()
        self.status = read_status(self.scope.access, row, self.now, top=_TOP)
        self.names = list_scope_names(self.scope.access, (row,))
        return row

    def state_of(self, row: Budget) -> State:
        first = next(iter(self.status.accounts), None)
        if first is None:
            return state_of(row, None)
        ago_s = self.status.refused_s_ago
        return state_of(row, first.balance, state_with(first.balance, refused_s_ago=ago_s))

    def actions_of(self, row: Budget) -> Sequence[Action]:
        found = list(super().actions_of(row))
        if found:
            found.insert(1, Action("Raise until", reverse("budget-raise", args=[row.pk])))
            found.insert(1, Action("Test", reverse("budget-test", args=[row.pk]), icon="ok"))
        return found

    def api_call(self, row: Any, tab: str) -> str:
        if tab == ACTIVITY:
            return super().api_call(row, tab)
        path = reverse("api-budget-status", args=[row.pk])
        return reading(self.request, self.scope, path, place="")

    def figures_of(self, row: Budget) -> Sequence[Fact]:
        return figures_of(self.status, self.scope.zone, self.now)

    def facts_of(self, row: Budget) -> Sequence[Fact]:
        raised = ()
        if row.raised_until is not None and row.raised_until > self.now:
            words = dollars(row.raised_to_nanousd or 0)
            raised = (Fact("Raised to", words, unit=f"until {self._minute(row.raised_until)}"),)
        status = self.status
        past = past_words(status.previous, status.previous_period, row.action, self.scope.zone)
        effects = effects_words(status.effects, self.scope.zone)
        return (
            Fact("Allows", f"{dollars(row.amount_nanousd)} {self._period_words(row)}"),
            *raised,
            Fact("For", scopes_words(row.scopes, self.names)),
            Fact("Counts", what_counts(row, self.names)),
            Fact("Then", action_words(status.record, self._cheaper_name(row))),
            *((Fact("Owner", row.owner),) if row.owner else ()),
            Fact("Thresholds", ", ".join(f"{one} %" for one in row.thresholds_percent) or "none"),
            *((Fact("Did", effects),) if effects else ()),
            *((Fact("Would have", past),) if status.previous is not None else ()),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )

    def extra(self, row: Budget, tab: str) -> Mapping[str, Any]:
        status = self.status
        first = next(iter(status.accounts), None)
        chart = None
        if first is not None and (first.buckets or not status.is_each):
            chart = burn_down(status, first, self.scope.zone, self.now)
        lines = [account_line(row, one, self._url(one)) for one in status.accounts]
        return {
            "status": status,
            "chart": chart,
            "figure": "" if chart is None else json.dumps(chart.figure, separators=(",", ":")),
            "first_words": "" if first is None else subjects_words(first.subjects),
            "lines": lines if status.is_each else (),
            "late": late_words(status.accounts),
            "past": past_lines(status.past, row, self.scope.zone),
            "past_verb": "Blocked" if row.action == BudgetAction.BLOCK else "Passed",
            "corrections": [
                (one, _WHY.get(one.why, one.why))
                for one in list_corrections(row, most=_CORRECTIONS)
            ]
            if status.totals is not None
            else (),
        }

    def _period_words(self, row: Budget) -> str:
        return period_words(row.period, is_rolling=row.is_rolling)

    def _cheaper_name(self, row: Budget) -> str | None:
        model = row.cheaper_model
        return list_names(self.scope.access, {model}).get(model) if model else None

    def _url(self, account: Any) -> str:
        for one in account.subjects:
            if one.subject in _LINKED and one.name is not None:
                return reverse(_LINKED[one.subject], args=[one.id])
        return ""

    def _minute(self, at: Any) -> str:
        return minute(at, self.scope.zone)


class BudgetCreate(CreatePage):
    noun = BUDGETS
    form_class = BudgetForm
    template_name = "console/limits/form.html"
    is_reviewed = True

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Budget:
        return create_budget(actor, organisation=self.scope.organisation, **values)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return impact_of_budget(self.scope, changes, draft, changed=changes)


class BudgetEdit(EditPage):
    noun = BUDGETS
    selector = staticmethod(_budgets)
    form_class = BudgetForm
    template_name = "console/limits/form.html"

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_budget(
            actor, budget_id=row.pk, changes=changes, expected_version=expected_version
        )

    def restored_from(self, before: Mapping[str, Any]) -> dict[str, Any]:
        found = super().restored_from(before)
        return {**found, "scopes": before["scopes"]} if "scopes" in before else found

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        values = {**BudgetForm.initial_of(row), **changes}
        return impact_of_budget(self.scope, values, draft, changed=changes)


class BudgetRaise(EditPage):
    """More for a time; the amount of the budget itself stays."""

    noun = BUDGETS
    selector = staticmethod(_budgets)
    form_class = RaiseForm
    verb = "Raise"

    def own_crumbs(self) -> Sequence[Crumb]:
        first, *_ = super().own_crumbs()
        return (first, Crumb("Raise until"))

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        values = {**RaiseForm.initial_of(row), **changes}
        return raise_budget(actor, budget_id=row.pk, expected_version=expected_version, **values)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        values = {**RaiseForm.initial_of(row), **changes}
        own = budget_words(
            row.amount_nanousd,
            row.period,
            scopes_words(row.scopes, list_scope_names(self.scope.access, (row,))),
            is_rolling=row.is_rolling,
        )
        reach = [Reach("The budget", own)]
        if values["raised_to_nanousd"] is None:
            told = Check("info", "The raise ends now. What was spent stays counted.")
        else:
            until = minute(values["raised_until"], self.scope.zone)
            reach.append(Reach("Until then", dollars(values["raised_to_nanousd"])))
            told = Check("warn", f"At {until} the budget's own amount holds again, by itself.")
        return Impact(reach=reach, checks=(told, *checks_of(draft, BUDGETS.key)))

    def _context(self, row: Any) -> dict[str, Any]:
        title = f"Raise {self.noun.one} {self.title_of(row)}"
        return {**super()._context(row), "title": title}

    def _review_context(
        self, row: Any, form: NounForm, base: Base, changes: dict[str, Any]
    ) -> dict[str, Any]:
        call = changing(
            self.request,
            "POST",
            reverse("api-budget-raise", args=[row.pk]),
            form.document(changes),
            version=base.version,
            reason=self.reason() or "REASON",
        )
        return {**self._context(row), "api": call}


class BudgetTest(Page):
    """Puts a budget to the test, and shows each step."""

    template_name = "console/budgets/test.html"

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Say what the test does."""
        return self._shown(self._row(pk), None)

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Run it and show what came of it."""
        row = self._row(pk)
        try:
            steps = prove_budget(self.actor(), row, timezone.now())
        except Conflict as error:
            return self._shown(row, None, error.detail)
        return self._shown(row, steps)

    def _row(self, pk: str) -> Budget:
        row = self.found(_budgets(self.scope.access), pk)
        self.require_write(BUDGETS.key)
        self.row = row
        return row

    def crumbs(self) -> Sequence[Crumb]:
        own = Crumb(self.row.name, BUDGETS.detail_url(self.row.pk))
        first = (Crumb(BUDGETS.group), Crumb(BUDGETS.title, BUDGETS.list_url()))
        return (*first, own, Crumb("Test"))

    def _shown(
        self, row: Budget, steps: Sequence[ProofStep] | None, problem: str = ""
    ) -> HttpResponse:
        call = changing(self.request, "POST", reverse("api-budget-test", args=[row.pk]), {})
        told = None if steps is None else [(one, *PROOF_STATES[one.state]) for one in steps]
        context = {"row": row, "steps": told, "api": call, "problem": problem}
        return self.render(context, status=409 if problem else 200)


class BudgetDelete(DeletePage):
    noun = BUDGETS
    selector = staticmethod(_budgets)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_budget(actor, budget_id=row.pk, expected_version=expected_version)

    def values_of(self, row: Budget) -> Mapping[str, Any]:
        return {"name": row.name, "allows": self._words(row)}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        told = Check("warn", "Then nothing holds spending to it. The ledger keeps what was spent.")
        return Impact(checks=(told, *checks_of(draft, BUDGETS.key)))

    def _words(self, row: Budget) -> str:
        names = list_scope_names(self.scope.access, (row,))
        about = scopes_words(row.scopes, names)
        return budget_words(row.amount_nanousd, row.period, about, is_rolling=row.is_rolling)
