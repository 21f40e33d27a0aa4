"""The shape of a role binding."""

from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.strict import NameOrIdField, StrictSerializer
from controlplane.models.users import ROLES


class UserNameOrIdField(NameOrIdField):
    """A person: shown as the user name, taken as that or the id."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("help_text", "User name or id.")
        super().__init__(**options)

    def to_representation(self, value: Any) -> str:
        return str(value.username)


class PlaceSerializer(StrictSerializer):
    """Where a role is held: in an organisation, or in one team or one project of it."""

    role = serializers.ChoiceField(choices=ROLES)
    team = NameOrIdField(
        required=False, allow_null=True, help_text="Name or id; null unless it is a team's role."
    )
    project = NameOrIdField(
        required=False, allow_null=True, help_text="Name or id; null unless it is a project's."
    )


class BindingSerializer(PlaceSerializer):
    id = serializers.CharField(read_only=True)
    organisation = serializers.CharField(
        write_only=True, required=False, help_text="Name or id; needed only if you have several."
    )
    organisation_id = serializers.CharField(read_only=True)
    team_id = serializers.CharField(read_only=True, allow_null=True)
    project_id = serializers.CharField(read_only=True, allow_null=True)
    user = UserNameOrIdField(required=False, allow_null=True)
    user_id = serializers.IntegerField(read_only=True, allow_null=True)
    service_account = NameOrIdField(required=False, allow_null=True)
    service_account_id = serializers.CharField(read_only=True, allow_null=True)
    created_at = serializers.DateTimeField(read_only=True)
