"""How callers of the API are known: a bearer token first, then the console's own session."""

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from controlplane.models import ServiceAccount
from controlplane.selectors.tokens import get_service_account_of_token

_SCHEME = b"bearer"


class TokenAuthentication(BaseAuthentication):
    """`Authorization: Bearer hwt_…`. A request that carries a token stands or falls by it."""

    def authenticate(self, request: Request) -> tuple[ServiceAccount, None] | None:
        words = get_authorization_header(request).split()
        if not words or words[0].lower() != _SCHEME:
            return None
        account = None
        if len(words) == 2 and words[1].isascii():
            account = get_service_account_of_token(words[1].decode("ascii"))
        if account is None:
            raise AuthenticationFailed("The token is not valid.")
        return account, None

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="headworks"'


class TokenScheme(OpenApiAuthenticationExtension):
    """The same, as the OpenAPI document tells it."""

    target_class = "controlplane.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "hwt_<id>.<secret>",
            "description": "The token of a service account.",
        }
