"""Saying that an answer from a cache was wrong: what follows is reviewed, and a reason is given."""

from collections.abc import Sequence

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from controlplane.console.api_calls import changing
from controlplane.console.cache_facts import has_entry
from controlplane.console.diffs import Line
from controlplane.console.form_pages import FormPage
from controlplane.console.forms.base import NounForm
from controlplane.console.nouns import PURGES
from controlplane.console.pages import Crumb
from controlplane.console.reviews import Check, Impact, Reach, Review, checks_of, how_it_acts
from controlplane.errors import Conflict, Invalid
from controlplane.models import Request
from controlplane.selectors.requests import get_request
from controlplane.services import drafts
from controlplane.services.cache_feedback import tell_wrong_answer


class WrongAnswerPage(FormPage):
    """One fixed act on a request of the ledger, which has no version."""

    noun = PURGES
    form_class = NounForm
    verb = "It was wrong"

    def crumbs(self) -> Sequence[Crumb]:
        url = reverse("request", args=[self.row.event_id])
        return (
            Crumb("Observe"),
            Crumb("Requests", reverse("requests")),
            Crumb(self.row.event_id, url),
            Crumb("Wrong answer"),
        )

    def get(self, request: HttpRequest, event_id: str) -> HttpResponse:
        """Show what follows."""
        self._find(event_id)
        return self._shown("")

    def post(self, request: HttpRequest, event_id: str) -> HttpResponse:
        """Do it, if a reason is given."""
        self._find(event_id)
        if not self.reason():
            return self._shown("Give a reason. It is kept in the audit log.")
        try:
            tell_wrong_answer(self.actor(self.reason()), request=self.row)
        except (Invalid, Conflict) as error:
            return self._shown(error.detail)
        return self.saved(reverse("request", args=[event_id]))

    def _find(self, event_id: str) -> None:
        self.require_write(PURGES.key)
        access, home = self.scope.access, self.scope.organisation
        self.row: Request = get_request(access, home.pk, event_id)

    def _shown(self, problem: str) -> HttpResponse:
        draft = drafts.draft(lambda: tell_wrong_answer(self.actor(), request=self.row))
        use = self.row.cache or {}
        raises = [one for one in draft.changes if one.noun == "routes"]
        reach = [Reach("Takes out", f"the entry {use.get('entry_id') or 'of no cache'}")]
        for one in raises:
            least = (one.after or {}).get("similarity_min")
            reach.append(Reach("Raises", f"the route's least similarity to {least}"))
        checks = [*checks_of(draft, PURGES.key)]
        if has_entry(self.row.cache):
            told = "Whoever asks the same is answered anew; a false hit is noted."
            checks.insert(0, Check("info", told))
        review = Review(
            title="A wrong answer from a cache",
            words=how_it_acts(draft),
            lines=[Line("Request", None, self.row.event_id)],
            impact=Impact(reach=reach, checks=checks),
            is_risky=True,
            verb=self.verb,
            title_of_lines="What was wrong",
        )
        path = f"{reverse('api-request-detail', args=[self.row.event_id])}wrong-answer/"
        call = changing(self.request, "POST", path, {"reason": self.reason() or "REASON"})
        context = {
            "row": self.row,
            "title": review.title,
            "cancel": reverse("request", args=[self.row.event_id]),
            "api": call,
            "is_act": True,
        }
        return self.show_review(review, None, None, context, problem)
