"""What making, changing and removing an object have in common: its form page and its review.

Nothing is kept between the steps but what the page carries itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import HttpResponse, HttpResponseRedirect

from controlplane.console.carrying import CONFIRM, REASON, Base, carried
from controlplane.console.forms.base import NounForm
from controlplane.console.nouns import Noun
from controlplane.console.pages import Crumb, Page
from controlplane.console.propagation import APPLIED
from controlplane.console.reviews import Impact, Review, checks_of, how_it_acts
from controlplane.middleware import request_id_of
from controlplane.selectors.revisions import get_revision_of_request
from controlplane.services import drafts
from controlplane.services.audit import REASON_LENGTH

REVIEW, SAVE, AGAIN = "review", "save", "edit"
NO_REASON = "Give a reason. It is kept in the audit log."


class FormPage(Page):
    """What making and changing have in common."""

    template_name = "console/form.html"
    review_template: ClassVar[str] = "console/review.html"
    noun: ClassVar[Noun]
    form_class: ClassVar[type[NounForm]]
    verb: ClassVar[str] = "Save"

    def impact(self, row: Any, changes: Mapping[str, Any], draft: drafts.Draft) -> Impact:
        """What the change does, for the right side of its review."""
        return Impact(checks=checks_of(draft, self.noun.key))

    def words_of(self, row: Any, changes: Mapping[str, Any], draft: drafts.Draft) -> str:
        """How the change reaches those who run on it, in a sentence."""
        return how_it_acts(draft)

    def is_risky(self, row: Any, form: NounForm, changes: Mapping[str, Any]) -> bool:
        """Tell whether the change needs a reason."""
        return form.is_risky(changes)

    def crumbs(self) -> Sequence[Crumb]:
        first = (Crumb(self.noun.group), Crumb(self.noun.title, self.noun.list_url()))
        return (*first, *self.own_crumbs())

    def own_crumbs(self) -> Sequence[Crumb]:
        return ()

    def saved(self, url: str) -> HttpResponse:
        """Go to a page that says on how many gateways the version of this save is in force."""
        revision = get_revision_of_request(self.scope.access, request_id_of(self.request))
        version = 0 if revision is None else revision.version
        mark = "&" if "?" in url else "?"
        return HttpResponseRedirect(f"{url}{mark}{APPLIED}={version}")

    def reason(self) -> str:
        return str(self.request.POST.get(REASON, "")).strip()[:REASON_LENGTH]

    def show_form(self, form: NounForm, base: Base, context: dict[str, Any]) -> HttpResponse:
        """The form, with the server's messages at its fields."""
        shared = {"noun": self.noun, "form": form, "base": base.signed(), "next_step": REVIEW}
        return self.render({**shared, **context})

    def show_review(
        self,
        review: Review,
        form: NounForm | None,
        base: Base | None,
        context: dict[str, Any],
        problem: str = "",
    ) -> HttpResponse:
        """The review; `problem` is what is missing to save it."""
        posted = self.request.POST
        shared = {
            "noun": self.noun,
            "review": review,
            "reason": self.reason(),
            "reason_length": REASON_LENGTH,
            "confirmed": posted.get(CONFIRM, ""),
            "carried": () if form is None else carried(posted, form.secrets),
            "base": "" if base is None else base.signed(),
            "problem": problem,
        }
        return self.render({**shared, **context}, template=self.review_template)

    def missing(self, review: Review) -> str:
        """What a risky change lacks, in words; "" if nothing."""
        if not review.is_possible:
            return "The change is not possible as it is."
        if review.is_risky and not self.reason():
            return NO_REASON
        if review.confirm and self.request.POST.get(CONFIRM, "").strip() != review.confirm:
            return f"Type {review.confirm} to confirm."
        return ""
