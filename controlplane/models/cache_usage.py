"""What caches saved, how alike hits were, and which of them were false.

Sums leave out savings without a price and count them in `unknown_saved`. An empty id stands for
none. No column refers to configuration: rows outlive policies and routes.
"""

from django.db.models import (
    BigIntegerField,
    CompositePrimaryKey,
    DateTimeField,
    FloatField,
    Index,
    Model,
    SmallIntegerField,
    TextField,
)


class CacheHour(Model):
    """What caches did in one hour of the organisation's clock; `hour` is when it began."""

    pk = CompositePrimaryKey(
        *("organisation_id", "hour", "project_id", "route_id", "policy_id", "outcome", "tier")
    )
    organisation_id = TextField()
    hour = DateTimeField()
    project_id = TextField()
    route_id = TextField()
    policy_id = TextField()
    outcome = TextField()
    tier = TextField()
    requests = BigIntegerField(default=0)
    prompt_tokens = BigIntegerField(default=0)
    completion_tokens = BigIntegerField(default=0)
    saved_nanousd = BigIntegerField(default=0)
    unknown_saved = BigIntegerField(default=0)
    saved_ms = FloatField(default=0.0)
    inputs = BigIntegerField(default=0)
    inputs_hit = BigIntegerField(default=0)


class CacheSimilarity(Model):
    """How many of the nearest were so alike, in hundredths, and what became of them."""

    pk = CompositePrimaryKey("organisation_id", "hour", "route_id", "step", "verdict")
    organisation_id = TextField()
    hour = DateTimeField()
    route_id = TextField()
    step = SmallIntegerField()
    verdict = TextField()
    requests = BigIntegerField(default=0)

    class Meta:
        indexes = [Index(fields=["hour"], name="cache_similarity_hour")]


class FalseHit(Model):
    """A hit that said something else than it should have: by a check, or as somebody told.

    `told_by` is "" for a check, and `similarity` None for a hit on the very same.
    """

    pk = CompositePrimaryKey("event_id", "source")
    event_id = TextField()
    source = TextField()
    organisation_id = TextField()
    at = DateTimeField()
    project_id = TextField()
    route_id = TextField()
    policy_id = TextField()
    entry_id = TextField()
    similarity = FloatField(null=True)
    told_by = TextField(default="")
    reason = TextField(default="")

    class Meta:
        indexes = [Index(fields=["organisation_id", "-at"], name="false_hit_newest")]

    def __str__(self) -> str:
        return f"{self.event_id} by {self.source}"
