"""The shapes of a person: as he is, as he is made, and the answers that have his password."""

from rest_framework import serializers

from controlplane.api.serializers.bindings import BindingSerializer, PlaceSerializer
from controlplane.api.serializers.me import PermissionSerializer
from controlplane.api.serializers.strict import StrictSerializer
from controlplane.selectors.users import SEEN_BINDINGS


class UserSerializer(StrictSerializer):
    id = serializers.IntegerField(read_only=True)
    username = serializers.CharField(max_length=150)
    email = serializers.EmailField(max_length=254, required=False, allow_blank=True)
    first_name = serializers.CharField(max_length=150, required=False, allow_blank=True)
    last_name = serializers.CharField(max_length=150, required=False, allow_blank=True)
    slack_id = serializers.CharField(
        max_length=32,
        required=False,
        allow_blank=True,
        help_text="Member's id in Slack, such as U0123456789: whose acts there count as his.",
    )
    is_active = serializers.BooleanField(
        required=False, help_text="Switching off ends sessions and password."
    )
    is_platform_admin = serializers.BooleanField(source="is_superuser", read_only=True)
    must_change_password = serializers.BooleanField(read_only=True)
    last_login = serializers.DateTimeField(read_only=True, allow_null=True)
    bindings = BindingSerializer(source=SEEN_BINDINGS, many=True, read_only=True)
    version = serializers.IntegerField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    updated_at = serializers.DateTimeField(read_only=True)


class MemberSerializer(PlaceSerializer):
    """A new person with a first role: without one, nobody in an organisation would see him."""

    username = serializers.CharField(max_length=150)
    email = serializers.EmailField(max_length=254, required=False, allow_blank=True)
    first_name = serializers.CharField(max_length=150, required=False, allow_blank=True)
    last_name = serializers.CharField(max_length=150, required=False, allow_blank=True)
    organisation = serializers.CharField(
        write_only=True, required=False, help_text="Name or id; needed only if you have several."
    )


class NewPasswordSerializer(UserSerializer):
    """A person with a password of our making, to be changed at the next sign-in."""

    password = serializers.CharField(read_only=True, help_text="Shown this once.")


class UserPermissionsSerializer(serializers.Serializer[object]):
    """Why a person may do what, as far as the caller may know of it."""

    id = serializers.IntegerField(read_only=True)
    username = serializers.CharField(read_only=True)
    is_active = serializers.BooleanField(
        read_only=True, help_text="A person that is switched off may do nothing."
    )
    is_platform_admin = serializers.BooleanField(
        read_only=True, help_text="May do everything everywhere, without a role."
    )
    must_change_password = serializers.BooleanField(
        read_only=True, help_text="Nothing else is allowed until it is changed."
    )
    bindings = BindingSerializer(many=True, read_only=True)
    permissions = PermissionSerializer(many=True, read_only=True)
