"""What our own GPUs cost: prices of an hour by capacity class, and the roll-up of what they did."""

from django.db.models import (
    CASCADE,
    BigIntegerField,
    CharField,
    CheckConstraint,
    CompositePrimaryKey,
    DateTimeField,
    FloatField,
    ForeignKey,
    Index,
    Model,
    Q,
    TextField,
    UniqueConstraint,
)

from controlplane.models.kinds import capacity_classes
from controlplane.models.organisations import Organisation
from controlplane.models.rows import VersionedRow, gpu_price_id, id_field

GPU_TYPE_LENGTH = 40


class GpuPrice(VersionedRow):
    """What an hour of one GPU of a type costs in a capacity class from a moment on, in nano-USD.

    One that has begun isn't changed any more: a later one follows it.
    """

    id = id_field(gpu_price_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="gpu_prices")
    gpu_type = CharField(max_length=GPU_TYPE_LENGTH)
    capacity_class = CharField(max_length=16, choices=capacity_classes)
    hour_nanousd = BigIntegerField()
    effective_from = DateTimeField()

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["organisation", "gpu_type", "capacity_class", "effective_from"],
                name="gpu_price_once",
                violation_error_message="A price begins at this moment already.",
            ),
            CheckConstraint(
                condition=Q(hour_nanousd__gte=0),
                name="gpu_price_not_negative",
                violation_error_message="A price can't be negative.",
            ),
        ]

    def __str__(self) -> str:
        return self.id


class OwnCost(Model):
    """What GPUs of one pool did in one hour (UTC) for one project's requests of one model.

    Rows of kind `idle` are GPU time in which nothing was asked of a worker, those of kind
    `unattributed` time of requests that reported no tokens; they have no project. `own_nanousd` is
    null where the GPUs' price isn't known, `list_nanousd` is what was booked for the same requests
    and never added to it. `tokens` are the work by which time is shared: uncached prompt and
    completion.
    """

    pk = CompositePrimaryKey("pool_id", "hour", "kind", "team_id", "project_id", "model_id")
    organisation_id = TextField()
    pool_id = TextField()
    hour = DateTimeField()
    kind = TextField()
    team_id = TextField(default="")
    project_id = TextField(default="")
    model_id = TextField(default="")
    gpu_type = TextField(default="")
    capacity_class = TextField(default="")
    gpu_seconds = FloatField(default=0)
    tokens = BigIntegerField(default=0)
    attempts = BigIntegerField(default=0)
    own_nanousd = BigIntegerField(null=True)
    list_nanousd = BigIntegerField(default=0)
    unpriced = BigIntegerField(default=0)
    hour_nanousd = BigIntegerField(null=True)
    computed_at = DateTimeField()

    class Meta:
        indexes = [Index(fields=["organisation_id", "hour"], name="own_cost_hour")]
