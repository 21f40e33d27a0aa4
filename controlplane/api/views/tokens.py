"""Tokens of service accounts by REST. A token is revoked, never removed."""

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.serializers.tokens import NewTokenSerializer, TokenSerializer
from controlplane.api.views.tenants import NounView, named
from controlplane.errors import VersionMismatch
from controlplane.models import ApiToken
from controlplane.selectors.filters import TokenFilters
from controlplane.selectors.users import list_tokens
from controlplane.services.users import issue_token, revoke_token


class TokenView(NounView):
    noun = "tokens"
    is_for_whole = True
    selector = staticmethod(list_tokens)
    serializer_class = TokenSerializer
    filterset_class = TokenFilters

    @extend_schema(responses={201: NewTokenSerializer})
    def create(self, request: Request) -> Response:
        """Make a token of a service account; its text is in this answer alone."""
        organisation = self.organisation()
        self.require_write(self.noun, organisation.pk)
        values = self.validated()
        accounts = organisation.service_accounts.all()
        issued = issue_token(
            self.actor,
            service_account=named(accounts, "service_account", values["service_account"]),
            expires_at=values.get("expires_at"),
        )
        response = self.shown(self.fresh(issued.token), code=status.HTTP_201_CREATED)
        response.data = {**response.data, "token": issued.text}
        return response

    @extend_schema(request=None, responses={200: TokenSerializer})
    @action(detail=True, methods=["post"])
    def revoke(self, request: Request, pk: str) -> Response:
        """End the token for good, at once."""
        token: ApiToken = self.get_object()
        self.require_write(self.noun, token.service_account.organisation_id)
        expected = self.expected_version()
        if expected not in (None, token.version):
            raise VersionMismatch(token.version)
        revoke_token(self.actor, token_id=token.pk)
        return self.shown(self.fresh(token))
