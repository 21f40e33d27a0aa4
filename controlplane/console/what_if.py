"""Asking about a change of a route before it is made: what it would do, and would have done."""

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from controlplane.console.carrying import STEP, Base, opened
from controlplane.console.editing import EditPage
from controlplane.console.form_pages import REVIEW
from controlplane.decisions.replays import MOST_REQUESTS
from controlplane.errors import Conflict, Invalid, VersionMismatch
from controlplane.services.drafts import drafted_route
from controlplane.services.replays import request_replay

REPLAY, EXPLAIN = "replay", "explain"
DRAFT = "draft"
HOURS = 24

_SALT = "headworks.console.what_if"
_MAX_AGE_S = 24 * 3600


class WhatIfPage(EditPage):
    """The edit of a route, with two more ways on from its review."""

    review_template: ClassVar[str] = "console/routes/review.html"

    def post(self, request: HttpRequest, pk: str) -> HttpResponse:
        """Check, review, save, replay or explain, by the step the page names."""
        step = request.POST.get(STEP, REVIEW)
        if step not in (REPLAY, EXPLAIN):
            return super().post(request, pk)
        row = self.get_row(pk)
        base = Base.read(request.POST)
        data = opened(request.POST, self.form_class.secrets)
        form = self.form_class(data, scope=self.scope, row=row)
        if form.is_valid() and (changes := form.changes(base.values, base.only)):
            try:
                return HttpResponseRedirect(
                    self._asked(step, row, changes, form.document(changes), base.version)
                )
            except (Invalid, Conflict, VersionMismatch):
                pass  # the review is refused alike, and says why at the fields
        request.POST = request.POST.copy()  # type: ignore[assignment]
        request.POST[STEP] = REVIEW  # type: ignore[index]
        return super().post(request, pk)

    def _asked(
        self,
        step: str,
        row: Any,
        changes: dict[str, Any],
        document: Mapping[str, Any],
        version: int | None,
    ) -> str:
        """Ask, and say where the answer is."""

        def edit() -> object:
            return self.carry_out(self.actor(), row, dict(changes), version)

        if step == REPLAY:
            replay = request_replay(
                self.actor(),
                route=row,
                changes=document,
                edit=edit,
                hours=HOURS,
                most_requests=MOST_REQUESTS,
            )
            return reverse("replay", args=[replay.pk])
        record = drafted_route(edit, row.pk).record
        draft = signed_draft(route=row.pk, name=row.name, changes=document, record=record)
        return f"{reverse('explain')}?{urlencode({DRAFT: draft, 'model': record['name']})}"


def signed_draft(
    *, route: str, name: str, changes: Mapping[str, Any], record: Mapping[str, Any]
) -> str:
    """A draft of a route that pages carry along; nobody else can make one."""
    told = {"route": route, "name": name, "changes": changes, "record": record}
    return signing.dumps(told, salt=_SALT, compress=True)


def opened_draft(text: str) -> dict[str, Any] | None:
    """The draft again; None if there is none, or it is too old, or not one of ours."""
    if not text:
        return None
    try:
        found: dict[str, Any] = signing.loads(text, salt=_SALT, max_age=_MAX_AGE_S)
    except signing.BadSignature:
        return None
    return found
