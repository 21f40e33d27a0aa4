"""Organisations: the tenants. Everything else belongs to exactly one."""

import zoneinfo
from functools import cache

from django.core.exceptions import ValidationError
from django.db.models import BooleanField, CharField, UniqueConstraint
from django.db.models.functions import Lower

from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    id_field,
    name_is_label,
    organisation_id,
    printable_name,
)


@cache
def _time_zones() -> frozenset[str]:
    # read from some six hundred files, which no restart is needed to keep the same
    return frozenset(zoneinfo.available_timezones())


def check_time_zone(name: str) -> None:
    """Refuse what isn't a zone of the IANA database."""
    if name not in _time_zones():
        raise ValidationError(f"{name!r} is not a time zone such as Europe/Berlin.")


class Organisation(VersionedRow):
    """A tenant. `time_zone` is the one its days, budgets and reports are counted in."""

    id = id_field(organisation_id)
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])
    time_zone = CharField(max_length=64, default="UTC", validators=[check_time_zone])
    is_enabled = BooleanField(default=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                Lower("name"),
                name="organisation_name_unique",
                violation_error_message="There is an organisation of this name already.",
            ),
            name_is_label("organisation"),
        ]

    def __str__(self) -> str:
        return self.name
