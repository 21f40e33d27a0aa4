"""The form of a limit: how much of what, for whom."""

from collections.abc import Sequence
from typing import Any, ClassVar

from django.forms import BooleanField, CharField, ChoiceField, IntegerField

from controlplane.console.diffs import Line
from controlplane.console.forms.base import NounForm, Values, bounds_of
from controlplane.decisions.limits import unit_words, window_words
from controlplane.decisions.subjects import WHOLE, kind_words, subject_words
from controlplane.errors import Invalid
from controlplane.models.kinds import enforcements
from controlplane.models.rows import LABEL_LENGTH
from controlplane.selectors.keys import list_keys
from controlplane.selectors.models import list_models
from controlplane.selectors.names import list_names
from controlplane.selectors.projects import list_projects
from controlplane.selectors.routes import list_routes
from controlplane.selectors.teams import list_teams
from controlplane.services.subjects import FIELD, find_subject
from inference.contract.kinds import Enforcement, LimitSubject, LimitUnit, LimitWindow
from inference.contract.params import LIMIT_BOUNDS

_SUBJECTS = [
    (one.value, WHOLE if one is LimitSubject.ORGANISATION else kind_words(one))
    for one in LimitSubject
]
_UNITS = [(one.value, unit_words(one)) for one in LimitUnit]
_WINDOWS = [(one.value, window_words(one)) for one in LimitWindow]
_SUGGESTED = 100
"""Names of one kind that a browser offers; any other can be written."""


class LimitForm(NounForm):
    """A limit. All of it can be changed; every change but of its name needs a reason."""

    risky: ClassVar[frozenset[str]] = frozenset(
        ("subject", FIELD, "unit", "window", "amount", "enforcement", "is_enabled")
    )
    groups = (
        ("For whom", ("subject", FIELD)),
        ("How much", ("amount", "unit", "window")),
        ("How it is held", ("enforcement", "is_enabled")),
    )

    name = CharField(label="Name", max_length=LABEL_LENGTH, help_text="What it is for.")
    subject = ChoiceField(
        label="Counts together the requests of", choices=_SUBJECTS, initial=LimitSubject.KEY.value
    )
    subject_id = CharField(
        label="Which one",
        required=False,
        max_length=255,
        help_text="Name or id; of an end user what callers write. Empty: each one is counted "
        "apart. For the whole organisation leave it empty.",
    )
    amount = IntegerField(
        label="At most",
        **bounds_of(LIMIT_BOUNDS["amount"]),
        help_text="0 is none: every request is refused.",
    )
    unit = ChoiceField(label="Of what", choices=_UNITS, initial=LimitUnit.REQUESTS.value)
    window = ChoiceField(
        label="In how long",
        required=False,
        choices=[*_WINDOWS, ("", window_words(None))],
        initial=LimitWindow.MINUTE.value,
        help_text="Windows begin at whole seconds, minutes, hours and days of UTC. Requests at "
        "once are counted at any moment, whatever is chosen here.",
    )
    enforcement = ChoiceField(
        label="If the store that counts does not answer",
        choices=enforcements,
        initial=Enforcement.LENIENT.value,
        help_text="Strict refuses, and takes beforehand the most tokens a request may use. "
        "Lenient serves and marks, and may be passed by what is under way.",
    )
    is_enabled = BooleanField(
        label="On", required=False, initial=True, help_text="Off: nothing is counted or refused."
    )

    def prepare(self) -> None:
        """Show what the limit is of by its name."""
        asked = self.initial.get(FIELD)
        if asked:
            self.initial = {**self.initial, FIELD: self._name_of_subject(asked)}
        self.fields[FIELD].widget.attrs["list"] = "subjects"

    def clean(self) -> dict[str, Any]:
        """Find what is meant, and pass over the window of what is counted at any moment."""
        found = super().clean() or {}
        if found.get("unit") == LimitUnit.PARALLEL:
            found["window"] = None
        found["window"] = found.get("window") or None
        if "subject" in found and FIELD in found:
            asked = found[FIELD] or None
            try:
                found[FIELD] = find_subject(self.scope.organisation, found["subject"], asked)
            except Invalid as error:
                for message in error.fields[FIELD]:
                    self.add_error(FIELD, message)
        return found

    @property
    def suggestions(self) -> Sequence[tuple[str, str]]:
        """Names and their kinds, for the browser to offer."""
        access, home = self.scope.access, self.scope.organisation.pk
        kinds = {
            "team": list_teams(access),
            "project": list_projects(access),
            "key": list_keys(access).filter(revoked_at__isnull=True).prefetch_related(None),
            "model": list_models(access),
            "route": list_routes(access).prefetch_related(None),
        }
        return [
            (name, kind)
            for kind, rows in kinds.items()
            for name in rows.filter(organisation_id=home)
            .order_by("name")
            .values_list("name", flat=True)[:_SUGGESTED]
        ]

    def lines(self, base: Values | None, changes: Values) -> Sequence[Line]:
        """A line a field, and one for whom it counts."""
        of_subject = ("subject", FIELD)
        rest = {name: value for name, value in changes.items() if name not in of_subject}
        found = list(super().lines(base, rest))
        if not changes.keys().isdisjoint(of_subject):
            before = None if base is None else self.subject_of(base)
            found.insert(0, Line("For", before, self.subject_of(self.values())))
        return found

    def subject_of(self, values: Values) -> str:
        """For whom it counts, in words."""
        pk = values.get(FIELD)
        name = None if pk is None else self._name_of_subject(pk)
        return subject_words(str(values.get("subject")), pk, name)

    def unset(self, name: str) -> str:
        return window_words(None) if name == "window" else super().unset(name)

    def _name_of_subject(self, pk: str) -> str:
        return list_names(self.scope.access, {pk}).get(pk, pk)
