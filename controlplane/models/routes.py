"""Routes: the names callers use, and where their requests go."""

from django.db.models import (
    CASCADE,
    PROTECT,
    BooleanField,
    CharField,
    CheckConstraint,
    Deferrable,
    ForeignKey,
    Model,
    PositiveIntegerField,
    Q,
    UniqueConstraint,
)

from controlplane.models.kinds import accountings, strategies
from controlplane.models.organisations import Organisation
from controlplane.models.pools import Pool
from controlplane.models.rows import (
    VersionedRow,
    id_field,
    name_matches,
    public_name,
    route_id,
    target_id,
)
from inference.contract.kinds import Accounting, Strategy
from inference.contract.params import MAX_WEIGHT, ROUTE_NAME_PATTERN

_POSITIVE = (
    "default_max_output_tokens",
    "max_attempts",
    "connect_timeout_ms",
    "first_byte_timeout_ms",
    "idle_timeout_ms",
)


class Route(VersionedRow):
    """What callers write in `model`; the fields mean what they do in `snapshot.RouteRecord`."""

    id = id_field(route_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="routes")
    name = CharField(max_length=128, validators=[public_name])
    strategy = CharField(max_length=32, choices=strategies, default=Strategy.WEIGHTED.value)
    is_enabled = BooleanField(default=True)
    accounting = CharField(max_length=16, choices=accountings, default=Accounting.LENIENT.value)
    default_max_output_tokens = PositiveIntegerField(default=4_096)
    max_attempts = PositiveIntegerField(default=2)
    connect_timeout_ms = PositiveIntegerField(default=2_000)
    first_byte_timeout_ms = PositiveIntegerField(default=120_000)
    idle_timeout_ms = PositiveIntegerField(default=60_000)
    total_timeout_ms = PositiveIntegerField(null=True, blank=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["organisation", "name"],
                name="route_name_unique",
                violation_error_message="The organisation has a route of this name already.",
            ),
            name_matches("route", ROUTE_NAME_PATTERN),
            CheckConstraint(
                condition=Q(**{f"{field}__gte": 1 for field in _POSITIVE}),
                name="route_bounds_positive",
            ),
            CheckConstraint(
                condition=Q(total_timeout_ms__isnull=True) | Q(total_timeout_ms__gte=1),
                name="route_total_timeout_positive",
            ),
        ]

    def __str__(self) -> str:
        return self.name


class RouteTarget(Model):
    """One weighted destination. `position` keeps the order people gave."""

    id = id_field(target_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="+")
    route = ForeignKey(Route, CASCADE, related_name="targets")
    pool = ForeignKey(Pool, PROTECT, related_name="targets")
    weight = PositiveIntegerField()
    position = PositiveIntegerField()

    class Meta:
        ordering = ["position"]
        constraints = [
            UniqueConstraint(
                fields=["route", "pool"],
                # two targets may swap their pools in one edit
                deferrable=Deferrable.DEFERRED,
                name="route_target_pool_unique",
            ),
            CheckConstraint(
                condition=Q(weight__gte=0, weight__lte=MAX_WEIGHT),
                name="route_target_weight_in_range",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id}: {self.weight}"
