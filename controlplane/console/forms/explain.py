"""The question of the Explain page: one request, as its caller would make it."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.forms import (
    CharField,
    ChoiceField,
    DateTimeField,
    FloatField,
    Form,
    IntegerField,
    Textarea,
)

from controlplane.console.filtering import dress
from controlplane.console.scope import Scope
from controlplane.errors import Fields
from controlplane.selectors.keys import list_keys
from controlplane.selectors.projects import list_projects
from inference.contract.kinds import Endpoint, PriorityClass, TaskClass

MOST_CALLERS = 500
"""More make no list to choose from; the API takes any by name."""

MAX_PROMPT = 200_000
_MOST = 2**31 - 1
_LIKELY = ("model", "caller", "endpoint", "prompt", "prompt_tokens", "max_tokens")


def _named(kind: type[Any], words: str) -> list[tuple[str, str]]:
    return [("", words), *((one.value, one.value.replace("_", " ")) for one in kind)]


class ExplainForm(Form):
    """One request; an empty field says nothing of it. Nothing is kept of the prompt."""

    model = CharField(max_length=128, label="Model", help_text="What the caller writes in `model`.")
    caller = ChoiceField(label="Caller", help_text="A key, or a project whose keys see all routes.")
    endpoint = ChoiceField(
        label="Endpoint",
        choices=[(one.value, one.value.replace("_", " ")) for one in Endpoint],
        initial=Endpoint.CHAT.value,
    )
    prompt = CharField(
        required=False,
        max_length=MAX_PROMPT,
        strip=False,
        label="Prompt",
        help_text="Its length alone is used, and nothing of it is kept.",
        widget=Textarea({"rows": 3}),
    )
    prompt_tokens = IntegerField(
        required=False, min_value=0, max_value=_MOST, label="or prompt, tokens"
    )
    max_tokens = IntegerField(
        required=False, min_value=0, max_value=_MOST, label="Output at most, tokens"
    )
    tags = CharField(required=False, max_length=500, label="Tags, by commas")
    priority = ChoiceField(
        required=False, label="Priority", choices=_named(PriorityClass, "the key's")
    )
    task = ChoiceField(required=False, label="Task", choices=_named(TaskClass, "the key's"))
    end_user = CharField(required=False, max_length=255, label="End user")
    session = CharField(required=False, max_length=255, label="Session")
    headers = CharField(
        required=False,
        max_length=2_000,
        label="Headers, one a line",
        widget=Textarea({"rows": 2, "placeholder": "x-team: search"}),
    )
    at = DateTimeField(required=False, label="When it comes")
    process = CharField(required=False, max_length=255, label="Gateway process")
    plan_u = FloatField(
        required=False, min_value=0, max_value=0.9999999999, label="Chance of the plan"
    )
    worker_u = FloatField(
        required=False, min_value=0, max_value=0.9999999999, label="Chance of the choice"
    )

    def __init__(self, data: Any = None, *, scope: Scope, **options: Any) -> None:
        options.setdefault("use_required_attribute", False)
        super().__init__(data, **options)
        self.fields["caller"].choices = _callers(scope)  # type: ignore[attr-defined]
        dress(self, scope.zone.key)
        self.fields["model"].widget.attrs["list"] = "known-models"

    @property
    def first(self) -> Sequence[Any]:
        """What most questions say."""
        return [self[name] for name in _LIKELY]

    @property
    def more(self) -> Sequence[Any]:
        """What few do."""
        return [self[name] for name in self.fields if name not in _LIKELY]

    @property
    def says_more(self) -> bool:
        """Whether any of those was filled in, or is wrong."""
        return any(self[one.name].value() or one.errors for one in self.more)

    def clean_headers(self) -> Mapping[str, str]:
        """Names and values, the names in lower case."""
        found: dict[str, str] = {}
        for line in self.cleaned_data["headers"].splitlines():
            name, colon, value = line.partition(":")
            if line.strip() and not (colon and name.strip()):
                raise ValidationError("Write each as `name: value`.")
            if line.strip():
                found[name.strip().lower()] = value.strip()
        return found

    def clean_tags(self) -> Sequence[str]:
        """Each tag once."""
        texts = (text.strip() for text in self.cleaned_data["tags"].split(","))
        return list(dict.fromkeys(text for text in texts if text))

    def values(self) -> dict[str, Any]:
        """What was said, by the names of the API's question."""
        values = {
            name: value
            for name, value in self.cleaned_data.items()
            if value not in ("", None, [], {}) and name != "caller"
        }
        if "prompt" in values:
            values.pop("prompt_tokens", None)
        kind, _, pk = self.cleaned_data["caller"].partition(":")
        return {**values, kind: pk}

    def refuse(self, fields: Fields, detail: str) -> None:
        """Put a refusal at the fields it names."""
        for name, messages in fields.items():
            place = "caller" if name in ("key", "project") else name
            for message in messages:
                self.add_error(place if place in self.fields else None, message)
        if not fields:
            self.add_error(None, detail)


def _callers(scope: Scope) -> Sequence[tuple[str, Any]]:
    organisation_id = scope.organisation.pk
    projects = list_projects(scope.access).filter(organisation_id=organisation_id)
    keys = list_keys(scope.access).filter(organisation_id=organisation_id, revoked_at=None)
    return [
        ("Projects", [(f"project:{one.pk}", one.name) for one in projects[:MOST_CALLERS]]),
        (
            "Keys",
            [(f"key:{one.pk}", f"{one.name}, {one.project.name}") for one in keys[:MOST_CALLERS]],
        ),
    ]
