"""Forms of API keys: what a key may do, and how long old secrets live when it gets a new one."""

import re
from collections.abc import Sequence
from typing import Any

from django.forms import (
    CharField,
    CheckboxSelectMultiple,
    ChoiceField,
    DateTimeField,
    ModelChoiceField,
    ModelMultipleChoiceField,
    MultipleChoiceField,
    RadioSelect,
)

from controlplane.console.forms.base import NounForm, Values
from controlplane.models import Key, Project, Route
from controlplane.models.kinds import priorities, scopes, task_classes
from controlplane.models.rows import LABEL_LENGTH
from controlplane.selectors.projects import list_projects
from controlplane.selectors.routes import list_routes
from inference.contract.kinds import PriorityClass
from inference.contract.kinds import Scope as KeyScope

EVERY, SOME = "every", "some"
AS_THE_ROUTE = "as the route has it"
NO_OVERLAP = "0"
OVERLAPS = [
    (NO_OVERLAP, "none: the old secret ends now"),
    ("3600", "1 hour"),
    ("86400", "24 hours"),
    ("604800", "7 days"),
]
DEFAULT_OVERLAP = "86400"


class TagsField(CharField):
    """Words with commas or blanks between them, as a list without repeats."""

    def clean(self, value: Any) -> Any:
        words = re.split(r"[,\s]+", super().clean(value))
        return list(dict.fromkeys(word for word in words if word))

    def prepare_value(self, value: Any) -> Any:
        return ", ".join(value) if isinstance(value, list) else value


class KeyForm(NounForm):
    """A key. Its project is chosen once: usage and roles hang on it."""

    fixed = frozenset({"project"})
    risky = frozenset({"scopes", "routes", "expires_at", "priority"})
    groups = (("Its requests", ("priority", "default_task", "tags")),)

    name = CharField(label="Name", max_length=LABEL_LENGTH, help_text="Who or what uses it.")
    project = ModelChoiceField(
        label="Project",
        queryset=Project.objects.none(),
        empty_label=None,
        help_text="Its usage is booked there. It can't be changed later.",
    )
    scopes = MultipleChoiceField(
        label="Scopes",
        choices=scopes,
        widget=CheckboxSelectMultiple,
        initial=[KeyScope.INFERENCE.value],
        help_text="inference: call models. debug: see why a request went where it went.",
    )
    reach = ChoiceField(
        label="Reach",
        choices=[(EVERY, "every route, also those made later"), (SOME, "these routes only")],
        widget=RadioSelect,
        initial=EVERY,
    )
    routes = ModelMultipleChoiceField(
        label="Routes",
        queryset=Route.objects.none(),
        widget=CheckboxSelectMultiple,
        required=False,
        to_field_name="name",
        help_text="None chosen: the key reaches nothing.",
    )
    expires_at = DateTimeField(
        label="Expires", required=False, help_text="Empty: it does not expire."
    )
    priority = ChoiceField(
        label="Priority",
        choices=priorities,
        initial=PriorityClass.DEFAULT.value,
        help_text="Who waits for whom where there is not room for all. Callers may ask for less, "
        "never for more.",
    )
    default_task = ChoiceField(
        label="Task",
        choices=[("", AS_THE_ROUTE), *task_classes()],
        required=False,
        help_text="What they are for, unless they say so themselves.",
    )
    tags = TagsField(
        label="Tags",
        required=False,
        help_text="Words with commas between them, for rules of routes.",
    )

    def prepare(self) -> None:
        """Offer the organisation's routes, and the projects in which the reader may make keys."""
        organisation_id = self.scope.organisation.pk
        routes = list_routes(self.scope.access).filter(organisation_id=organisation_id)
        self.fields["routes"].queryset = routes.prefetch_related(None).order_by("name")  # type: ignore[attr-defined]
        self.fields["expires_at"].label = f"Expires, {self.scope.zone.key}"
        if "project" in self.fields:
            self.fields["project"].queryset = self._projects()  # type: ignore[attr-defined]

    def _projects(self) -> Any:
        access, organisation_id = self.scope.access, self.scope.organisation.pk
        rows = list_projects(access).filter(organisation_id=organisation_id)
        writable = [
            row.pk
            for row in rows
            if access.may_write("keys", organisation_id, team_id=row.team_id, project_id=row.pk)
        ]
        return rows.filter(pk__in=writable).order_by("-is_default", "name")

    @classmethod
    def initial_of(cls, row: Key) -> dict[str, Any]:
        names = sorted(route.name for route in row.routes.all())
        return {
            "name": row.name,
            "scopes": list(row.scopes),
            "reach": SOME if row.is_restricted else EVERY,
            "routes": names if row.is_restricted else None,
            "expires_at": row.expires_at,
            "priority": row.priority,
            "default_task": row.default_task,
            "tags": list(row.tags),
        }

    def values(self) -> dict[str, Any]:
        """Values as the service takes them: routes None is every route, [] none."""
        found = super().values()
        reach = found.pop("reach", EVERY)
        chosen = found.pop("routes", ())
        found["default_task"] = found.get("default_task") or None
        found["routes"] = None if reach == EVERY else sorted(one.name for one in chosen)
        return found

    def base_of(self, values: Values) -> dict[str, Any]:
        kept = {name: value for name, value in values.items() if name != "reach"}
        return super().base_of(kept)

    def plain(self, name: str, value: Any) -> Any:
        if name == "expires_at" and value is not None and not isinstance(value, str):
            # controls of times know minutes alone: what they can't hold is no difference
            return value.replace(second=0, microsecond=0).isoformat()
        return super().plain(name, value)

    def shown(self, name: str, value: Any) -> str:
        if name == "routes":
            return self._routes_words(value)
        if name == "scopes":
            return ", ".join(value or ())
        if name == "expires_at" and value is None:
            return "never"
        return super().shown(name, value)

    def unset(self, name: str) -> str:
        return {"default_task": AS_THE_ROUTE, "tags": "none"}.get(name, super().unset(name))

    def _routes_words(self, names: Sequence[str] | None) -> str:
        if names is None:
            return "every route"
        return ", ".join(names) or "none"


class RotateForm(NounForm):
    """How long the old secrets are accepted beside the new one."""

    overlap_s = ChoiceField(
        label="Old secrets are accepted for",
        choices=OVERLAPS,
        widget=RadioSelect,
        initial=DEFAULT_OVERLAP,
    )
