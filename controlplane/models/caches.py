"""Cache policies and purges: which answers are kept for whom, and what was taken out of them."""

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    CASCADE,
    BigIntegerField,
    BooleanField,
    CharField,
    FloatField,
    ForeignKey,
    Index,
    JSONField,
    PositiveIntegerField,
    TextField,
    UniqueConstraint,
)
from django.db.models.functions import Lower

from controlplane.decisions.caches import CALIBRATION_BOUNDS, DEFAULT_TTL_S
from controlplane.models.kinds import cache_scopes, cache_tiers, purge_kinds
from controlplane.models.organisations import Organisation
from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    cache_policy_id,
    id_field,
    in_bounds,
    name_is_label,
    printable_name,
    purge_id,
)
from inference.contract.kinds import CacheScope, CacheTier
from inference.contract.params import CACHE_BOUNDS


def default_tiers() -> list[str]:
    """What a new policy keeps answers in."""
    return [CacheTier.LOCAL.value, CacheTier.SHARED.value]


def default_ttl_s() -> dict[str, int]:
    """How long a new policy keeps them, in seconds by class of task."""
    return dict(DEFAULT_TTL_S)


class CachePolicy(VersionedRow):
    """One policy; the fields mean what they do in `snapshot.CachePolicyRecord`.

    `bypass` are conditions as JSON, in the shape the contract's codec gives them. Above
    `false_hits_max_percent` of semantic hits that turned out false, the threshold of the route is
    raised; no gateway reads it, and null never raises one.
    """

    id = id_field(cache_policy_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="cache_policies")
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])
    tiers = ArrayField(
        CharField(max_length=16, choices=cache_tiers), default=default_tiers, blank=True
    )
    scope = CharField(max_length=16, choices=cache_scopes, default=CacheScope.PROJECT.value)
    ttl_s = JSONField(default=default_ttl_s)
    stores_sampled = BooleanField(default=False)
    stores_tool_calls = BooleanField(default=False)
    serves_out_of_budget = BooleanField(default=True)
    similarity_min = FloatField(default=0.92)
    check_percent = FloatField(default=2.0)
    stale_s = PositiveIntegerField(default=0)
    bypass = JSONField(default=list, blank=True)
    max_entry_bytes = PositiveIntegerField(default=1_048_576)
    memory_percent = PositiveIntegerField(default=100)
    edge_s = PositiveIntegerField(default=0)
    is_enabled = BooleanField(default=True)
    false_hits_max_percent = FloatField(null=True, blank=True, default=1.0)

    class Meta:
        constraints = [
            UniqueConstraint(
                "organisation",
                Lower("name"),
                name="cache_policy_name_unique",
                violation_error_message="The organisation has a cache policy of this name already.",
            ),
            name_is_label("cache_policy"),
            *in_bounds("cache_policy", CACHE_BOUNDS),
            *in_bounds("cache_policy", CALIBRATION_BOUNDS),
        ]

    def __str__(self) -> str:
        return self.name


class Purge(VersionedRow):
    """What was taken out of the caches; it is never changed, and forgotten when no entry can be
    older than it.

    `value` is what its kind names. `epoch` is counted by a sequence of the database, so that a
    later purge always has a greater one.
    """

    id = id_field(purge_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="purges")
    kind = CharField(max_length=16, choices=purge_kinds)
    value = TextField()
    epoch = BigIntegerField(unique=True, editable=False)
    reason = TextField(blank=True)
    made_by = TextField(blank=True)

    class Meta:
        indexes = [Index(fields=["organisation", "-created_at"], name="purge_newest")]

    def __str__(self) -> str:
        return f"{self.kind} {self.value}"
