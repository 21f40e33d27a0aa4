"""The price book: what a model's tokens cost, by versions that are never changed."""

from collections.abc import Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db.models import (
    CASCADE,
    BigIntegerField,
    CheckConstraint,
    DateTimeField,
    ForeignKey,
    Model,
    Q,
    TextField,
    UniqueConstraint,
)
from django.utils import timezone

from controlplane.decisions.prices import AMOUNTS, in_force, is_priced, upcoming
from controlplane.models.models import CatalogueModel
from controlplane.models.organisations import Organisation
from controlplane.models.pools import Pool
from controlplane.models.rows import VersionedRow, id_field, price_id, price_version_id


class Price(VersionedRow):
    """A place in the price book: a model, or a model in one pool, which goes before it.

    Its `versions` say what it costs and from when on; what is in force now reads like a field of
    its own. No version in force is an unknown price, which is never zero. One that was removed
    keeps its versions, for what was booked at them.
    """

    id = id_field(price_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="prices")
    model = ForeignKey(CatalogueModel, CASCADE, related_name="prices")
    pool = ForeignKey(Pool, CASCADE, related_name="prices", null=True, blank=True)
    removed_at = DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["pool", "model"],
                name="price_once",
                nulls_distinct=False,
                violation_error_message="The model has a price already.",
            ),
        ]

    def __str__(self) -> str:
        return self.id

    def at(self, moment: datetime) -> "PriceVersion | None":
        """The version in force at a moment."""
        return in_force(self.versions.all(), moment)

    @property
    def current(self) -> "PriceVersion | None":
        """The version in force now."""
        return self.at(timezone.now())

    @property
    def next(self) -> "PriceVersion | None":
        """The version that is in force after the one now; None if none is planned."""
        return next(iter(self.upcoming), None)

    @property
    def upcoming(self) -> "Sequence[PriceVersion]":
        """Versions that begin later, the next one first."""
        return upcoming(self.versions.all(), timezone.now())

    @property
    def is_priced(self) -> bool:
        """Whether what it costs is known now."""
        return self.input_nanousd_per_mtok is not None

    @property
    def effective_from(self) -> datetime | None:
        return self._now("effective_from")

    @property
    def version_id(self) -> str | None:
        return self._now("pk")

    @property
    def input_nanousd_per_mtok(self) -> int | None:
        return self._now("input_nanousd_per_mtok")

    @property
    def output_nanousd_per_mtok(self) -> int | None:
        return self._now("output_nanousd_per_mtok")

    @property
    def cached_input_nanousd_per_mtok(self) -> int | None:
        return self._now("cached_input_nanousd_per_mtok")

    @property
    def reasoning_output_nanousd_per_mtok(self) -> int | None:
        return self._now("reasoning_output_nanousd_per_mtok")

    @property
    def embedding_input_nanousd_per_mtok(self) -> int | None:
        return self._now("embedding_input_nanousd_per_mtok")

    @property
    def request_nanousd(self) -> int | None:
        return self._now("request_nanousd")

    @property
    def customer_input_nanousd_per_mtok(self) -> int | None:
        return self._now("customer_input_nanousd_per_mtok")

    @property
    def customer_output_nanousd_per_mtok(self) -> int | None:
        return self._now("customer_output_nanousd_per_mtok")

    def _now(self, name: str) -> Any:
        current = self.current
        return None if current is None else getattr(current, name)


def _not_negative(field: str) -> CheckConstraint:
    return CheckConstraint(
        condition=Q(**{f"{field}__isnull": True}) | Q(**{f"{field}__gte": 0}),
        name=f"price_version_{field.removesuffix('_per_mtok').removesuffix('_nanousd')}_not_negative",
        violation_error_message="A price can't be negative.",
    )


class PriceVersion(Model):
    """What a price is from a moment on, in nano-USD for a million tokens; never changed.

    The meaning of the amounts is `snapshot.PriceRecord`'s. Without input and output it ends the
    price. `customer_…` is what customers are asked for the same tokens; null is not known.
    """

    id = id_field(price_version_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="+")
    price = ForeignKey(Price, CASCADE, related_name="versions")
    effective_from = DateTimeField()
    input_nanousd_per_mtok = BigIntegerField(null=True, blank=True)
    output_nanousd_per_mtok = BigIntegerField(null=True, blank=True)
    cached_input_nanousd_per_mtok = BigIntegerField(null=True, blank=True)
    reasoning_output_nanousd_per_mtok = BigIntegerField(null=True, blank=True)
    embedding_input_nanousd_per_mtok = BigIntegerField(null=True, blank=True)
    request_nanousd = BigIntegerField(null=True, blank=True)
    customer_input_nanousd_per_mtok = BigIntegerField(null=True, blank=True)
    customer_output_nanousd_per_mtok = BigIntegerField(null=True, blank=True)
    created_at = DateTimeField(default=timezone.now, editable=False)
    created_by = TextField(default="", blank=True, editable=False)

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["price", "effective_from"],
                name="price_version_once",
                violation_error_message="A version begins at this moment already.",
            ),
            CheckConstraint(
                condition=Q(
                    input_nanousd_per_mtok__isnull=True, output_nanousd_per_mtok__isnull=True
                )
                | Q(input_nanousd_per_mtok__isnull=False, output_nanousd_per_mtok__isnull=False),
                name="price_version_of_both_sides",
                violation_error_message="A price is of input and output, or of neither.",
            ),
            *map(_not_negative, AMOUNTS),
        ]

    def __str__(self) -> str:
        return self.id

    @cached_property
    def amounts(self) -> dict[str, int | None]:
        """What it says, by field."""
        return {name: getattr(self, name) for name in AMOUNTS}

    @property
    def is_priced(self) -> bool:
        return is_priced(self.amounts)
