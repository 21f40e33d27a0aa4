"""The shapes of a key: as it is, as it's made, and the one answer that has its text."""

from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.strict import (
    NameOrIdField,
    OwnedSerializer,
    StrictSerializer,
)
from controlplane.models import Key
from controlplane.models.kinds import priorities, scopes, task_classes
from controlplane.selectors.key_use import USE_DAYS
from controlplane.services.keys import MAX_OVERLAP_S
from inference.contract.params import MAX_TAGS

DEFAULT_OVERLAP_S = 3_600
_USE = frozenset(("last_used_on", "requests_30d", "errors_30d"))


class AcceptedSecretSerializer(serializers.Serializer[object]):
    """One secret the key is accepted by, told by its last characters."""

    last4 = serializers.CharField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    accepted_until = serializers.DateTimeField(read_only=True, allow_null=True)


class RouteNamesField(serializers.ListField):
    """Names of routes, or null for every route of the organisation."""

    child = serializers.CharField(max_length=128)

    def get_attribute(self, instance: Key) -> list[str] | None:
        if not instance.is_restricted:
            return None
        return sorted(route.name for route in instance.routes.all())


class KeySerializer(OwnedSerializer):
    create_only = frozenset({"organisation", "project"})

    public_id = serializers.CharField(
        read_only=True, help_text="The part of the key's text before the dot, without hw_."
    )
    name = serializers.CharField(max_length=100)
    project = NameOrIdField(
        required=False, help_text="Name or id; left out, the organisation's default project."
    )
    project_id = serializers.CharField(read_only=True)
    team_id = serializers.CharField(source="project.team_id", read_only=True)
    scopes = serializers.ListField(
        child=serializers.ChoiceField(choices=scopes()), required=False, allow_empty=False
    )
    routes = RouteNamesField(
        required=False, allow_null=True, help_text="Names or ids; null is every route, [] none."
    )
    is_enabled = serializers.BooleanField(required=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)
    tags = serializers.ListField(
        child=serializers.CharField(max_length=64),
        required=False,
        max_length=MAX_TAGS,
        help_text="Of each of its requests, for rules of routes.",
    )
    priority = serializers.ChoiceField(
        choices=priorities(),
        required=False,
        help_text="The most urgent class of its requests, and theirs unless they ask for less.",
    )
    default_task = serializers.ChoiceField(
        choices=task_classes(),
        required=False,
        allow_null=True,
        help_text="What its requests are for unless they say so; null: as the route has it.",
    )
    revoked_at = serializers.DateTimeField(read_only=True, allow_null=True)
    accepted_secrets = AcceptedSecretSerializer(source="digests", many=True, read_only=True)
    last_used_on = serializers.DateField(
        source="use.last_day",
        read_only=True,
        allow_null=True,
        help_text=f"Day of the organisation's zone; null: not in the last {USE_DAYS}.",
    )
    requests_30d = serializers.IntegerField(
        source="use.requests", read_only=True, help_text="Of the last 30 days, with today."
    )
    errors_30d = serializers.IntegerField(source="use.errors", read_only=True)

    def _problem_with(self, name: str, value: Any, fixed: frozenset[str]) -> str | None:
        # a caller that sends back what it read can't know what was used since
        if name in _USE and self.instance is not None:
            return None
        return super()._problem_with(name, value, fixed)


class NewKeySerializer(KeySerializer):
    """A key with its text, which is never shown again."""

    key = serializers.CharField(read_only=True, help_text="The key itself, shown this once.")


class RotationSerializer(StrictSerializer):
    overlap_s = serializers.IntegerField(
        min_value=0,
        max_value=MAX_OVERLAP_S,
        default=DEFAULT_OVERLAP_S,
        help_text="How long the old secret is still accepted; 0 ends it now.",
    )
