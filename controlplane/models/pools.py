"""Pools: the desired state of workers that serve one model."""

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    CASCADE,
    PROTECT,
    CharField,
    CheckConstraint,
    ForeignKey,
    JSONField,
    PositiveIntegerField,
    Q,
    TextField,
    UniqueConstraint,
)

from controlplane.models.kinds import backends, capacity_classes, endpoints, powers, provisioners
from controlplane.models.models import CatalogueModel
from controlplane.models.organisations import Organisation
from controlplane.models.rows import (
    VersionedRow,
    id_field,
    in_bounds,
    name_matches,
    plain_name,
    pool_id,
)
from inference.contract.kinds import PoolPower
from inference.contract.params import NAME_PATTERN, POOL_BOUNDS, Bound
from inference.decisions.egress import MAX_URL_LENGTH

GPU_BOUNDS = {"gpus_per_worker": Bound(1, 64)}


class Pool(VersionedRow):
    """A pool. `credential` is ciphertext; its last characters are kept to tell one from another.

    The meaning of each field is `inference.contract.snapshot.PoolRecord`'s, but for what its GPUs
    cost: their type, how they are had and how many a worker has are no gateway's business.
    """

    id = id_field(pool_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="pools")
    name = CharField(max_length=64, validators=[plain_name])
    model = ForeignKey(CatalogueModel, PROTECT, related_name="pools")
    provisioner = CharField(max_length=32, choices=provisioners)
    backend = CharField(max_length=32, choices=backends)
    served_model_name = CharField(max_length=255)
    power = CharField(max_length=16, choices=powers, default=PoolPower.RUNNING.value)
    replicas = PositiveIntegerField(default=1)
    addresses = ArrayField(CharField(max_length=MAX_URL_LENGTH), default=list, blank=True)
    credential = TextField(null=True, blank=True, editable=False)
    credential_last4 = CharField(max_length=4, default="", blank=True, editable=False)
    model_source = CharField(max_length=512, null=True, blank=True)
    engine_arguments = JSONField(default=dict, blank=True)
    port_base = PositiveIntegerField(null=True, blank=True)
    restart_generation = PositiveIntegerField(default=0)
    start_timeout_s = PositiveIntegerField(default=600)
    drain_timeout_s = PositiveIntegerField(default=30)
    cordoned = ArrayField(PositiveIntegerField(), default=list, blank=True)
    worker_restarts = JSONField(default=dict, blank=True)
    worker_concurrency = PositiveIntegerField(null=True, blank=True)
    breaker_failure_percent = PositiveIntegerField(default=50)
    breaker_min_requests = PositiveIntegerField(default=5)
    breaker_open_ms = PositiveIntegerField(default=5_000)
    panic_percent = PositiveIntegerField(default=50)
    endpoints = ArrayField(CharField(max_length=32, choices=endpoints), default=list, blank=True)

    gpu_type = CharField(max_length=40, null=True, blank=True)
    capacity_class = CharField(max_length=16, choices=capacity_classes, null=True, blank=True)
    gpus_per_worker = PositiveIntegerField(default=1)

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["organisation", "name"],
                name="pool_name_unique",
                violation_error_message="The organisation has a pool of this name already.",
            ),
            name_matches("pool", NAME_PATTERN),
            *in_bounds("pool", POOL_BOUNDS),
            *in_bounds("pool", GPU_BOUNDS),
            CheckConstraint(
                condition=Q(port_base__isnull=True) | Q(port_base__gte=1, port_base__lte=65_535),
                name="pool_port_in_range",
            ),
            CheckConstraint(
                condition=Q(credential__isnull=False) | Q(credential_last4=""),
                name="pool_last4_of_a_credential",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def has_credential(self) -> bool:
        return self.credential is not None
