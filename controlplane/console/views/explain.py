"""The Explain page: which target a request would get, and why."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from controlplane.bridge.questions import ask
from controlplane.console.api_calls import changing
from controlplane.console.explained import (
    budgets_told,
    experiments_told,
    facts_told,
    fleet_told,
    limits_told,
    rules_of,
    sentence_of,
    split_told,
    targets_of,
    verdict_of,
)
from controlplane.console.forms.explain import ExplainForm
from controlplane.console.pages import Crumb, Page
from controlplane.console.what_if import DRAFT, opened_draft, signed_draft
from controlplane.errors import Conflict, Invalid
from controlplane.selectors.routes import list_routes


class ExplainPage(Page):
    """Ask by POST: a prompt has no place in an address."""

    template_name = "console/explain/page.html"

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb("Serve"), Crumb("Explain"))

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the form, filled in with what the address names."""
        initial = {name: request.GET[name] for name in ("model", "caller") if name in request.GET}
        draft = opened_draft(request.GET.get(DRAFT, ""))
        return self._page(ExplainForm(initial=initial, scope=self.scope), draft=draft)

    def post(self, request: HttpRequest) -> HttpResponse:
        """Explain the request that the form describes."""
        draft = opened_draft(request.POST.get(DRAFT, ""))
        form = ExplainForm(request.POST, scope=self.scope)
        if not form.is_valid():
            return self._page(form, draft=draft)
        values = form.values()
        drafted = None if draft is None else draft["record"]
        try:
            document = ask(
                self.scope.access,
                self.scope.organisation,
                values,
                now=timezone.now(),
                drafted=drafted,
            )
        except (Invalid, Conflict) as error:
            form.refuse(error.fields, error.detail)
            return self._page(form, draft=draft)
        return self._page(form, draft=draft, **self._answer(document, values, draft))

    def _answer(
        self, document: Mapping[str, Any], values: Mapping[str, Any], draft: Any
    ) -> dict[str, Any]:
        told = {**document, "as_of": document["as_of"].isoformat()}
        told["at"] = document["at"].isoformat()
        split = split_told(document)
        return {
            "document": document,
            "verdict": verdict_of(document),
            "sentence": sentence_of(document),
            "facts": facts_told(document),
            "rules": rules_of(document),
            "experiments": experiments_told(document),
            "targets": targets_of(document),
            "limits": limits_told(document),
            "budgets": budgets_told(document),
            "fleet": fleet_told(document),
            "split": split,
            "legend": [(part.slot, f"{part.label} {part.share:.1f} %") for part in split.parts]
            if split
            else (),
            "exact": json.dumps(told, indent=2, ensure_ascii=False),
            "api": self._call(values, draft),
        }

    def _call(self, values: Mapping[str, Any], draft: Any) -> str:
        """The same question by REST; the prompt stands in a variable."""
        body = {name: value for name, value in values.items() if name != "prompt"}
        if "prompt" in values:
            body["prompt"] = "$PROMPT"
        if "at" in body:
            body["at"] = values["at"].isoformat()
        if self.scope.is_choice:
            body["organisation"] = self.scope.organisation.pk
        if draft is not None:
            body["draft"] = {"route": draft["route"], "changes": draft["changes"]}
        return changing(self.request, "POST", reverse("api-explain-list"), body)

    def _page(self, form: ExplainForm, *, draft: Any, **context: Any) -> HttpResponse:
        routes = list_routes(self.scope.access).filter(organisation=self.scope.organisation)
        shared = {
            "form": form,
            "models": list(routes.values_list("name", flat=True).order_by("name")[:200]),
            "draft": draft,
            "signed_draft": "" if draft is None else signed_draft(**draft),
        }
        return self.render({**shared, **context})
