"""The form of a noun: its values as the page, the review and the service each need them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from django.forms import ChoiceField, Field, Form
from django.forms.models import ModelChoiceField

from controlplane.console.diffs import NOT_SET, Line, shown
from controlplane.console.filtering import dress
from controlplane.console.scope import Scope
from controlplane.errors import ControlPlaneError, Fields
from inference.contract.params import Bound

Values = Mapping[str, Any]
_LARGEST_COUNT = 2_147_483_647


def bounds_of(bound: Bound) -> dict[str, Any]:
    """The contract's bounds as a number's field takes them."""
    most = _LARGEST_COUNT if bound.maximum is None else bound.maximum
    return {"min_value": bound.minimum, "max_value": most}


class NounForm(Form):
    """Fields as a service takes them, one look, and their difference.

    A subclass declares Django fields named as the service's; `initial_of` reads a row. Give units
    in labels (`First-token timeout, ms`). `risky` names the fields whose change needs a reason,
    `fixed` those that are set once, at creation; `secrets` those never written into a page.
    """

    risky: ClassVar[frozenset[str]] = frozenset()
    fixed: ClassVar[frozenset[str]] = frozenset()
    secrets: ClassVar[frozenset[str]] = frozenset()
    groups: ClassVar[Sequence[tuple[str, Sequence[str]]]] = ()

    def __init__(self, data: Any = None, *, scope: Scope, row: Any = None, **options: Any) -> None:
        options.setdefault("use_required_attribute", False)
        super().__init__(data, **options)
        self.scope = scope
        self.row = row
        if row is not None:
            for name in self.fixed:
                del self.fields[name]
        self.prepare()
        dress(self)

    def prepare(self) -> None:
        """Fill in choices that depend on organisation or row; before fields get their controls."""

    @classmethod
    def initial_of(cls, row: Any) -> dict[str, Any]:
        """A row's values as the form's, by field."""
        return {name: getattr(row, name) for name in cls.base_fields if hasattr(row, name)}

    def values(self) -> dict[str, Any]:
        """All cleaned values as the service takes them."""
        return {name: self.cleaned_data[name] for name in self.fields if name in self.cleaned_data}

    def plain(self, name: str, value: Any) -> Any:
        """A value as JSON, as the REST API takes it; ids stand for rows."""
        if hasattr(value, "pk"):
            return value.pk
        if name.endswith(("_nanousd_per_mtok", "_nanousd")) and value is not None:
            return str(value)
        return value

    def document(self, values: Values) -> dict[str, Any]:
        """Values as the body of the same REST call; secrets as shell variables."""
        return {
            name: f"${name.upper()}" if name in self.secrets and value else self.plain(name, value)
            for name, value in values.items()
        }

    def base_of(self, values: Values) -> dict[str, Any]:
        """Values a page carries along, to know later what its reader changed."""
        return {
            name: self.plain(name, value)
            for name, value in values.items()
            if name not in self.secrets
        }

    def changes(self, base: Values, only: Iterable[str] | None = None) -> dict[str, Any]:
        """What the reader changed since `base`; a secret counts as changed once one is given."""
        wanted = None if only is None else set(only)
        return {
            name: value
            for name, value in self.values().items()
            if self._is_changed(name, value, base) and (wanted is None or name in wanted)
        }

    def _is_changed(self, name: str, value: Any, base: Values) -> bool:
        if name in self.secrets:
            return bool(value)
        return bool(self.plain(name, value) != base.get(name))

    def shown(self, name: str, value: Any) -> str:
        """A plain value in words."""
        field = self.fields.get(name)
        if value is None or value in ("", []):
            return self.unset(name)
        if name in self.secrets:
            return "\N{BULLET}" * 8
        if isinstance(field, ModelChoiceField):
            return self._name_of(field, value)
        if isinstance(field, ChoiceField):
            return str(dict(field.choices).get(value, value))  # type: ignore[arg-type]
        return shown(name, value)

    def unset(self, name: str) -> str:
        """The word for a value that isn't set."""
        return NOT_SET

    def _name_of(self, field: ModelChoiceField, pk: Any) -> str:
        row = field.queryset.filter(pk=pk).first()  # type: ignore[union-attr]
        return str(pk) if row is None else field.label_from_instance(row)

    def label(self, name: str) -> str:
        """A field's label without its unit."""
        field = self.fields.get(name)
        told = str(field.label) if field is not None and field.label else name.replace("_", " ")
        return told.partition(", ")[0]

    def lines(self, base: Values | None, changes: Values) -> Sequence[Line]:
        """The difference a review shows; without a base everything is new."""
        return [
            Line(
                self.label(name),
                None if base is None else self.shown(name, base.get(name)),
                self.shown(name, self.plain(name, value)),
            )
            for name, value in changes.items()
        ]

    def is_risky(self, changes: Values) -> bool:
        """Tell whether this change needs a reason."""
        return not self.risky.isdisjoint(changes)

    def refuse(self, error: ControlPlaneError) -> None:
        """Put a service's refusal at the fields it names; what it says of others, at the top."""
        placed = False
        for name, messages in error.fields.items():
            placed |= self.place_error(name, messages)
        if not placed or _others(error.fields, self.fields):
            self.add_error(None, error.detail)

    def place_error(self, name: str, messages: Sequence[str]) -> bool:
        """Show messages at a field; at the top, with its name, if the form has no such field."""
        if name in self.fields:
            for message in messages:
                self.add_error(name, message)
            return True
        for message in messages:
            self.add_error(None, f"{name}: {message}")
        return True

    @property
    def sections(self) -> Sequence[tuple[str, Sequence[Any]]]:
        """The bound fields under their headings; those in no group come first."""
        grouped = {name for _, names in self.groups for name in names}
        first = [self[name] for name in self.fields if name not in grouped]
        rest = [
            (title, [self[name] for name in names if name in self.fields])
            for title, names in self.groups
        ]
        return [("", first), *((title, fields) for title, fields in rest if fields)]


def _others(fields: Fields, known: Mapping[str, Field]) -> bool:
    return not fields or any("." in name and name.split(".")[0] not in known for name in fields)
