"""One fixed change of an object, such as start or stop: a review, a reason, and a save.

The change is decided when its review is shown and travels with the page, signed; so a second click,
or somebody else's edit in between, does nothing twice.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse

from controlplane.console.api_calls import changing
from controlplane.console.carrying import Base
from controlplane.console.diffs import Line, lines_of
from controlplane.console.editing import EditPage
from controlplane.console.pages import Crumb
from controlplane.console.reviews import Review
from controlplane.errors import Conflict, Invalid, VersionMismatch
from controlplane.services import drafts

MOVED = "Somebody changed it meanwhile. Look at it again before you go on."


class ActPage(EditPage):
    """A subclass tells, by the name of the act, its words and the values it sets."""

    act: str = ""
    verbs: ClassVar[Mapping[str, str]]
    titles: ClassVar[Mapping[str, str]] = {}
    is_for_tokens: ClassVar[bool] = True
    """Whether a token may do the same; else no call with one is offered."""

    def values_of(self, row: Any) -> Mapping[str, Any]:
        """The values the act sets on this row; raises Conflict where there is nothing to do."""
        raise NotImplementedError

    def is_act_risky(self, row: Any, changes: Mapping[str, Any]) -> bool:
        """Tell whether the act needs a reason."""
        return True

    def lines_of_act(self, row: Any, changes: Mapping[str, Any]) -> Sequence[Line]:
        """What differs, in the words of the review."""
        return lines_of({name: getattr(row, name) for name in changes}, changes)

    def back_url(self, row: Any) -> str:
        """Where the act was begun, and where it leads."""
        return self.noun.detail_url(row.pk)

    def api_path(self, row: Any) -> str:
        """Where the same is done by REST."""
        return self.noun.api_path(row.pk)

    def heading(self, row: Any) -> str:
        """The title of the review."""
        verb = self.titles.get(self.act, self.verbs[self.act])
        return f"{verb} {self.noun.one} {self.title_of(row)}"

    def own_crumbs(self) -> Sequence[Crumb]:
        first, *_ = super().own_crumbs()
        return (first, Crumb(self.verbs[self.act]))

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Show what the act does."""
        row = self.get_row(pk)
        try:
            changes = dict(self.values_of(row))
        except Conflict as error:
            return self._shown(row, {}, row.version, error.detail)
        return self._shown(row, changes, row.version, "")

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Do it, at the version that was reviewed."""
        row = self.get_row(pk)
        base = Base.read(request.POST)
        changes = base.values
        if self.is_act_risky(row, changes) and not self.reason():
            problem = "Give a reason. It is kept in the audit log."
            return self._shown(row, changes, base.version, problem)
        try:
            self.carry_out(self.actor(self.reason()), row, dict(changes), base.version)
        except VersionMismatch:
            return self._again(row)
        except (Invalid, Conflict) as error:
            return self._shown(row, changes, base.version, error.detail)
        return self.saved(self.back_url(row))

    def _again(self, row: Any) -> HttpResponse:
        """Review the act anew, on the row as it is now."""
        try:
            return self._shown(row, dict(self.values_of(row)), row.version, MOVED, status=412)
        except Conflict as error:
            return self._shown(row, {}, row.version, error.detail, status=412)

    def _shown(
        self,
        row: Any,
        changes: dict[str, Any],
        version: int | None,
        problem: str,
        *,
        status: int = 200,
    ) -> HttpResponse:
        draft = self._draft(row, changes, version)
        review = Review(
            title=self.heading(row),
            words=self.words_of(row, changes, draft),
            lines=self.lines_of_act(row, changes),
            impact=self.impact(row, changes, draft),
            is_risky=self.is_act_risky(row, changes),
            verb=self.verbs[self.act],
        )
        path, told = self.api_path(row), self.reason() or "REASON"
        call = changing(self.request, "PATCH", path, changes, version=version, reason=told)
        context = {
            "row": row,
            "title": review.title,
            "cancel": self.back_url(row),
            "api": call if self.is_for_tokens else "",
            "is_act": True,
        }
        base = Base(version, changes)
        response = self.show_review(review, None, base, context, problem)
        response.status_code = status
        return response

    def _draft(self, row: Any, changes: dict[str, Any], version: int | None) -> drafts.Draft:
        """What the act would do; a version that has moved is refused in words."""
        if not changes:
            return drafts.Draft(None, (), (), refused=Conflict("There is nothing to do."))
        try:
            return drafts.draft(lambda: self.carry_out(self.actor(), row, dict(changes), version))
        except VersionMismatch:
            return drafts.Draft(None, (), (), refused=Conflict(MOVED))
