"""Changing one object: form, then review, then save at the version the form was filled in at.

A subclass names noun, selector and form, and calls its service in `carry_out`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse

from controlplane.console.api_calls import changing
from controlplane.console.carrying import STEP, Base, carried, opened
from controlplane.console.form_pages import NO_REASON, REVIEW, SAVE, FormPage
from controlplane.console.forms.base import NounForm
from controlplane.console.pages import Crumb
from controlplane.console.reviews import Review
from controlplane.errors import Conflict, Invalid, VersionMismatch
from controlplane.selectors.access import Access
from controlplane.selectors.audit import list_audit
from controlplane.services import drafts
from controlplane.services.actors import Actor

RESTORE = "restore"
"""Query parameter of an edit: the audit entry whose old values fill the form."""


@dataclass(frozen=True, slots=True)
class ThreeWay:
    """One field of a conflict. `is_clash` tells that both sides changed it."""

    label: str
    before: str
    theirs: str
    yours: str
    is_clash: bool


class EditPage(FormPage):
    """Change one object."""

    selector: ClassVar[Callable[[Access], QuerySet[Any]]]

    def carry_out(
        self, actor: Actor, row: Any, changes: dict[str, Any], expected_version: int | None
    ) -> object:
        """Call the service that changes it."""
        raise NotImplementedError

    def title_of(self, row: Any) -> str:
        return str(row.name)

    def place_of(self, row: Any) -> Mapping[str, str]:
        """The team and project the object stands in, for the question who may change it."""
        return {}

    def get_row(self, pk: str) -> Any:
        """The object if the reader may change it, else NotFound or NotAllowed."""
        row = self.found(type(self).selector(self.scope.access), pk)
        self.require_write(self.noun.key, **self.place_of(row))
        self.row = row
        return row

    def own_crumbs(self) -> Sequence[Crumb]:
        url = self.noun.detail_url(self.row.pk)
        return (Crumb(self.title_of(self.row), url), Crumb("Edit"))

    def initial_of(self, row: Any) -> dict[str, Any]:
        return self.form_class.initial_of(row)

    def get(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Show the form: the row's values, or those an audit entry says it had."""
        row = self.get_row(pk)
        initial = self.initial_of(row)
        restored = self._restored(row)
        form = self.form_class(initial={**initial, **restored}, scope=self.scope, row=row)
        base = Base(row.version, form.base_of(initial))
        return self.show_form(form, base, {**self._context(row), "is_restored": bool(restored)})

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Check, review or save, by the step the page names."""
        row = self.get_row(pk)
        base = Base.read(request.POST)
        data = opened(request.POST, self.form_class.secrets)
        form = self.form_class(data, scope=self.scope, row=row)
        step = request.POST.get(STEP, REVIEW)
        if not form.is_valid() or step not in (REVIEW, SAVE):
            return self._form_again(row, form, base)
        changes = form.changes(base.values, base.only)
        if not changes:
            form.add_error(None, "Nothing differs from what is saved.")
            return self.show_form(form, base, self._context(row))
        try:
            if step == SAVE:
                return self._save(row, form, base, changes)
            return self._review(row, form, base, changes)
        except VersionMismatch:
            return self._conflict(row, form, base, changes)
        except (Invalid, Conflict) as error:
            form.refuse(error)
            return self.show_form(form, base, self._context(row))

    def _context(self, row: Any) -> dict[str, Any]:
        title = self.title_of(row)
        return {
            "row": row,
            "title": f"Edit {self.noun.one} {title}",
            "cancel": self.noun.detail_url(row.pk),
        }

    def _restored(self, row: Model) -> dict[str, Any]:
        asked = self.request.GET.get(RESTORE, "")
        if not (asked.isascii() and asked.isdigit() and len(asked) < 19):
            return {}
        entries = list_audit(self.scope.access).filter(noun=self.noun.key, object_id=row.pk)
        entry = entries.filter(pk=int(asked)).first()
        return {} if entry is None else self.restored_from(entry.before or {})

    def restored_from(self, before: Mapping[str, Any]) -> dict[str, Any]:
        """Old values of an audit entry as the form's."""
        return {
            name: value for name, value in before.items() if name in self.form_class.base_fields
        }

    def _form_again(self, row: Any, form: NounForm, base: Base) -> HttpResponse:
        """The form with what was filled in; what somebody else changed meanwhile stays theirs."""
        if base.only is not None and form.is_valid():
            initial = self.initial_of(row)
            mine = form.changes(base.values, base.only)
            form = self.form_class(initial={**initial, **mine}, scope=self.scope, row=row)
            base = Base(base.version, base.values)
        return self.show_form(form, base, self._context(row))

    def _review(
        self, row: Any, form: NounForm, base: Base, changes: dict[str, Any], problem: str = ""
    ) -> HttpResponse:
        draft = drafts.draft(lambda: self.carry_out(self.actor(), row, dict(changes), base.version))
        if draft.refused is not None:
            raise draft.refused
        review = Review(
            title=f"Review changes to {self.noun.one} {self.title_of(row)}",
            words=self.words_of(row, changes, draft),
            lines=form.lines(base.values, changes),
            impact=self.impact(row, changes, draft),
            is_risky=self.is_risky(row, form, changes),
            verb=self.verb,
        )
        return self.show_review(
            review, form, base, self._review_context(row, form, base, changes), problem
        )

    def _review_context(
        self, row: Any, form: NounForm, base: Base, changes: dict[str, Any]
    ) -> dict[str, Any]:
        path = self.noun.api_path(row.pk)
        call = changing(
            self.request,
            "PATCH",
            path,
            form.document(changes),
            version=base.version,
            reason=self.reason() or "REASON",
        )
        return {**self._context(row), "api": call}

    def _save(self, row: Any, form: NounForm, base: Base, changes: dict[str, Any]) -> HttpResponse:
        reason = self.reason()
        if self.is_risky(row, form, changes) and not reason:
            return self._review(row, form, base, changes, NO_REASON)
        self.carry_out(self.actor(reason), row, changes, base.version)
        return self.saved(self.noun.detail_url(row.pk))

    def _conflict(
        self, row: Any, form: NounForm, base: Base, changes: dict[str, Any]
    ) -> HttpResponse:
        """Somebody was faster: show both changes, and let the reader choose."""
        theirs = form.base_of(self.initial_of(row))
        moved = {name for name, value in theirs.items() if value != base.values.get(name)}
        three = [
            ThreeWay(
                form.label(name),
                form.shown(name, base.values.get(name)),
                form.shown(name, theirs.get(name)),
                form.shown(name, form.plain(name, changes.get(name, theirs.get(name)))),
                name in moved and name in changes,
            )
            for name in [*dict.fromkeys((*changes, *sorted(moved)))]
        ]
        rebased = Base(row.version, theirs, tuple(changes))
        context = {
            **self._context(row),
            "noun": self.noun,
            "three": three,
            "theirs_url": self.noun.detail_url(row.pk),
            "before_version": base.version,
            "base": rebased.signed(),
            "carried": carried(self.request.POST, form.secrets),
            "reason": self.reason(),
        }
        return self.render(context, template="console/conflict.html", status=412)
