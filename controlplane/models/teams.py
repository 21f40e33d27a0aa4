"""Teams of an organisation."""

from django.db.models import CASCADE, CharField, ForeignKey, UniqueConstraint
from django.db.models.functions import Lower

from controlplane.models.organisations import Organisation
from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    id_field,
    name_is_label,
    printable_name,
    team_id,
)


class Team(VersionedRow):
    """Who a project belongs to."""

    id = id_field(team_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="teams")
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])

    class Meta:
        constraints = [
            UniqueConstraint(
                "organisation",
                Lower("name"),
                name="team_name_unique",
                violation_error_message="The organisation has a team of this name already.",
            ),
            name_is_label("team"),
        ]

    def __str__(self) -> str:
        return self.name
