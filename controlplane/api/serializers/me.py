"""The shape of the caller himself: who he is, and what he may do by which role."""

from rest_framework import serializers

from controlplane.api.serializers.bindings import BindingSerializer
from controlplane.models.users import ROLES


class PermissionSerializer(serializers.Serializer[object]):
    """One noun the caller may change at one place, and the role that lets him."""

    noun = serializers.CharField(read_only=True)
    organisation_id = serializers.CharField(read_only=True)
    team_id = serializers.CharField(
        read_only=True, allow_null=True, help_text="Null with no project: the whole organisation."
    )
    project_id = serializers.CharField(read_only=True, allow_null=True)
    role = serializers.ChoiceField(choices=ROLES, read_only=True)
    binding_id = serializers.CharField(read_only=True)


class MeSerializer(serializers.Serializer[object]):
    kind = serializers.ChoiceField(choices=["user", "service_account"], read_only=True)
    id = serializers.CharField(read_only=True)
    name = serializers.CharField(read_only=True)
    is_platform_admin = serializers.BooleanField(
        read_only=True, help_text="May do everything everywhere, without a role."
    )
    must_change_password = serializers.BooleanField(
        read_only=True, help_text="Nothing else is allowed until it is changed."
    )
    bindings = BindingSerializer(many=True, read_only=True)
    permissions = PermissionSerializer(many=True, read_only=True)
