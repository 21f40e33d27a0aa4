"""The shape of a route's rules."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.route_targets import RuleTargetSerializer
from controlplane.api.serializers.strict import StrictSerializer
from controlplane.compiler import rules_of
from controlplane.decisions.route_rules import document_of
from controlplane.models.kinds import choices_of, priorities, task_classes
from controlplane.models.rows import printable_name, public_name
from controlplane.models.rows import tag as tag_validator
from controlplane.services.route_rules import MAX_VALUES
from inference.contract.kinds import Weekday

_CLOCK = r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)\Z"
_MOST_TOKENS = 2**31 - 1


def _list(child: serializers.Field[Any, Any, Any, Any], help_text: str) -> serializers.ListField:
    return serializers.ListField(
        child=child, max_length=MAX_VALUES, required=False, help_text=help_text
    )


def _reference(kind: str) -> serializers.ListField:
    child = serializers.CharField(max_length=255)
    return _list(child, f"Names or ids of {kind}; shown as ids. Any one of them.")


def _clock(help_text: str) -> serializers.RegexField:
    return serializers.RegexField(
        _CLOCK,
        required=False,
        help_text=help_text,
        error_messages={"invalid": "Give a time as HH:MM, from 00:00 to 24:00."},
    )


class ScheduleSerializer(StrictSerializer):
    """Times of the week in the organisation's time zone."""

    days = _list(serializers.ChoiceField(choices=choices_of(Weekday)), "None is every day.")
    to = _clock("Not included; at or before `from` it is on the next day. 24:00 if left out.")

    def get_fields(self) -> dict[str, Any]:
        """`from` is a word of the language and can't be an attribute."""
        found = dict(super().get_fields())
        return {"days": found["days"], "from": _clock("00:00 if left out."), "to": found["to"]}


class HeaderSerializer(StrictSerializer):
    name = serializers.CharField(max_length=64, help_text="Upper and lower case are the same.")
    value = serializers.CharField(max_length=255, help_text="The whole value.")


class MatchSerializer(StrictSerializer):
    """What a request must be: all that is given, of each any one of its values."""

    keys = _reference("keys")
    teams = _reference("teams")
    projects = _reference("projects")
    tags = _list(
        serializers.CharField(max_length=64, validators=[tag_validator]),
        "The key's or the caller's.",
    )
    headers = HeaderSerializer(
        many=True,
        required=False,
        max_length=MAX_VALUES,
        help_text="All of them must be there. Headers that carry credentials can't be looked at.",
    )
    aliases = _list(
        serializers.CharField(max_length=128, validators=[public_name]),
        "What the caller wrote in `model`.",
    )
    tasks = _list(serializers.ChoiceField(choices=task_classes()), "The request's task.")
    priorities = _list(serializers.ChoiceField(choices=priorities()), "The request's class.")
    prompt_tokens_min = serializers.IntegerField(
        min_value=0,
        max_value=_MOST_TOKENS,
        required=False,
        allow_null=True,
        help_text="Of the estimated prompt, included.",
    )
    prompt_tokens_max = serializers.IntegerField(
        min_value=0,
        max_value=_MOST_TOKENS,
        required=False,
        allow_null=True,
        help_text="Of the estimated prompt, included.",
    )
    schedule = ScheduleSerializer(required=False, allow_null=True)


class RuleSerializer(StrictSerializer):
    """Other targets for the requests that match."""

    id = serializers.CharField(
        required=False,
        max_length=40,
        help_text="Of a rule the route has; left out, one of the same name is meant.",
    )
    name = serializers.CharField(max_length=255, validators=[printable_name])
    is_enabled = serializers.BooleanField(
        required=False, help_text="True if left out. A rule that is off is passed over."
    )
    when = MatchSerializer(
        required=False, help_text="Conditions; none at all matches every request."
    )
    targets = RuleTargetSerializer(many=True)

    def to_representation(self, instance: Any) -> Any:
        """A stored rule as it is taken, references as ids."""
        (rule,) = rules_of([instance])
        return document_of(rule)

    def to_internal_value(self, data: Any) -> Any:
        values = super().to_internal_value(data)
        return dict(values) if isinstance(values, Mapping) else values
