"""The catalogue: what models there are, whoever serves them."""

from typing import TYPE_CHECKING

from django.db.models import (
    CASCADE,
    CharField,
    CheckConstraint,
    ForeignKey,
    PositiveIntegerField,
    Q,
    UniqueConstraint,
)

from controlplane.models.kinds import tasks
from controlplane.models.organisations import Organisation
from controlplane.models.rows import VersionedRow, id_field, model_id, name_matches, public_name
from inference.contract.kinds import Task
from inference.contract.params import ROUTE_NAME_PATTERN

if TYPE_CHECKING:
    from controlplane.models.prices import Price


class CatalogueModel(VersionedRow):
    """A model of the catalogue. `max_context_tokens` is prompt plus output; null is not known."""

    id = id_field(model_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="models")
    name = CharField(max_length=128, validators=[public_name])
    task = CharField(max_length=32, choices=tasks, default=Task.GENERATE.value)
    max_context_tokens = PositiveIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["organisation", "name"],
                name="model_name_unique",
                violation_error_message="The catalogue has a model of this name already.",
            ),
            name_matches("model", ROUTE_NAME_PATTERN),
            CheckConstraint(
                condition=Q(max_context_tokens__isnull=True) | Q(max_context_tokens__gte=1),
                name="model_context_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def price(self) -> "Price | None":
        """Its own place in the price book, whatever pool serves it; None if it has none."""
        for one in self.prices.all():
            if one.pool_id is None and one.removed_at is None:
                return one
        return None
