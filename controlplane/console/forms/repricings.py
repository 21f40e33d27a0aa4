"""Forms of putting right what was booked: prices anew, corrections by hand, lists from files."""

from typing import Any, ClassVar

from django.forms import (
    BooleanField,
    CharField,
    ChoiceField,
    DateTimeField,
    FileField,
    ModelChoiceField,
    Textarea,
)

from controlplane.console.forms.base import NounForm
from controlplane.console.forms.money import DollarsField
from controlplane.decisions.price_lists import MOST_BYTES
from controlplane.models import CatalogueModel, Pool, Project, Team
from controlplane.models.gpu_costs import GPU_TYPE_LENGTH
from controlplane.models.kinds import capacity_classes
from controlplane.selectors.models import list_models
from controlplane.selectors.pools import list_pools
from controlplane.selectors.projects import list_projects
from controlplane.selectors.teams import list_teams
from controlplane.services.corrections import MOST_NANOUSD, SUBJECTS

_REASON_LENGTH = 2_000
_MOST_DOLLARS = MOST_NANOUSD // 10**9


class _OfOrganisation(NounForm):
    """A form some of whose fields are rows of the organisation."""

    offered: ClassVar[dict[str, Any]] = {}

    def prepare(self) -> None:
        for name, rows in self.offered.items():
            field = self.fields[name]
            assert isinstance(field, ModelChoiceField)
            found = rows(self.scope.access).filter(organisation_id=self.scope.organisation.pk)
            field.queryset = found.order_by("name")

    def plain(self, name: str, value: Any) -> Any:
        if hasattr(value, "isoformat"):
            return value.isoformat()
        return super().plain(name, value)


class RepricingForm(_OfOrganisation):
    """Which requests to price at the book as it is now; nothing is booked by asking."""

    offered: ClassVar[dict[str, Any]] = {
        "team": list_teams,
        "project": list_projects,
        "model": list_models,
        "pool": list_pools,
    }

    since = DateTimeField(label="Came from")
    until = DateTimeField(label="Until", help_text="100 days at most.")
    team = ModelChoiceField(Team.objects.none(), required=False, empty_label="all", label="Team")
    project = ModelChoiceField(
        Project.objects.none(), required=False, empty_label="all", label="Project"
    )
    model = ModelChoiceField(
        CatalogueModel.objects.none(), required=False, empty_label="all", label="Model"
    )
    pool = ModelChoiceField(Pool.objects.none(), required=False, empty_label="all", label="Pool")
    reason = CharField(
        label="Reason", max_length=_REASON_LENGTH, help_text="Kept with each correction."
    )

    def prepare(self) -> None:
        super().prepare()
        for name, label in (("since", "Came from"), ("until", "Until")):
            self.fields[name].label = f"{label}, {self.scope.zone.key}"


class CorrectionForm(_OfOrganisation):
    """An amount more or less for a subject, by hand."""

    offered: ClassVar[dict[str, Any]] = {"model": list_models}

    subject = ChoiceField(label="Of", choices=[(one, one) for one in SUBJECTS])
    subject_id = CharField(
        label="Which one", required=False, help_text="Its name or id. Empty for the organisation."
    )
    amount_nanousd = DollarsField(
        label="Amount, USD",
        min_value=-_MOST_DOLLARS,
        max_value=_MOST_DOLLARS,
        help_text="Negative takes from what was spent.",
    )
    at = DateTimeField(
        label="Belongs to",
        required=False,
        help_text="The hour, day and budgets' periods it counts in. Empty: now.",
    )
    model = ModelChoiceField(
        CatalogueModel.objects.none(), required=False, empty_label="none", label="Of model"
    )
    end_user = CharField(label="Of end user", required=False, max_length=255)
    reason = CharField(label="Reason", max_length=_REASON_LENGTH)

    def prepare(self) -> None:
        super().prepare()
        self.fields["at"].label = f"Belongs to, {self.scope.zone.key}"

    def values(self) -> dict[str, Any]:
        found = super().values()
        found["subject_id"] = found["subject_id"] or None
        found["end_user"] = found["end_user"] or None
        return found


class GpuPriceForm(NounForm):
    """What an hour of one GPU costs from a moment on."""

    gpu_type = CharField(label="GPU", max_length=GPU_TYPE_LENGTH, help_text="Such as H100.")
    capacity_class = ChoiceField(label="Capacity class", choices=capacity_classes)
    hour_nanousd = DollarsField(label="GPU-hour, USD")
    effective_from = DateTimeField(
        label="In force from", required=False, help_text="Empty: from now on."
    )
    is_confirmed = BooleanField(label="More than $100 an hour is meant", required=False)

    def prepare(self) -> None:
        self.fields["effective_from"].label = f"In force from, {self.scope.zone.key}"


class PriceListForm(NounForm):
    """A price list, as a file or as text."""

    file = FileField(label="CSV or JSON file", required=False, max_length=200)
    content = CharField(
        label="Or its text",
        required=False,
        strip=False,
        max_length=MOST_BYTES,
        widget=Textarea({"rows": 8, "spellcheck": "false", "class": "mono"}),
        help_text="Columns: model, pool, input, output, cached_input, reasoning_output, "
        "embedding_input, request, customer_input, customer_output, effective_from. "
        "US dollars per 1M tokens; a request's for one.",
    )
    is_confirmed = BooleanField(label="Prices above a dollar a token are meant", required=False)

    def clean(self) -> dict[str, Any]:
        values = super().clean() or {}
        upload = values.get("file")
        if upload is not None:
            if upload.size > MOST_BYTES:
                self.add_error("file", f"The file has more than {MOST_BYTES:,} bytes.")
                return values
            try:
                values["content"] = upload.read().decode("utf-8-sig")
            except UnicodeDecodeError:
                self.add_error("file", "The file isn't text in UTF-8.")
        if not values.get("content") and not self.errors:
            self.add_error("content", "Choose a file or paste its text.")
        return values
