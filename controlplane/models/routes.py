"""Routes: the names callers use, and where their requests go."""

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    CASCADE,
    PROTECT,
    BooleanField,
    CharField,
    CheckConstraint,
    Deferrable,
    FloatField,
    ForeignKey,
    JSONField,
    Model,
    PositiveIntegerField,
    Q,
    UniqueConstraint,
)

from controlplane.decisions.service_levels import OBJECTIVE_BOUNDS
from controlplane.models.caches import CachePolicy
from controlplane.models.kinds import (
    accountings,
    degradation_steps,
    strategies,
    task_classes,
)
from controlplane.models.organisations import Organisation
from controlplane.models.pools import Pool
from controlplane.models.rows import (
    VersionedRow,
    id_field,
    in_bounds,
    name_matches,
    public_name,
    route_id,
    target_id,
)
from inference.contract.kinds import Accounting, Strategy, TaskClass
from inference.contract.params import (
    MAX_TIERS,
    MAX_WEIGHT,
    ROUTE_BOUNDS,
    ROUTE_NAME_PATTERN,
    SIMILARITY_BOUND,
    TARGET_BOUNDS,
)

ROUTE_CACHE_BOUNDS = {"similarity_min": SIMILARITY_BOUND}
"""What a route may say itself of its cache policy."""


class Route(VersionedRow):
    """What callers write in `model`; the fields mean what they do in `snapshot.RouteRecord`.

    `rules` are its records as JSON, in the shape the contract's codec gives them. Objectives are
    no gateway's business: alerts and pages compare with them. Null is none.
    """

    id = id_field(route_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="routes")
    name = CharField(max_length=128, validators=[public_name])
    strategy = CharField(max_length=32, choices=strategies, default=Strategy.LEAST_WORK.value)
    is_enabled = BooleanField(default=True)
    accounting = CharField(max_length=16, choices=accountings, default=Accounting.LENIENT.value)
    default_max_output_tokens = PositiveIntegerField(default=4_096)
    max_attempts = PositiveIntegerField(default=2)
    connect_timeout_ms = PositiveIntegerField(default=2_000)
    first_byte_timeout_ms = PositiveIntegerField(default=120_000)
    idle_timeout_ms = PositiveIntegerField(default=60_000)
    total_timeout_ms = PositiveIntegerField(null=True, blank=True)
    retry_budget_percent = PositiveIntegerField(default=20)
    max_wait_penalty = FloatField(default=0.5)
    keep_alive_ms = PositiveIntegerField(null=True, blank=True)
    aliases = ArrayField(
        CharField(max_length=128, validators=[public_name]), default=list, blank=True
    )
    rules = JSONField(default=list, blank=True)
    default_task = CharField(max_length=16, choices=task_classes, default=TaskClass.DEFAULT.value)
    max_queue_wait_ms = PositiveIntegerField(default=30_000)
    max_queued = PositiveIntegerField(default=1_000)
    hedge_after_ms = PositiveIntegerField(null=True, blank=True)
    degradation = ArrayField(
        CharField(max_length=32, choices=degradation_steps), default=list, blank=True
    )
    cache_policy = ForeignKey(CachePolicy, PROTECT, null=True, blank=True, related_name="routes")
    similarity_min = FloatField(null=True, blank=True)
    objective_availability_percent = FloatField(null=True, blank=True, default=99.99)
    objective_first_token_p50_ms = PositiveIntegerField(null=True, blank=True, default=200)
    objective_first_token_p99_ms = PositiveIntegerField(null=True, blank=True, default=2_000)

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["organisation", "name"],
                name="route_name_unique",
                violation_error_message="The organisation has a route of this name already.",
            ),
            name_matches("route", ROUTE_NAME_PATTERN),
            *in_bounds("route", ROUTE_BOUNDS),
            *in_bounds("route", OBJECTIVE_BOUNDS),
            *in_bounds("route", ROUTE_CACHE_BOUNDS),
        ]

    def __str__(self) -> str:
        return self.name


class RouteTarget(Model):
    """One weighted destination. `position` keeps the order people gave.

    A time-out that is null is the route's.
    """

    id = id_field(target_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="+")
    route = ForeignKey(Route, CASCADE, related_name="targets")
    pool = ForeignKey(Pool, PROTECT, related_name="targets")
    weight = PositiveIntegerField()
    position = PositiveIntegerField()
    connect_timeout_ms = PositiveIntegerField(null=True, blank=True)
    first_byte_timeout_ms = PositiveIntegerField(null=True, blank=True)
    idle_timeout_ms = PositiveIntegerField(null=True, blank=True)
    total_timeout_ms = PositiveIntegerField(null=True, blank=True)
    tier = PositiveIntegerField(default=0)

    class Meta:
        ordering = ["position"]
        constraints = [
            UniqueConstraint(
                fields=["route", "pool", "tier"],
                # two targets may swap their pools in one edit
                deferrable=Deferrable.DEFERRED,
                name="route_target_pool_tier_unique",
            ),
            CheckConstraint(
                condition=Q(weight__gte=0, weight__lte=MAX_WEIGHT),
                name="route_target_weight_in_range",
            ),
            CheckConstraint(condition=Q(tier__lt=MAX_TIERS), name="route_target_tier_in_range"),
            *in_bounds("route_target", TARGET_BOUNDS),
        ]

    def __str__(self) -> str:
        return f"{self.pool_id}: {self.weight}"
