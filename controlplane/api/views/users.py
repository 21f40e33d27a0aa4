"""People by REST. They are switched off, never removed: the audit trail goes on naming them."""

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.pagination import orderings_by
from controlplane.api.serializers.users import (
    MemberSerializer,
    NewPasswordSerializer,
    UserPermissionsSerializer,
    UserSerializer,
)
from controlplane.api.views.bindings import place_named
from controlplane.api.views.me import permissions_of
from controlplane.api.views.requests import ORGANISATION, organisation_asked
from controlplane.api.views.tenants import NounView
from controlplane.errors import NotAllowed
from controlplane.models import Role, User
from controlplane.selectors.access import Access, get_access_of_user
from controlplane.selectors.filters import UserFilters
from controlplane.selectors.users import (
    SEEN_BINDINGS,
    is_in_charge_of,
    list_charges,
    list_users,
    list_users_in,
)
from controlplane.services.users import (
    IssuedPassword,
    create_member,
    reset_password,
    update_user,
)


class UserView(NounView):
    noun = "users"
    is_for_whole = True
    selector = staticmethod(list_users)
    serializer_class = UserSerializer
    filterset_class = UserFilters
    orderings = orderings_by("username")
    query_parameters = frozenset((ORGANISATION.name,))
    lookup_value_regex = "[0-9]{1,9}"

    def get_queryset(self) -> QuerySet[User]:
        if ORGANISATION.name in self.request.query_params:
            return list_users_in(self.access, organisation_asked(self))
        return list_users(self.access)

    @extend_schema(parameters=[ORGANISATION])
    def list(self, request: Request) -> Response:
        """List people with a role in your organisations, or in the one named, newest first."""
        return super().list(request)

    @extend_schema(request=MemberSerializer, responses={201: NewPasswordSerializer})
    def create(self, request: Request) -> Response:
        """Make a person with a first role; the password is in this answer alone."""
        organisation = self.organisation()
        self.require_write(self.noun, organisation.pk)
        shape = MemberSerializer(data=request.data)
        shape.is_valid(raise_exception=True)
        values = dict(shape.validated_data)
        values.pop("organisation", None)
        place = place_named(organisation, values)
        role = Role(values.pop("role"))
        issued = create_member(self.actor, organisation=organisation, role=role, **place, **values)
        return self._shown_once(issued, code=status.HTTP_201_CREATED)

    @extend_schema(request=UserSerializer, responses=UserSerializer)
    def partial_update(self, request: Request, pk: str) -> Response:
        """Change the fields that are named, and no others."""
        user = self._mine()
        update_user(
            self.actor,
            user_id=user.pk,
            changes=self.validated(user),
            expected_version=self.expected_version(),
            keep_admin=not self.access.is_platform_admin,
        )
        return self.shown(self.fresh(user))

    @extend_schema(request=None, responses={200: NewPasswordSerializer})
    @action(detail=True, methods=["post"], url_path="reset-password")
    def reset_password(self, request: Request, pk: str) -> Response:
        """Give the person a new password, which ends all sessions; it is in this answer alone."""
        user = self._mine()
        issued = reset_password(
            self.actor, user_id=user.pk, expected_version=self.expected_version()
        )
        return self._shown_once(issued, code=status.HTTP_200_OK)

    @extend_schema(responses={200: UserPermissionsSerializer}, filters=False)
    @action(detail=True, methods=["get"])
    def permissions(self, request: Request, pk: str) -> Response:
        """Tell what a person may change and by which role, in the organisations you read all of."""
        user: User = self.get_object()
        held = get_access_of_user(user)
        told = [one for one in held.grants if self.access.reads_organisation(one.organisation_id)]
        answer = {
            "id": user.pk,
            "username": user.username,
            "is_active": user.is_active,
            "is_platform_admin": user.is_superuser,
            "must_change_password": user.must_change_password,
            "bindings": getattr(user, SEEN_BINDINGS),
            "permissions": list(permissions_of(Access(tuple(told)))),
        }
        return Response(UserPermissionsSerializer(answer).data)

    def _mine(self) -> User:
        user: User = self.get_object()
        if not is_in_charge_of(self.access, user):
            raise NotAllowed(
                "Administrators of all organisations a person has a role in may change the account."
            )
        for organisation_id in list_charges(user):
            self.require_write(self.noun, organisation_id)
        return user

    def _shown_once(self, issued: IssuedPassword, *, code: int) -> Response:
        response = self.shown(self.fresh(issued.user), code=code)
        response.data = {**response.data, "password": issued.password}
        return response
