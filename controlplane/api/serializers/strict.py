"""What every shape of the API has in common: nothing a caller sends is quietly ignored."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from inference.contract.params import Bound

_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}")
_LARGEST = 2**63 - 1
_LARGEST_COUNT = 2**31 - 1


class StrictSerializer(serializers.Serializer[Any]):
    """Refuses unknown fields, and read-only ones unless they say what is so anyway.

    `create_only` fields are set once; later they count as read-only.
    """

    create_only: ClassVar[frozenset[str]] = frozenset()

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return super().to_internal_value(data)
        fixed = self._fixed_fields()
        problems = {
            str(name): [problem]
            for name, value in data.items()
            if (problem := self._problem_with(str(name), value, fixed)) is not None
        }
        if problems:
            raise serializers.ValidationError(problems)
        values = super().to_internal_value(data)
        return {name: value for name, value in values.items() if name not in fixed}

    def _fixed_fields(self) -> frozenset[str]:
        read_only = {name for name, field in self.fields.items() if field.read_only}
        return frozenset(read_only | (self.create_only if self.instance is not None else set()))

    def _problem_with(self, name: str, value: Any, fixed: frozenset[str]) -> str | None:
        if name not in self.fields:
            return "There is no such field."
        if name not in fixed:
            return None
        if self.instance is not None and self._told().get(name) == value:
            return None
        return "This field can't be set." if self.instance is None else "This can't be changed."

    def _told(self) -> Mapping[str, Any]:
        return self.to_representation(self.instance)


@extend_schema_field(
    {"type": "string", "pattern": "^[0-9]{1,19}$", "description": "Whole nano-USD"}
)
class NanoUsdField(serializers.Field[int, Any, str, Any]):
    """Money as text, for a JSON number loses digits beyond 2^53; whole numbers are taken too."""

    default_error_messages = {
        "invalid": 'Give whole nano-USD as text, such as "1500000".',
        "range": "This is out of range.",
    }

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int | str):
            self.fail("invalid")
        if isinstance(data, str) and not _WHOLE_NUMBER.fullmatch(data):
            self.fail("invalid")
        amount = int(data)
        if not 0 <= amount <= _LARGEST:
            self.fail("range")
        return amount

    def to_representation(self, value: int) -> str:
        return str(value)


@extend_schema_field(
    {"type": "string", "pattern": "^-?[0-9]{1,19}$", "description": "Whole nano-USD"}
)
class SignedNanoUsdField(serializers.Field[int, Any, str, Any]):
    """Money that is told only, as text; corrections may bring it below 0."""

    def __init__(self, **options: Any) -> None:
        super().__init__(read_only=True, **options)

    def to_representation(self, value: int) -> str:
        return str(value)


def whole(bound: Bound, **options: Any) -> serializers.IntegerField:
    """A whole number within the contract's bounds."""
    most = _LARGEST_COUNT if bound.maximum is None else int(bound.maximum)
    return serializers.IntegerField(min_value=int(bound.minimum), max_value=most, **options)


class BoundedNumberField(serializers.FloatField):
    """A number within the contract's bounds; true and false are none, nor is NaN."""

    def __init__(self, bound: Bound, **options: Any) -> None:
        self.bound = bound
        super().__init__(min_value=bound.minimum, max_value=bound.maximum, **options)

    def to_internal_value(self, data: Any) -> float:
        if isinstance(data, bool):
            self.fail("invalid")
        value = super().to_internal_value(data)
        problem = self.bound.problem_with(value)
        if problem is not None:
            raise serializers.ValidationError(problem)
        return value


class NameOrIdField(serializers.CharField):
    """A reference: shown as the row's name, taken as its name or id."""

    def __init__(self, **options: Any) -> None:
        options.setdefault("help_text", "Name or id.")
        super().__init__(max_length=255, **options)

    def to_representation(self, value: Any) -> str:
        return str(value.name)


class RowSerializer(StrictSerializer):
    """What every versioned row shows."""

    id = serializers.CharField(read_only=True)
    organisation_id = serializers.CharField(read_only=True)
    version = serializers.IntegerField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    updated_at = serializers.DateTimeField(read_only=True)


class OwnedSerializer(RowSerializer):
    """A row of an organisation; `organisation` is needed by callers that have several."""

    create_only = frozenset({"organisation"})

    organisation = serializers.CharField(
        write_only=True, required=False, help_text="Name or id; needed only if you have several."
    )
