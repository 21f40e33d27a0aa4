"""The controls of the request filters."""

from django.forms import ChoiceField, DateTimeInput, DecimalField, Form

SUGGESTED = ("route", "pool", "model", "project")
FOLDED = (
    *("failed", "endpoint", "project", "key", "end_user", "tag", "priority", "task", "rule"),
    *("cache", "entry"),
    *("min_cost", "from", "to"),
)
TIMES = ("from", "to")

_LOCAL_TIME = "%Y-%m-%dT%H:%M"
_PLAIN = {"autocomplete": "off", "spellcheck": "false", "autocapitalize": "none"}


def dress(form: Form, zone: str) -> None:
    """Give each field its control: suggestions for names, the browser's own for times.

    Times are read in the current time zone, which the page has made `zone`. Call it before
    anything reads the form: a label is fixed when its field is first looked at.
    """
    for name, field in form.fields.items():
        if name in TIMES:
            field.widget = DateTimeInput({"type": "datetime-local"}, _LOCAL_TIME)
            field.label = f"{field.label}, {zone}"
        is_choice = isinstance(field, ChoiceField)
        field.widget.attrs["class"] = "form-select" if is_choice else "form-control"
        if name in SUGGESTED:
            field.widget.attrs["list"] = f"known-{name}"
        if not is_choice and name not in TIMES:
            field.widget.attrs |= _PLAIN
        if isinstance(field, DecimalField):
            field.widget.attrs["step"] = "any"
