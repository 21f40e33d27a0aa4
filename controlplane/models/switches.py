"""Kill switches that are thrown: a row is off, no row is on."""

from django.db.models import (
    CASCADE,
    CharField,
    DateTimeField,
    ForeignKey,
    TextField,
    UniqueConstraint,
)

from controlplane.models.kinds import switch_subjects
from controlplane.models.organisations import Organisation
from controlplane.models.rows import VersionedRow, id_field, printable_name, switch_id


class Switch(VersionedRow):
    """One switch; the fields mean what they do in `snapshot.SwitchRecord`.

    `subject_id` is the id the subject's row has here, a key's with its prefix.
    """

    id = id_field(switch_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="switches")
    subject = CharField(max_length=16, choices=switch_subjects)
    subject_id = TextField(null=True, blank=True)
    reason = CharField(max_length=200, blank=True, default="", validators=[printable_name])
    expires_at = DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["organisation", "subject", "subject_id"],
                nulls_distinct=False,
                name="switch_subject_unique",
                violation_error_message="This is switched off already.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.subject}:{self.subject_id or 'all'}"
