"""The pages of alert rules and silences."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.utils import timezone

from controlplane.alerting.base import Question, terms_of
from controlplane.alerting.preview import preview
from controlplane.console.creating import CreatePage
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact, State
from controlplane.console.editing import EditPage
from controlplane.console.formats import clock
from controlplane.console.forms.alerts import EVERYWHERE, NO_DATA_WORDS, AlertRuleForm
from controlplane.console.forms.silences import SilenceEditForm, SilenceForm, days_words
from controlplane.console.lists import Empty, NounTable
from controlplane.console.nouns import ALERT_RULES, ALERTS, SILENCES
from controlplane.console.reviews import Check, Impact, checks_of
from controlplane.console.rule_preview import impact_of_rule, preview_lines
from controlplane.console.tables.alerts import (
    AlertRuleTable,
    SilenceTable,
    state_of_rule,
    value_words,
)
from controlplane.console.views.alerts import HIDDEN, TabPage
from controlplane.decisions.alert_kinds import (
    AlertScope,
    NoData,
    condition_words,
    place_words,
    seconds_words,
)
from controlplane.models import AlertRule, Silence
from controlplane.selectors.alert_filters import AlertRuleFilters, SilenceFilters
from controlplane.selectors.alerts import list_alert_rules, list_silences, list_standings
from controlplane.selectors.budget_places import has_budgets
from controlplane.selectors.names import list_names
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import (
    create_alert_rule,
    delete_alert_rule,
    update_alert_rule,
)
from controlplane.services.drafts import Draft
from controlplane.services.silences import create_silence, delete_silence, update_silence


class RuleList(TabPage):
    noun = ALERT_RULES
    tab = "alert_rules"
    selector = staticmethod(list_alert_rules)
    filters = AlertRuleFilters
    table = AlertRuleTable
    hidden_filters = HIDDEN | {"name"}
    intro = "What is watched, every 10 s, and from which value on it is an alert"
    empty = Empty(
        "Nothing is watched",
        "A rule watches error rates, first tokens, waits, breakers, pools, gateways, channels or "
        "the ledger.",
    )

    def extra(self, table: NounTable) -> dict[str, Any]:
        shown = {row.record.scope_id for row in table.paginated_rows if row.record.scope_id}
        table.names = list_names(self.scope.access, shown)  # type: ignore[attr-defined]
        return super().extra(table)


class RuleDetail(DetailPage):
    noun = ALERT_RULES
    selector = staticmethod(list_alert_rules)
    template_name = "console/alerts/rule.html"
    is_name_mono = False

    def state_of(self, row: Any) -> State:
        return state_of_rule(row)

    def facts_of(self, row: AlertRule) -> Sequence[Fact]:
        names = list_names(self.scope.access, {one for one in (row.scope_id,) if one})
        channels = ", ".join(row.channel_names)
        home = "this organisation" if row.organisation_id else "the whole installation"
        return (
            Fact("Fires at", condition_words(row.kind, row.threshold, row.window_s, row.for_s)),
            Fact("Where", place_words(row.scope, row.scope_id, names.get(row.scope_id or ""))),
            Fact("Severity", row.severity.capitalize()),
            Fact("Tells", channels or "the console alone"),
            Fact("The end", "is told too" if row.tells_resolved else "is not told"),
            *_further(row),
            Fact("Belongs to", home),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )

    def extra(self, row: AlertRule, tab: str) -> Mapping[str, Any]:
        if tab != "overview":
            return {}
        question = Question.of(row)
        names = {place.id: place.name for place in question.places()}
        standings = [
            (names.get(one.subject_id, one.subject_id), value_words(row.kind, one.value), one)
            for one in list_standings(row)
        ]
        past = preview_lines(self.scope, row.kind, preview(question, terms_of(row), timezone.now()))
        alerts = f"{ALERTS.list_url()}history/?rule={row.pk}"
        is_waiting = row.scope == AlertScope.BUDGET and has_budgets(
            row.organisation_id, row.scope_id
        )
        return {
            "standings": standings,
            "past": past,
            "history_url": alerts,
            "is_waiting": is_waiting,
        }


def _further(row: AlertRule) -> Iterator[Fact]:
    """What not every rule has."""
    if row.critical_at is not None:
        yield Fact("Critical from", value_words(row.kind, row.critical_at))
    if row.on_no_data != NoData.KEEP:
        yield Fact("Where nothing is known", NO_DATA_WORDS[row.on_no_data])
    if row.clears_at is not None:
        yield Fact("Over below", value_words(row.kind, row.clears_at))
    if row.reminds_every_s:
        yield Fact("Tells again", f"every {seconds_words(row.reminds_every_s)}")
    if row.escalation:
        after = seconds_words(row.escalates_after_s)
        yield Fact(
            "If nobody takes it up", ", then ".join(row.escalation), unit=f"each after {after}"
        )
    if row.runbook:
        yield Fact("Runbook", row.runbook, url=row.runbook)


class RuleCreate(CreatePage):
    noun = ALERT_RULES
    form_class = AlertRuleForm
    is_reviewed = True

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> AlertRule:
        home = None if values.pop(EVERYWHERE, False) else self.scope.organisation
        return create_alert_rule(actor, organisation=home, **values)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        home = None if changes.get(EVERYWHERE) else self.scope.organisation
        return impact_of_rule(self.scope, changes, draft, home=home)


class RuleEdit(EditPage):
    noun = ALERT_RULES
    selector = staticmethod(list_alert_rules)
    form_class = AlertRuleForm

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_alert_rule(
            actor, rule_id=row.pk, changes=changes, expected_version=expected_version
        )

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        values = {**AlertRuleForm.initial_of(row), **changes}
        return impact_of_rule(self.scope, values, draft, home=row.organisation)


class RuleDelete(DeletePage):
    noun = ALERT_RULES
    selector = staticmethod(list_alert_rules)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_alert_rule(actor, rule_id=row.pk, expected_version=expected_version)

    def values_of(self, row: AlertRule) -> Mapping[str, Any]:
        words = condition_words(row.kind, row.threshold, row.window_s, row.for_s)
        return {"name": row.name, "fires at": words}

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        told = Check("warn", "Nobody is told of it any more; alerts of it that hold end.")
        return Impact(checks=(told, *checks_of(draft, ALERT_RULES.key)))


class SilenceList(TabPage):
    noun = SILENCES
    tab = "silences"
    selector = staticmethod(list_silences)
    filters = SilenceFilters
    table = SilenceTable
    order = "ends_at"
    intro = "Nothing is sent about these until they end; pages show it all the same"
    empty = Empty(
        "Nothing is silenced",
        "A silence keeps a rule, a place or everything quiet, and always ends. What still holds "
        "then is told.",
    )

    def extra(self, table: NounTable) -> dict[str, Any]:
        shown = {row.record.subject_id for row in table.paginated_rows if row.record.subject_id}
        table.names = list_names(self.scope.access, shown)  # type: ignore[attr-defined]
        return super().extra(table)


def recurs_words(row: Silence) -> str:
    """`Saturday, Sunday, 22:00 to 06:00`; "" for one that holds all the time."""
    if not row.weekdays:
        return ""
    return f"{days_words(row.weekdays)}, {row.from_time:%H:%M} to {row.until_time:%H:%M}"


def _silenced(row: Silence) -> str:
    return "every rule" if row.rule is None else row.rule.name


class SilenceDetail(DetailPage):
    noun = SILENCES
    selector = staticmethod(list_silences)
    is_name_mono = False

    def title_of(self, row: Silence) -> str:
        return f"Silence of {_silenced(row)}"

    def facts_of(self, row: Silence) -> Sequence[Fact]:
        asked = {row.subject_id} if row.subject_id else set()
        names = list_names(self.scope.access, asked)
        url = "" if row.rule_id is None else ALERT_RULES.detail_url(row.rule_id)
        where = names.get(row.subject_id, row.subject_id) if row.subject_id else "everywhere"
        return (
            Fact("Rule", _silenced(row), url=url),
            Fact("Where", where),
            Fact("Why", row.reason),
            Fact("By", row.created_by),
            Fact("Since", clock(row.created_at, self.scope.zone)),
            Fact("Ends", clock(row.ends_at, self.scope.zone)),
            *(Fact("Recurs", told) for told in filter(None, (recurs_words(row),))),
            Fact("Id", row.pk, is_mono=True),
        )


class SilenceCreate(CreatePage):
    noun = SILENCES
    form_class = SilenceForm
    verb = "Silence"

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Silence:
        home = None if values.pop(EVERYWHERE, False) else self.scope.organisation
        return create_silence(actor, organisation=home, **values)


class SilenceEdit(EditPage):
    noun = SILENCES
    selector = staticmethod(list_silences)
    form_class = SilenceEditForm

    def title_of(self, row: Silence) -> str:
        return f"of {_silenced(row)}"

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_silence(
            actor, silence_id=row.pk, changes=changes, expected_version=expected_version
        )


class SilenceDelete(DeletePage):
    noun = SILENCES
    selector = staticmethod(list_silences)
    verb = "End"

    def title_of(self, row: Silence) -> str:
        return f"of {_silenced(row)}"

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return delete_silence(actor, silence_id=row.pk, expected_version=expected_version)

    def values_of(self, row: Silence) -> Mapping[str, Any]:
        return {"rule": _silenced(row), "why": row.reason}
