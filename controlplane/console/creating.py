"""Making one object: from its form, with a review before it where that is due."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse

from controlplane.console.api_calls import changing
from controlplane.console.carrying import STEP, Base, opened
from controlplane.console.form_pages import NO_REASON, REVIEW, SAVE, FormPage
from controlplane.console.forms.base import NounForm
from controlplane.console.pages import Crumb
from controlplane.console.reviews import Review, how_it_acts
from controlplane.errors import Conflict, Invalid
from controlplane.services import drafts
from controlplane.services.actors import Actor


class CreatePage(FormPage):
    """Make one object: saved straight from the form, unless it `is_reviewed`."""

    is_reviewed: ClassVar[bool] = False
    verb = "Create"

    def carry_out(self, actor: Actor, values: dict[str, Any]) -> Any:
        """Call the service that makes it, and return the row."""
        raise NotImplementedError

    def initial(self) -> dict[str, Any]:
        """What the form begins with, besides its fields' own defaults."""
        names = self.form_class.base_fields
        return {name: value for name, value in self.request.GET.items() if name in names}

    def place(self) -> Mapping[str, str]:
        """The team or project the object is to stand in."""
        return {}

    def own_crumbs(self) -> Sequence[Crumb]:
        return (Crumb(f"New {self.noun.one}"),)

    def made(self, row: Any) -> HttpResponse:
        """Where to go once it's made."""
        return self.saved(self.noun.detail_url(row.pk))

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form with its defaults."""
        self.require_write(self.noun.key, **self.place())
        form = self.form_class(initial=self.initial(), scope=self.scope)
        return self._form(form)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Check, review if need be, and save."""
        self.require_write(self.noun.key, **self.place())
        Base.read(request.POST)
        data = opened(request.POST, self.form_class.secrets)
        form = self.form_class(data, scope=self.scope)
        step = request.POST.get(STEP, SAVE)
        if not form.is_valid() or step not in (REVIEW, SAVE):
            return self._form(form)
        values = form.values()
        try:
            if self.is_reviewed and (step == REVIEW or not self.reason()):
                problem = "" if step == REVIEW else NO_REASON
                return self._review(form, values, problem)
            return self.made(self.carry_out(self.actor(self.reason()), values))
        except (Invalid, Conflict) as error:
            form.refuse(error)
            return self._form(form)

    def _form(self, form: NounForm) -> HttpResponse:
        return self.show_form(form, Base(None, {}), self._context(form))

    def _context(self, form: NounForm) -> dict[str, Any]:
        return {
            "title": f"New {self.noun.one}",
            "cancel": self.noun.list_url(),
            "is_new": True,
            "next_step": REVIEW if self.is_reviewed else SAVE,
            "verb": self.verb,
        }

    def _review(self, form: NounForm, values: dict[str, Any], problem: str) -> HttpResponse:
        draft = drafts.draft(lambda: self.carry_out(self.actor(), dict(values)))
        if draft.refused is not None:
            raise draft.refused
        review = Review(
            title=f"Review the new {self.noun.one}",
            words=how_it_acts(draft),
            lines=form.lines(None, {name: one for name, one in values.items() if one is not None}),
            impact=self.impact(None, values, draft),
            is_risky=True,
            verb=self.verb,
            title_of_lines="What is made",
        )
        call = changing(self.request, "POST", self.noun.api_path(), form.document(values))
        context = {**self._context(form), "api": call}
        return self.show_review(review, form, Base(None, {}), context, problem)
