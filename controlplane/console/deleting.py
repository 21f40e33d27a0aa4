"""Removing one object: what goes with it is shown, its name is typed, a reason is given."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse

from controlplane.console.api_calls import changing
from controlplane.console.carrying import Base
from controlplane.console.diffs import lines_of
from controlplane.console.form_pages import FormPage
from controlplane.console.pages import Crumb
from controlplane.console.reviews import Review, how_it_acts
from controlplane.errors import Conflict, Invalid, VersionMismatch
from controlplane.selectors.access import Access
from controlplane.services import drafts
from controlplane.services.actors import Actor


class DeletePage(FormPage):
    """Remove one object: its name is typed, and a reason given."""

    selector: ClassVar[Callable[[Access], QuerySet[Any]]]
    verb = "Delete"

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        """Call the service that removes it."""
        raise NotImplementedError

    def title_of(self, row: Any) -> str:
        return str(row.name)

    def place_of(self, row: Any) -> Mapping[str, str]:
        """The team and project the object stands in, for the question who may remove it."""
        return {}

    def values_of(self, row: Any) -> Mapping[str, Any]:
        """What goes, a field each, for the difference."""
        return {"name": self.title_of(row)}

    def call_of(self, row: Any) -> tuple[str, str]:
        """Method and path of the same call by REST."""
        return "DELETE", self.noun.api_path(row.pk)

    def own_crumbs(self) -> Sequence[Crumb]:
        url = self.noun.detail_url(self.row.pk)
        return (Crumb(self.title_of(self.row), url), Crumb(self.verb))

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Show what goes with it."""
        row = self._row(pk)
        return self._review(row, Base(row.version, {}))

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Remove it, at the version that was reviewed."""
        row = self._row(pk)
        base = Base.read(request.POST)
        try:
            review = self._judged(row, base)
            problem = self.missing(review)
            if not problem:
                self.carry_out(self.actor(self.reason()), row, base.version)
                return self.saved(self.noun.list_url())
        except VersionMismatch:
            problem = "Somebody changed it meanwhile. Look at it again before you remove it."
            base = Base(row.version, {})
            review = self._judged(row, base)
        except (Invalid, Conflict) as error:
            problem = error.detail
        return self._shown(review, row, base, problem)

    def _row(self, pk: str) -> Any:
        row = self.found(type(self).selector(self.scope.access), pk)
        self.require_write(self.noun.key, **self.place_of(row))
        self.row = row
        return row

    def _judged(self, row: Any, base: Base) -> Review:
        draft = drafts.draft(lambda: self.carry_out(self.actor(), row, base.version))
        lines = lines_of(self.values_of(row), None)
        return Review(
            title=f"{self.verb} {self.noun.one} {self.title_of(row)}",
            words=how_it_acts(draft) if draft.refused is None else "This is refused as things are.",
            lines=lines,
            impact=self.impact(row, {}, draft),
            is_risky=True,
            verb=f"{self.verb} {self.noun.one}",
            confirm=self.title_of(row),
            is_dangerous=True,
            title_of_lines="What goes",
        )

    def _review(self, row: Any, base: Base) -> HttpResponse:
        return self._shown(self._judged(row, base), row, base, "")

    def _shown(self, review: Review, row: Any, base: Base, problem: str) -> HttpResponse:
        method, path = self.call_of(row)
        call = changing(
            self.request,
            method,
            path,
            version=base.version,
            reason=self.reason() or "REASON",
        )
        url = self.noun.detail_url(row.pk)
        context = {"row": row, "title": review.title, "cancel": url, "api": call}
        return self.show_review(review, None, base, context, problem)
