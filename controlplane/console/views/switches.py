"""The pages of kill switches: what is off, turning something off, and putting it back."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone

from controlplane.console.api_calls import changing, reading
from controlplane.console.carrying import CONFIRM, Base
from controlplane.console.deleting import DeletePage
from controlplane.console.details import DetailPage, Fact, State
from controlplane.console.diffs import Line
from controlplane.console.editing import EditPage
from controlplane.console.filtering import address
from controlplane.console.form_pages import NO_REASON, FormPage
from controlplane.console.formats import clock
from controlplane.console.forms.switches import SwitchForm, ThrowForm
from controlplane.console.nouns import AUDIT, SWITCHES
from controlplane.console.pages import Action, Crumb, Page
from controlplane.console.propagation import applied_context
from controlplane.console.reviews import Impact, Review
from controlplane.console.switch_facts import (
    KINDS,
    OFF,
    ON,
    lines_of_kind,
    requests_label,
    rows_of_kind,
    throw_url,
    thrown_in,
)
from controlplane.console.switch_impact import PARTS, impact_of_putting_back, impact_of_throwing
from controlplane.decisions.subjects import subject_words
from controlplane.errors import Conflict, Invalid
from controlplane.models import Switch
from controlplane.selectors.subjects import list_subject_names
from controlplane.selectors.switches import list_switches
from controlplane.services import drafts
from controlplane.services.actors import Actor
from controlplane.services.drafts import Draft
from controlplane.services.switches import put_back_switch, throw_switch, update_switch
from inference.contract.kinds import SwitchSubject

PAGE_SIZE = 50
REFUSE_WORDS = "Gateways refuse it within a second of saving. What is under way ends by itself."
AVOID_WORDS = (
    "Gateways send nothing there within a second of saving. What is under way ends by itself."
)
BACK_WORDS = "Gateways serve it again within a second of saving."


class SwitchBoard(Page):
    """What is off, and everything that can be turned off, one kind at a time."""

    template_name = "console/switches/board.html"

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb(SWITCHES.group), Crumb(SWITCHES.title))

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show it; the kind, a search and the page are in the address."""
        kind = KINDS.get(request.GET.get("subject", ""), KINDS[SwitchSubject.ROUTE.value])
        search = request.GET.get("search", "").strip().replace("\0", "")
        found = Paginator(rows_of_kind(self.scope, kind, search), PAGE_SIZE)
        page = found.get_page(request.GET.get("page"))
        thrown = thrown_in(self.scope)
        whole = next((one for one in thrown if one.row.subject_id is None), None)
        path = SWITCHES.list_url()
        context: dict[str, Any] = {
            "title": SWITCHES.title,
            "noun": SWITCHES,
            "thrown": thrown,
            "whole": whole,
            "whole_state": ON if whole is None else OFF,
            "throw_whole_url": throw_url(SwitchSubject.ORGANISATION),
            "may_throw": self.may_write(SWITCHES.key),
            "kinds": [
                (
                    one.noun.title,
                    address(path, request.GET, subject=key, search=None, page=None),
                    one is kind,
                    sum(line.row.subject == key for line in thrown),
                )
                for key, one in KINDS.items()
            ],
            "kind": kind,
            "search": search,
            "lines": lines_of_kind(self.scope, kind, list(page.object_list), thrown),
            "requests_label": requests_label(kind),
            "page": page,
            "previous": _neighbour(page, -1, path, request),
            "next": _neighbour(page, 1, path, request),
            "history_url": f"{AUDIT.list_url()}?noun={SWITCHES.key}" if self._reads_all else "",
            "api": reading(request, self.scope, SWITCHES.api_path()),
            **applied_context(request),
        }
        return self.render(context)

    @property
    def _reads_all(self) -> bool:
        return self.scope.access.reads_organisation(self.scope.organisation.pk)


class SwitchThrow(FormPage):
    """Turn one thing off: one page with what it stops, its name to type, and a reason."""

    noun = SWITCHES
    review_template = "console/switches/throw.html"

    def own_crumbs(self) -> Sequence[Crumb]:
        return (Crumb("Turn off"),)

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show what turning off the one the address names would stop."""
        self.require_write(SWITCHES.key)
        asked = request.GET.get("subject", "")
        if asked not in list(SwitchSubject):
            return HttpResponseRedirect(SWITCHES.list_url())
        self._choose(SwitchSubject(asked), request.GET.get("subject_id"))
        return self._shown(ThrowForm(scope=self.scope), "")

    def post(self, request: HttpRequest) -> HttpResponse:
        """Throw it, if the name was typed and a reason given."""
        self.require_write(SWITCHES.key)
        base = Base.read(request.POST)
        self._choose(SwitchSubject(base.values["subject"]), base.values["subject_id"])
        form = ThrowForm(request.POST, scope=self.scope)
        if not form.is_valid():
            return self._shown(form, "")
        problem = self._lacking()
        if problem:
            return self._shown(form, problem)
        try:
            self._throw(self.actor(self.reason()), form)
        except (Invalid, Conflict) as error:
            form.refuse(error)
            return self._shown(form, " ".join(form.non_field_errors()))
        return self.saved(SWITCHES.list_url())

    def _choose(self, subject: SwitchSubject, pk: str | None) -> None:
        """Find the one that is meant; NotFound if there is none."""
        self.subject, self.pk = subject, None
        self.name = self.scope.organisation.name
        if subject is not SwitchSubject.ORGANISATION:
            row: Any = self.found(KINDS[subject.value].rows(self.scope.access), pk or "")
            self.require_write(SWITCHES.key)
            self.pk, self.name = row.pk, row.name
        self.words = subject_words(subject, self.pk, self.name)

    def _lacking(self) -> str:
        """What is missing to throw it, in words; "" if nothing."""
        if not self.reason():
            return NO_REASON
        if self.request.POST.get(CONFIRM, "").strip() != self.name:
            return f"Type {self.name} to confirm."
        return ""

    def _throw(self, actor: Actor, form: ThrowForm) -> Switch:
        values = form.values_at(timezone.now()) if form.is_bound else {}
        return throw_switch(
            actor,
            organisation=self.scope.organisation,
            subject=self.subject.value,
            subject_id=self.pk,
            **values,
        )

    def _review(self, form: ThrowForm) -> Review:
        sound = form if form.is_bound and form.is_valid() else ThrowForm(scope=self.scope)
        draft = drafts.draft(lambda: self._throw(self.actor(), sound))
        return Review(
            title=f"Turn off {self.words}",
            words=AVOID_WORDS if self.subject in PARTS else REFUSE_WORDS,
            lines=(Line(_first_large(self.words), "on", "off"),),
            impact=impact_of_throwing(self.scope, self.subject, self.pk, draft),
            is_risky=True,
            verb="Turn off",
            confirm=self.name,
            is_dangerous=True,
            title_of_lines="What changes",
        )

    def _shown(self, form: ThrowForm, problem: str) -> HttpResponse:
        review = self._review(form)
        base = Base(None, {"subject": self.subject.value, "subject_id": self.pk})
        document = {"subject": self.subject.value, "subject_id": self.pk}
        path, told = SWITCHES.api_path(), self.reason() or "REASON"
        context = {
            "title": review.title,
            "cancel": SWITCHES.list_url(),
            "form": form,
            "api": changing(self.request, "POST", path, document, reason=told),
        }
        return self.show_review(review, None, base, context, problem)


class SwitchDetail(DetailPage):
    noun = SWITCHES
    selector = staticmethod(list_switches)
    is_name_mono = False

    def title_of(self, row: Switch) -> str:
        return _first_large(_words(self, row))

    def state_of(self, row: Switch) -> State:
        return OFF

    def actions_of(self, row: Switch) -> Sequence[Action]:
        if not self.may_write(SWITCHES.key):
            return ()
        return (
            Action("Edit", SWITCHES.edit_url(row.pk), icon="edit"),
            Action("Put back", SWITCHES.delete_url(row.pk), "primary", "play"),
        )

    def facts_of(self, row: Switch) -> Sequence[Fact]:
        kind = KINDS.get(row.subject)
        url = "" if kind is None or row.subject_id is None else kind.noun.detail_url(row.subject_id)
        zone = self.scope.zone
        until = "when somebody puts it back"
        return (
            Fact("Off", self.title, url=url),
            Fact("Since", clock(row.created_at, zone)),
            Fact("Served again", until if row.expires_at is None else clock(row.expires_at, zone)),
            Fact("Told to callers", row.reason or "only that it is off"),
            Fact("Id", row.pk, is_mono=True),
            Fact("Version", str(row.version)),
        )


class SwitchEdit(EditPage):
    noun = SWITCHES
    selector = staticmethod(list_switches)
    form_class = SwitchForm

    def title_of(self, row: Switch) -> str:
        return _words(self, row)

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        return update_switch(
            actor, switch_id=row.pk, changes=changes, expected_version=expected_version
        )

    def restored_from(self, before: Mapping[str, Any]) -> dict[str, Any]:
        names = {"reason": "told", "expires_at": "expires_at"}
        return {names[name]: value for name, value in before.items() if name in names}


class SwitchPutBack(DeletePage):
    noun = SWITCHES
    selector = staticmethod(list_switches)
    verb = "Put back"

    def title_of(self, row: Switch) -> str:
        return _words(self, row)

    def carry_out(self, actor: Actor, row: Any, expected_version: int | None) -> object:
        return put_back_switch(actor, switch_id=row.pk, expected_version=expected_version)

    def impact(self, row: Any, changes: Mapping[str, Any], draft: Draft) -> Impact:
        return impact_of_putting_back(self.scope, SwitchSubject(row.subject), row.subject_id, draft)

    def _judged(self, row: Any, base: Base) -> Review:
        words = self.title_of(row)
        name = _name(self, row)
        return replace(
            super()._judged(row, base),
            title=f"Put back {words}",
            words=BACK_WORDS,
            lines=(Line(_first_large(words), "off", "on"),),
            verb="Put back",
            confirm=self.scope.organisation.name if name is None else name,
            is_dangerous=False,
            title_of_lines="What changes",
        )


def _words(page: Page, row: Switch) -> str:
    return subject_words(row.subject, row.subject_id, _name(page, row))


def _first_large(words: str) -> str:
    return words[:1].upper() + words[1:]


def _name(page: Page, row: Switch) -> str | None:
    """The name of what is off; its id once nobody can name it, None of the organisation."""
    names = list_subject_names(page.scope.access, (row,))
    return names.get(row.subject_id or "", row.subject_id)


def _neighbour(page: Any, step: int, path: str, request: HttpRequest) -> str:
    has_one = page.has_next() if step > 0 else page.has_previous()
    return address(path, request.GET, page=str(page.number + step)) if has_one else ""
