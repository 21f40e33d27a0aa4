"""The pages of putting right what was booked: repricings, and corrections by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from django.urls import reverse

from controlplane.console.acting import ActPage
from controlplane.console.creating import CreatePage
from controlplane.console.details import DetailPage, Fact, State, Tab
from controlplane.console.diffs import Line
from controlplane.console.formats import UNKNOWN, count, minute, signed_dollars
from controlplane.console.forms.base import NounForm
from controlplane.console.forms.repricings import CorrectionForm, RepricingForm
from controlplane.console.lists import Empty, ListPage
from controlplane.console.nouns import CORRECTIONS, REPRICINGS
from controlplane.console.pages import Action
from controlplane.console.repricing_facts import AT_WORK, STATES, groups_of, side_line
from controlplane.console.tables.repricings import CorrectionTable, RepricingTable
from controlplane.errors import Conflict, NotAllowed
from controlplane.models import Repricing, RepricingState, SpendCorrection
from controlplane.selectors.correction_filters import CorrectionFilters, RepricingFilters
from controlplane.selectors.names import list_names
from controlplane.selectors.repricings import list_corrections, list_repricings
from controlplane.services.actors import Actor
from controlplane.services.corrections import create_correction
from controlplane.services.drafts import Draft
from controlplane.services.repricings import (
    book_repricing,
    discard_repricing,
    request_repricing,
)


class _WholeList(ListPage):
    """A list that is for roles of the whole organisation."""

    def rows(self) -> QuerySet[Any]:
        if not self.scope.access.reads_organisation(self.scope.organisation.pk):
            raise NotAllowed("What was corrected is told to roles of the whole organisation.")
        return super().rows()


class RepricingList(_WholeList):
    noun = REPRICINGS
    selector = staticmethod(list_repricings)
    filters = RepricingFilters
    table = RepricingTable
    order = "-created_at"
    intro = "What was booked, at the price book as it is"
    api_orders: ClassVar[Mapping[str, str]] = {}
    empty = Empty(
        "Nothing was priced anew yet",
        "A change of price changes nothing that is booked. Ask here what requests of a time would "
        "cost at the price book as it is, by team and model, before anything is corrected.",
    )


class RepricingCreate(CreatePage):
    noun = REPRICINGS
    form_class = RepricingForm
    verb = "Sum before and after"

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Repricing:
        names = ("team", "project", "model", "pool")
        return request_repricing(
            replace(actor, reason=values["reason"]),
            organisation=self.scope.organisation,
            since=values["since"],
            until=values["until"],
            scope={f"{name}_id": values[name].pk for name in names if values[name]},
        )


class RepricingDetail(DetailPage):
    template_name = "console/repricings/detail.html"
    noun = REPRICINGS
    selector = staticmethod(list_repricings)
    is_edited = False
    is_deleted = False
    is_name_mono = False

    def title_of(self, row: Repricing) -> str:
        return f"Repricing of {minute(row.since, self.scope.zone)}"

    def state_of(self, row: Repricing) -> State:
        return STATES[row.state]

    def tabs_of(self, row: Repricing) -> Sequence[Tab]:
        return self.tabs

    def actions_of(self, row: Repricing) -> Sequence[Action]:
        if not self.may_write(REPRICINGS.key):
            return ()
        found = []
        if row.state in (RepricingState.QUEUED, RepricingState.SUMMING, RepricingState.READY):
            found.append(Action("Discard", reverse("repricing-discard", args=[row.pk])))
        if row.state == RepricingState.READY and _has_changes(row):
            found.append(
                Action("Book corrections", reverse("repricing-book", args=[row.pk]), "primary")
            )
        return found

    def facts_of(self, row: Repricing) -> Sequence[Fact]:
        zone = self.scope.zone
        names = list_names(self.scope.access, set(row.scope.values()))
        scope = ", ".join(names.get(one, one) for one in row.scope.values())
        return (
            Fact("Came", f"{minute(row.since, zone)} to {minute(row.until, zone)}"),
            Fact("Of", scope or "everything"),
            Fact("Price book", f"as of {minute(row.created_at, zone)}"),
            Fact("Reason", row.reason),
            Fact("Asked by", row.created_by),
            Fact("Booked by", row.booked_by or UNKNOWN),
            Fact("Corrections", count(row.corrections)),
            Fact(
                "Corrected", signed_dollars(row.corrected_nanousd) if row.corrections else UNKNOWN
            ),
            Fact("Id", row.pk, is_mono=True),
        )

    def extra(self, row: Repricing, tab: str) -> Mapping[str, Any]:
        sums = row.sums or {}
        ids = {*sums.get("by_team", {}), *sums.get("by_model", {})}
        return {
            "is_at_work": row.state in AT_WORK,
            "can_book": self.may_write(REPRICINGS.key),
            "progress": 100 * row.done // row.total if row.total else 0,
            "groups": groups_of(row, list_names(self.scope.access, ids)),
            "total": side_line("All", sums["total"]) if sums else None,
            "corrections_url": f"{CORRECTIONS.list_url()}?repricing_id={row.pk}",
        }


def _corrected(row: Repricing) -> str:
    return signed_dollars(row.corrected_nanousd) if row.corrections else UNKNOWN


def _has_changes(row: Repricing) -> bool:
    return bool(row.sums.get("total", {}).get("changed"))


class RepricingAct(ActPage):
    """Book what was summed, or discard it."""

    noun = REPRICINGS
    selector = staticmethod(list_repricings)
    form_class = NounForm
    verbs: ClassVar[Mapping[str, str]] = {"book": "Book corrections", "discard": "Discard"}
    titles: ClassVar[Mapping[str, str]] = {"book": "Book", "discard": "Discard"}
    is_for_tokens = False

    def title_of(self, row: Repricing) -> str:
        return f"of {minute(row.since, self.scope.zone)}"

    def is_act_risky(self, row: Any, changes: Mapping[str, Any]) -> bool:
        return self.act == "book"

    def values_of(self, row: Repricing) -> Mapping[str, Any]:
        if self.act == "book":
            if row.state != RepricingState.READY:
                raise Conflict("It isn't ready to be booked.")
            return {"state": RepricingState.BOOKING.value}
        return {"state": RepricingState.DISCARDED.value}

    def lines_of_act(self, row: Repricing, changes: Mapping[str, Any]) -> Sequence[Line]:
        if self.act != "book" or not row.sums:
            return (Line("State", STATES[row.state].words, "Discarded"),)
        total = side_line("All", row.sums["total"])
        return (
            Line("Cost of these requests", total.before, total.after),
            Line("Corrections", None, f"{total.attempts} attempts, {total.change}"),
            Line("Attempts of unknown cost", *total.unknown.split(" \N{RIGHTWARDS ARROW} ")),
        )

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> str:
        if self.act == "discard":
            return "Nothing was booked of it."
        return (
            "The ledger's rows stay as they are: a correction is added for each attempt. Usage, "
            "spend and budgets follow, the budgets of gateways within a minute."
        )

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        act = book_repricing if self.act == "book" else discard_repricing
        return act(actor, repricing_id=row.pk, expected_version=expected_version)


class CorrectionList(_WholeList):
    noun = CORRECTIONS
    selector = staticmethod(list_corrections)
    filters = CorrectionFilters
    table = CorrectionTable
    order = "-booked_at"
    intro = "Beside the ledger, whose rows are never changed"
    api_place = ""
    api_orders: ClassVar[Mapping[str, str]] = {}
    empty = Empty(
        "Nothing was corrected yet",
        "A correction adds to what was booked, or takes from it: where a price was wrong, or what "
        "was spent is to be forgiven. Usage and budgets follow.",
    )


class CorrectionCreate(CreatePage):
    noun = CORRECTIONS
    form_class = CorrectionForm

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> SpendCorrection:
        told = dict(values)
        reason = told.pop("reason")
        actor = replace(actor, reason=reason)
        return create_correction(actor, organisation=self.scope.organisation, **told)

    def made(self, row: Any) -> HttpResponse:
        return self.saved(CORRECTIONS.list_url())
