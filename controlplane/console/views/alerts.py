"""The pages of alerts themselves: what holds, what is over, and what people do about it."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from controlplane.console.acting import ActPage
from controlplane.console.details import ACTIVITY, DetailPage, Fact, State, Tab
from controlplane.console.diffs import Line
from controlplane.console.formats import clock
from controlplane.console.forms.base import NounForm
from controlplane.console.lists import Empty, ListPage, NounTable
from controlplane.console.nouns import ALERT_RULES, ALERTS, BUDGETS, DELIVERIES
from controlplane.console.pages import Action, Crumb, Page
from controlplane.console.tables.alerts import (
    AlertTable,
    HistoryTable,
    place_of,
    silence_url,
    state_of_alert,
    words_of_state,
)
from controlplane.decisions.alert_kinds import (
    AlertKind,
    EpisodeState,
    condition_words,
    value_words,
)
from controlplane.errors import Conflict, NotAllowed
from controlplane.models import Episode
from controlplane.selectors.alert_filters import AlertFilters
from controlplane.selectors.alerts import in_organisation, list_episodes
from controlplane.selectors.budget_places import budget_of_place
from controlplane.selectors.budgets import list_budgets
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.episodes import update_episode

TABS = (
    ("Active", "alerts"),
    ("History", "alerts-history"),
    ("Rules", "alert_rules"),
    ("Service levels", "service_levels"),
    ("Silences", "silences"),
    ("Channels", "channels"),
    ("Deliveries", "deliveries"),
)


HIDDEN = ListPage.hidden_filters | {"home"}


def require_whole(page: Page) -> None:
    """Raise NotAllowed unless the reader holds a role in the whole organisation."""
    if not page.scope.access.reads_organisation(page.scope.organisation.pk):
        where = page.scope.organisation.name
        raise NotAllowed(
            f"Alerts are for roles of the whole organisation, and yours in {where} are for teams "
            f"or projects. An administrator of {where} can give you one."
        )


class TabPage(ListPage):
    """One tab of the alerts: rows of the organisation, and of the installation for who sees it."""

    template_name = "console/alerts/list.html"
    api_place = "home"
    hidden_filters = HIDDEN
    tab: ClassVar[str]

    def rows(self) -> QuerySet[Any]:
        return in_organisation(type(self).selector(self.scope.access), self.scope.organisation)

    def crumbs(self) -> Sequence[Crumb]:
        label = dict((name, label) for label, name in TABS)[self.tab]
        return (Crumb(ALERTS.title, ALERTS.list_url()), Crumb(label))

    def get(self, request: HttpRequest) -> HttpResponse:
        require_whole(self)
        return super().get(request)

    def extra(self, table: NounTable) -> dict[str, Any]:
        tabs = [(label, reverse(name), name == self.tab) for label, name in TABS]
        return {"alert_tabs": tabs}


class AlertList(TabPage):
    noun = ALERTS
    tab = "alerts"
    selector = staticmethod(list_episodes)
    filters = AlertFilters
    table = AlertTable
    order = "-opened_at"
    api_orders: ClassVar[Mapping[str, str]] = {}
    is_created_here = False
    hidden_filters = HIDDEN | {"is_over", "rule", "subject_id"}
    intro = "What holds now; messages about it go to the channels of its rule"
    empty = Empty(
        "Nothing holds",
        "An alert shows here from its firing until its value is clearly lower again. Rules say "
        "what is watched.",
    )

    def rows(self) -> QuerySet[Any]:
        return super().rows().exclude(state=EpisodeState.RESOLVED.value)

    def make_table(self, rows: QuerySet[Any], now: datetime) -> NounTable:
        asked = self.request.GET.get("sort", self.order)
        return self.table(
            rows,
            scope=self.scope,
            now=now,
            order_by=asked,
            may_write=self.may_write(ALERTS.key),
        )

    def api_call(self, asked: Any, values: Mapping[str, Any]) -> str:
        told = asked.copy()
        told["is_over"] = self.is_over
        return super().api_call(told, values)

    is_over: ClassVar[str] = "false"


class AlertHistory(AlertList):
    tab = "alerts-history"
    table = HistoryTable
    is_over = "true"
    hidden_filters = AlertList.hidden_filters | {"state"}
    intro = "What is over; kept for 90 days"
    empty = Empty("Nothing is over yet", "Alerts that ended show here.")

    def rows(self) -> QuerySet[Any]:
        return TabPage.rows(self).filter(state=EpisodeState.RESOLVED.value)

    def make_table(self, rows: QuerySet[Any], now: datetime) -> NounTable:
        return TabPage.make_table(self, rows, now)


class AlertDetail(DetailPage):
    noun = ALERTS
    selector = staticmethod(list_episodes)
    is_name_mono = False
    is_edited = False
    is_deleted = False
    tabs = (Tab("overview", "Overview"), Tab(ACTIVITY, "Activity"))

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb(ALERTS.title, ALERTS.list_url()), Crumb(self.title))

    def title_of(self, row: Episode) -> str:
        return f"{row.name}: {place_of(row)}"

    def state_of(self, row: Any) -> State:
        return state_of_alert(row)

    def actions_of(self, row: Episode) -> Sequence[Action]:
        if row.state == EpisodeState.RESOLVED or not self.may_write(ALERTS.key):
            return ()
        acts = [("resolve", "End", ""), ("snooze-8h", "Snooze 8 h", "clock")]
        acts.append(("snooze-1h", "Snooze 1 h", "clock"))
        found = [
            Action(words, reverse(f"alert-{act}", args=[row.pk]), icon=name)
            for act, words, name in acts
        ]
        found.append(Action("Silence", silence_url(row), icon="pause"))
        if row.state != EpisodeState.ACKNOWLEDGED:
            url = reverse("alert-acknowledge", args=[row.pk])
            found.append(Action("Acknowledge", url, "primary", "ok"))
        return found

    def facts_of(self, row: Episode) -> Sequence[Fact]:
        zone = self.scope.zone
        rule = "" if row.rule_id is None else ALERT_RULES.detail_url(row.rule_id)
        told = "not yet" if row.told_at is None else clock(row.told_at, zone)
        found = [
            Fact("Rule", row.name, url=rule),
            Fact("Condition", condition_words(row.kind, row.threshold, row.window_s, 0)),
            Fact("Where", place_of(row), url=self._budget_url(row)),
            Fact("Value", value_words(row.kind, row.value), unit=clock(row.seen_at, zone)),
            Fact("At its worst", value_words(row.kind, row.peak)),
            Fact("Severity", row.severity.capitalize()),
            Fact("Fired", clock(row.opened_at, zone)),
            Fact("Told", told, url=f"{DELIVERIES.list_url()}?episode={row.pk}"),
        ]
        if row.detail:
            found.insert(4, Fact("Compared", row.detail))
        if row.runbook:
            found.insert(4, Fact("Runbook", row.runbook, url=row.runbook))
        if row.worsened_at is not None:
            found.append(Fact("Became critical", clock(row.worsened_at, zone)))
        if row.escalated:
            found.append(Fact("Nobody took it up", f"{row.escalated} further channels were told"))
        if row.is_flapping:
            found.append(Fact("Flaps", "fired three times within an hour"))
        if row.acknowledged_at is not None:
            at = clock(row.acknowledged_at, zone)
            found.append(Fact("Acknowledged", f"{at} by {row.acknowledged_by}"))
        if row.snoozed_until is not None:
            found.append(Fact("Snoozed until", clock(row.snoozed_until, zone)))
        if row.resolved_at is not None:
            found.append(Fact("Ended", f"{clock(row.resolved_at, zone)}. {row.resolved_why}"))
        return (*found, Fact("Id", row.pk, is_mono=True))

    def _budget_url(self, row: Episode) -> str:
        """The page of the budget that an alert is about, if it is about one that is there."""
        if row.kind != AlertKind.BUDGET_USED:
            return ""
        budget_id = budget_of_place(row.subject_id)
        is_there = list_budgets(self.scope.access).filter(pk=budget_id).exists()
        return BUDGETS.detail_url(budget_id) if is_there else ""


_SNOOZES = {"snooze-1h": timedelta(hours=1), "snooze-8h": timedelta(hours=8)}
_WORDS = {
    "acknowledge": "Others see that somebody looks at it. It stays until it is over.",
    "resolve": "It fires anew if its rule finds it so again for its whole time.",
}


class AlertAct(ActPage):
    """Acknowledge, snooze for a fixed time, or end by hand."""

    noun = ALERTS
    selector = staticmethod(list_episodes)
    form_class = NounForm
    verbs: ClassVar[Mapping[str, str]] = {
        "acknowledge": "Acknowledge",
        "snooze-1h": "Snooze for 1 h",
        "snooze-8h": "Snooze for 8 h",
        "resolve": "End",
    }
    titles: ClassVar[Mapping[str, str]] = {
        "snooze-1h": "Snooze for 1 h:",
        "snooze-8h": "Snooze for 8 h:",
    }

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb(ALERTS.title, ALERTS.list_url()), *self.own_crumbs())

    def title_of(self, row: Episode) -> str:
        return f"{row.name}: {place_of(row)}"

    def values_of(self, row: Episode) -> Mapping[str, Any]:
        if row.state == EpisodeState.RESOLVED:
            raise Conflict("The alert is over.")
        if self.act in _SNOOZES:
            until = (timezone.now() + _SNOOZES[self.act]).replace(microsecond=0)
            return {"state": EpisodeState.SNOOZED.value, "snoozed_until": until.isoformat()}
        if self.act == "resolve":
            return {"state": EpisodeState.RESOLVED.value}
        return {"state": EpisodeState.ACKNOWLEDGED.value}

    def is_act_risky(self, row: Episode, changes: Mapping[str, Any]) -> bool:
        return self.act == "resolve"

    def lines_of_act(self, row: Any, changes: Mapping[str, Any]) -> Sequence[Line]:
        state = changes.get("state")
        if state is None:
            return ()
        until = changes.get("snoozed_until")
        words = words_of_state(state)
        if until is not None:
            words += f" until {clock(datetime.fromisoformat(until), self.scope.zone)}"
        return (Line("State", state_of_alert(row).words, words),)

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> str:
        told = "Nobody is told meanwhile. If it still holds then, it is told again."
        return _WORDS.get(self.act, told)

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        values = dict(changes)
        if "snoozed_until" in values:
            values["snoozed_until"] = datetime.fromisoformat(values["snoozed_until"])
        return update_episode(
            actor, episode_id=row.pk, changes=values, expected_version=expected_version
        )


def act_views() -> Mapping[str, Any]:
    """The view of each act, by its name in the address."""
    return {name: AlertAct.as_view(act=name) for name in AlertAct.verbs}
