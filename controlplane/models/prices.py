"""Prices: what a model's tokens cost, one list price a model."""

from django.db.models import (
    CASCADE,
    BigIntegerField,
    CheckConstraint,
    ForeignKey,
    OneToOneField,
    Q,
)

from controlplane.models.models import CatalogueModel
from controlplane.models.organisations import Organisation
from controlplane.models.rows import VersionedRow, id_field, price_id


def _not_negative(field: str) -> CheckConstraint:
    return CheckConstraint(
        condition=Q(**{f"{field}__isnull": True}) | Q(**{f"{field}__gte": 0}),
        name=f"price_{field.removesuffix('_nanousd_per_mtok')}_not_negative",
        violation_error_message="A price can't be negative.",
    )


class Price(VersionedRow):
    """Nano-USD for a million tokens. No row is an unknown price, which is never zero."""

    id = id_field(price_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="prices")
    model = OneToOneField(
        CatalogueModel,
        CASCADE,
        related_name="price",
        error_messages={"unique": "The model has a price already."},
    )
    input_nanousd_per_mtok = BigIntegerField()
    output_nanousd_per_mtok = BigIntegerField()
    cached_input_nanousd_per_mtok = BigIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            _not_negative("input_nanousd_per_mtok"),
            _not_negative("output_nanousd_per_mtok"),
            _not_negative("cached_input_nanousd_per_mtok"),
        ]

    def __str__(self) -> str:
        return self.id
