"""The page that imports a price list, and the file it exports."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from controlplane.console.api_calls import changing
from controlplane.console.form_pages import FormPage
from controlplane.console.forms.repricings import PriceListForm
from controlplane.console.nouns import PRICES
from controlplane.console.pages import Crumb, Page
from controlplane.console.price_facts import LABELS, amount_words
from controlplane.decisions.price_lists import LineState, Planned, write_csv
from controlplane.errors import Conflict, Invalid
from controlplane.selectors.price_lists import list_book
from controlplane.services.price_lists import PriceList, import_price_list, preview_price_list

STATES: Mapping[LineState, tuple[str, str, str]] = {
    LineState.NEW: ("new", "plus", "ok"),
    LineState.CHANGED: ("changed", "edit", "info"),
    LineState.SAME: ("same", "ok", "idle"),
    LineState.REJECTED: ("rejected", "crit", "crit"),
}
APPLY = "apply"
DIGEST = "digest"
SHOWN = 500


class PriceExport(Page):
    """What is in force and planned, as a CSV file that the import takes."""

    def get(self, request: HttpRequest) -> HttpResponse:
        """Send the file."""
        text = write_csv(list_book(self.scope.access, self.scope.organisation))
        response = HttpResponse(text, content_type="text/csv; charset=utf-8")
        response["Content-Disposition"] = 'attachment; filename="prices.csv"'
        response["X-Content-Type-Options"] = "nosniff"
        return response


class PriceImport(FormPage):
    """A file, what it would change, and then doing that."""

    template_name = "console/prices/import.html"
    noun = PRICES
    form_class = PriceListForm

    def own_crumbs(self) -> Sequence[Crumb]:
        return (Crumb("Import"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Ask for the file."""
        self.require_write(PRICES.key)
        return self._shown(PriceListForm(scope=self.scope), None)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Show what a file would change, or change it as it was shown."""
        self.require_write(PRICES.key)
        form = PriceListForm(request.POST, files=request.FILES, scope=self.scope)
        if not form.is_valid():
            return self._shown(form, None)
        content, is_confirmed = form.cleaned_data["content"], form.cleaned_data["is_confirmed"]
        try:
            if request.POST.get("step") == APPLY and self.reason():
                import_price_list(
                    self.actor(self.reason()),
                    organisation=self.scope.organisation,
                    content=content,
                    digest=request.POST.get(DIGEST, ""),
                    is_confirmed=is_confirmed,
                )
                return self.saved(PRICES.list_url())
            planned = preview_price_list(
                self.scope.organisation, content, is_confirmed=is_confirmed
            )
        except (Invalid, Conflict) as error:
            form.refuse(error)
            return self._shown(form, None)
        problem = "Give a reason. It is kept in the audit log."
        return self._shown(form, planned, problem if request.POST.get("step") == APPLY else "")

    def _shown(
        self, form: PriceListForm, planned: PriceList | None, problem: str = ""
    ) -> HttpResponse:
        context: dict[str, Any] = {
            "form": form,
            "title": "Import a price list",
            "cancel": PRICES.list_url(),
            "problem": problem,
            "api": changing(
                self.request, "POST", reverse("api-price-preview"), {"content": "FILE"}
            ),
        }
        if planned is not None:
            counts = planned.counts
            context |= {
                "planned": planned,
                "content": form.cleaned_data["content"],
                "counts": [(STATES[LineState(name)], many) for name, many in counts.items()],
                "todo": counts["new"] + counts["changed"],
                "lines": [_line(one) for one in planned.lines[:SHOWN]],
                "left_out": max(len(planned.lines) - SHOWN, 0),
                "is_confirmed": form.cleaned_data["is_confirmed"],
            }
        return self.render(context)


def _line(one: Planned) -> Mapping[str, Any]:
    return {
        "line": one.line,
        "state": STATES[one.state],
        "words": one.problem
        or ", ".join(
            f"{LABELS[name]} {amount_words(name, one.before[name])} \N{RIGHTWARDS ARROW} "
            f"{amount_words(name, amount)}"
            for name, amount in one.after.items()
        ),
    }
