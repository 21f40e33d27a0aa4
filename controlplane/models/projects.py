"""Projects: what keys, usage and money are booked on."""

from django.db.models import (
    CASCADE,
    PROTECT,
    BooleanField,
    CharField,
    ForeignKey,
    Q,
    UniqueConstraint,
)
from django.db.models.functions import Lower

from controlplane.models.organisations import Organisation
from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    id_field,
    name_is_label,
    printable_name,
    project_id,
)
from controlplane.models.teams import Team


class Project(VersionedRow):
    """A project of a team. An organisation has one default project, for keys that name none."""

    id = id_field(project_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="projects")
    team = ForeignKey(Team, PROTECT, related_name="projects")
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])
    is_default = BooleanField(default=False, editable=False)

    class Meta:
        constraints = [
            UniqueConstraint(
                "organisation",
                Lower("name"),
                name="project_name_unique",
                violation_error_message="The organisation has a project of this name already.",
            ),
            UniqueConstraint(
                fields=["organisation"],
                condition=Q(is_default=True),
                name="project_default_unique",
            ),
            name_is_label("project"),
        ]

    def __str__(self) -> str:
        return self.name
