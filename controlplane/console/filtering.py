"""Filters of a list as its page shows them: controls, and a chip for each one in force."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.forms import (
    BooleanField,
    CheckboxInput,
    ChoiceField,
    DateTimeField,
    DateTimeInput,
    DecimalField,
    Form,
    NullBooleanField,
    RadioSelect,
    Select,
    Textarea,
)
from django.http import QueryDict
from django_filters import FilterSet

_LOCAL_TIME = "%Y-%m-%dT%H:%M"
_PLAIN = {"autocomplete": "off", "spellcheck": "false", "autocapitalize": "none"}
_ANY = [("", "Any"), ("true", "Yes"), ("false", "No")]


@dataclass(frozen=True, slots=True)
class Chip:
    """One filter in force, and the address of the page without it."""

    label: str
    value: str
    without: str


def asked_of(query: QueryDict, filters: type[FilterSet]) -> QueryDict:
    """The filters of an address: what was left empty is no filter."""
    asked = QueryDict(mutable=True)
    for name in filters.base_filters:
        values = [value.strip() for value in query.getlist(name) if value.strip()]
        if values:
            asked.setlist(name, values)
    return asked


def dress(form: Form, zone: str = "") -> None:
    """Give each field of a form its control; times are read in the current zone, `zone`.

    Call it before anything reads the form: a label is fixed when its field is first looked at.
    """
    for field in form.fields.values():
        if isinstance(field, DateTimeField) or isinstance(field.widget, DateTimeInput):
            field.widget = DateTimeInput({"type": "datetime-local"}, _LOCAL_TIME)
            field.label = f"{field.label}, {zone}" if zone else field.label
        elif isinstance(field, NullBooleanField):
            field.widget = Select(choices=_ANY)
        widget = field.widget
        if isinstance(widget, RadioSelect):
            # its class would be that of the group, not of its buttons
            continue
        if isinstance(widget, CheckboxInput):
            widget.attrs["class"] = "form-check-input"
            continue
        is_choice = isinstance(field, ChoiceField) or isinstance(widget, Select)
        widget.attrs["class"] = "form-select" if is_choice else "form-control"
        if isinstance(field, DecimalField):
            widget.attrs["step"] = "any"
        if not is_choice and not isinstance(field, BooleanField | DateTimeField):
            widget.attrs |= {} if isinstance(widget, Textarea) else _PLAIN


def address(path: str, query: QueryDict, **changes: str | None) -> str:
    """A page's address with these parameters set, or left out where None."""
    changed = query.copy()
    for name, value in changes.items():
        changed.pop(name, None)
        if value is not None:
            changed[name] = value
    return f"{path}?{changed.urlencode()}" if changed else path


def chips_of(filters: FilterSet, asked: QueryDict, path: str, query: QueryDict) -> Sequence[Chip]:
    """A chip for each filter in force; taking one off goes back to the first page."""
    return [_chip(filters, name, asked, path, query) for name in asked]


def _chip(filters: FilterSet, name: str, asked: QueryDict, path: str, query: QueryDict) -> Chip:
    field = filters.form.fields[name]
    labels: Mapping[object, object] = dict(getattr(field.widget, "choices", ()))
    shown = [str(labels.get(value) or value) for value in asked.getlist(name)]
    without = address(path, query, **{name: None, "page": None, "cursor": None})
    return Chip(str(field.label), ", ".join(shown), without)
