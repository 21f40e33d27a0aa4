"""Budgets by REST, how they stand, and raising one for a time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.alerting.budget_proof import prove_budget
from controlplane.api.filters import refuse_unknown
from controlplane.api.pagination import BY_NAME
from controlplane.api.serializers.budgets import (
    BudgetProofSerializer,
    BudgetSerializer,
    BudgetStatusSerializer,
    BudgetWarningSerializer,
    RaiseSerializer,
)
from controlplane.api.views.bulk import Bulk
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import Changing, Creating, Removing, named
from controlplane.bridge.budget_status import read_status
from controlplane.bridge.budget_warnings import read_warnings
from controlplane.decisions.budgets import budget_words, scopes_words
from controlplane.errors import Invalid
from controlplane.models import Budget, Organisation
from controlplane.selectors.access import Access
from controlplane.selectors.budget_filters import BudgetFilters
from controlplane.selectors.budget_warnings import Chain, chain_of, chain_of_reader
from controlplane.selectors.budgets import list_budgets, list_scope_names
from controlplane.selectors.keys import list_keys
from controlplane.selectors.projects import list_projects
from controlplane.selectors.teams import list_teams
from controlplane.services.budgets import (
    create_budget,
    delete_budget,
    raise_budget,
    update_budget,
)

TOP, MOST_TOP = 20, 100

_CHAINS: Mapping[str, Callable[[Access], QuerySet[Any]]] = {
    "key": list_keys,
    "project": list_projects,
    "team": list_teams,
}


class BudgetView(Bulk, Creating, Changing, Removing):
    noun = "budgets"
    selector = staticmethod(list_budgets)
    serializer_class = BudgetSerializer
    filterset_class = BudgetFilters
    orderings = BY_NAME

    def get_queryset(self) -> QuerySet[Any]:
        return super().get_queryset().select_related("organisation")

    @property
    def query_parameters(self) -> frozenset[str]:
        """What the address may carry besides the filters."""
        return frozenset(("top",)) if self.action == "status" else frozenset()

    def complete(self, rows: Sequence[Any]) -> None:
        """What each counts in words; names by one query."""
        names = list_scope_names(self.access, rows)
        for row in rows:
            about = scopes_words(row.scopes, names)
            told = budget_words(row.amount_nanousd, row.period, about, is_rolling=row.is_rolling)
            row.counts = told

    def make(self, organisation: Organisation, values: dict[str, Any]) -> Any:
        return create_budget(self.actor, organisation=organisation, **values)

    def changed(self, row: Any) -> None:
        # what is sent back unchanged is compared with what was told
        self.complete((row,))
        super().changed(row)

    def change(self, row: Any, changes: dict[str, Any], expected_version: int | None) -> None:
        update_budget(
            self.actor, budget_id=row.pk, changes=changes, expected_version=expected_version
        )

    def remove(self, row: Any, expected_version: int | None) -> None:
        delete_budget(self.actor, budget_id=row.pk, expected_version=expected_version)

    @extend_schema(
        operation_id="budgets_raise",
        request=RaiseSerializer,
        responses={200: BudgetSerializer},
    )
    @action(detail=True, methods=["post"], url_path="raise", url_name="raise")
    def raise_for_a_time(self, request: Request, pk: str) -> Response:
        """Let more be spent until a time, when it ends by itself; both null end a raise now."""
        budget: Budget = self.get_object()
        self.require_write(self.noun, budget.organisation_id)
        serializer = RaiseSerializer(data=request.data)
        serializer.is_valid(raise_exception=True)
        raise_budget(
            self.actor,
            budget_id=budget.pk,
            expected_version=self.expected_version(),
            **serializer.validated_data,
        )
        return self.shown(self.fresh(budget))

    @extend_schema(
        operation_id="budgets_test", request=None, responses={200: BudgetProofSerializer}
    )
    @action(detail=True, methods=["post"], url_path="test", url_name="test")
    def put_to_the_test(self, request: Request, pk: str) -> Response:
        """Prove that it counts, warns, adds up and acts, in the store and at each gateway.

        A copy with next to no amount is put to the test and taken back; its channels get a test
        message. Four times a minute at most in one organisation (else 409).
        """
        budget: Budget = self.get_object()
        self.require_write(self.noun, budget.organisation_id)
        steps = prove_budget(self.actor, budget, timezone.now())
        return Response(BudgetProofSerializer({"steps": steps}).data)

    @extend_schema(
        parameters=[
            ORGANISATION,
            *(
                OpenApiParameter(name, str, description=f"Of this {name}, by name or id.")
                for name in _CHAINS
            ),
        ],
        responses={200: BudgetWarningSerializer(many=True)},
        filters=False,
    )
    @action(detail=False, methods=["get"], filter_backends=(), pagination_class=None)
    def warnings(self, request: Request) -> Response:
        """List accounts that are nearly or wholly used up and count for the requests of a key, or
        of all keys of a project or a team; without one, of all that your roles reach.

        The five that are fullest, those first that refuse.
        """
        refuse_unknown(request, (ORGANISATION.name, *_CHAINS))
        organisation = organisation_asked(self)
        found = read_warnings(self.access, organisation, self._chain(organisation), timezone.now())
        return Response(BudgetWarningSerializer(found, many=True).data)

    def _chain(self, organisation: Organisation) -> Chain:
        asked = [name for name in _CHAINS if name in self.request.query_params]
        if not asked:
            return chain_of_reader(self.access, organisation)
        if len(asked) > 1:
            raise Invalid.field(asked[1], f"Name a {asked[0]} or this, not both.")
        rows = _CHAINS[asked[0]](self.access).filter(organisation=organisation)
        return chain_of(named(rows, asked[0], self.request.query_params[asked[0]]))

    @extend_schema(
        responses={200: BudgetStatusSerializer},
        parameters=[
            OpenApiParameter(
                "top",
                {"type": "integer", "minimum": 1, "maximum": MOST_TOP, "default": TOP},
                description="So many accounts, those that spent the most.",
            )
        ],
    )
    @action(detail=True, methods=["get"])
    def status(self, request: Request, pk: str) -> Response:
        """Read what is spent, held and left in the present period, and where it goes."""
        budget: Budget = self.get_object()
        top = request.query_params.get("top", str(TOP))
        if not (top.isascii() and top.isdecimal() and len(top) < 4 and 0 < int(top) <= MOST_TOP):
            raise Invalid.field("top", f"Give a whole number from 1 to {MOST_TOP}.")
        found = read_status(self.access, budget, timezone.now(), top=int(top))
        return Response(BudgetStatusSerializer(found).data)
