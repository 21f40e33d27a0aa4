"""What is wanted of gateways: of the whole installation, for all organisations share them."""

from django.db.models import BooleanField, CharField, PositiveIntegerField, UniqueConstraint

from controlplane.models.rows import (
    VersionedRow,
    gateway_id,
    id_field,
    name_is_label,
    printable_name,
)


class GatewaySetting(VersionedRow):
    """One gateway's desired state, by the name it goes by; one nobody ever set has no row.

    The fields mean what they do in `snapshot.GatewayRecord`.
    """

    id = id_field(gateway_id)
    name = CharField(max_length=255, validators=[printable_name])
    restart_generation = PositiveIntegerField(default=0)
    is_drained = BooleanField(default=False)

    class Meta:
        constraints = [
            UniqueConstraint(fields=["name"], name="gateway_name_unique"),
            name_is_label("gateway"),
        ]

    def __str__(self) -> str:
        return self.name
