"""Limits: how much of something a subject may have in a window, or at once."""

from django.db.models import (
    CASCADE,
    BigIntegerField,
    BooleanField,
    CharField,
    CheckConstraint,
    ForeignKey,
    Q,
    TextField,
    UniqueConstraint,
)
from django.db.models.functions import Lower

from controlplane.models.kinds import enforcements, limit_subjects, limit_units, limit_windows
from controlplane.models.organisations import Organisation
from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    id_field,
    in_bounds,
    limit_id,
    name_is_label,
    printable_name,
)
from inference.contract.kinds import Enforcement, LimitUnit
from inference.contract.params import LIMIT_BOUNDS


class Limit(VersionedRow):
    """One limit; the fields mean what they do in `snapshot.LimitRecord`.

    `subject_id` is the id the row of the subject has here, a key's with its prefix, or an end
    user's name; null has each one counted apart.
    """

    id = id_field(limit_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="limits")
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])
    subject = CharField(max_length=16, choices=limit_subjects)
    subject_id = TextField(null=True, blank=True)
    unit = CharField(max_length=16, choices=limit_units)
    window = CharField(max_length=8, choices=limit_windows, null=True, blank=True)
    amount = BigIntegerField()
    enforcement = CharField(max_length=8, choices=enforcements, default=Enforcement.LENIENT.value)
    is_enabled = BooleanField(default=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                "organisation",
                Lower("name"),
                name="limit_name_unique",
                violation_error_message="The organisation has a limit of this name already.",
            ),
            name_is_label("limit"),
            CheckConstraint(
                condition=Q(unit=LimitUnit.PARALLEL.value, window__isnull=True)
                | (~Q(unit=LimitUnit.PARALLEL.value) & Q(window__isnull=False)),
                name="limit_window_fits_unit",
                violation_error_message="All but limits on parallel requests need a window, "
                "and those have none.",
            ),
            *in_bounds("limit", LIMIT_BOUNDS),
        ]

    def __str__(self) -> str:
        return self.name
