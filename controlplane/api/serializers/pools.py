"""The shape of a pool. The credential goes in and never comes out."""

from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.strict import NameOrIdField, OwnedSerializer, whole
from controlplane.bridge.logs import LogState, WorkerLog
from controlplane.bridge.vitals import WorkerFacts
from controlplane.decisions.breakers import BreakerFacts
from controlplane.decisions.pool_conditions import Condition, ConditionKind
from controlplane.models.kinds import (
    backends,
    capacity_classes,
    choices_of,
    endpoints,
    powers,
    provisioners,
)
from controlplane.models.pools import GPU_BOUNDS
from inference.contract.kinds import BreakerState, Endpoint, WorkerState
from inference.contract.params import MAX_REPLICAS, POOL_BOUNDS


class WorkerSerializer(serializers.Serializer[WorkerFacts]):
    """One worker as its supervisor last told."""

    id = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(choices=choices_of(WorkerState), read_only=True)
    detail = serializers.CharField(
        read_only=True,
        allow_null=True,
        help_text="Why it isn't ready, in words; null to roles of teams and projects.",
    )
    restarts = serializers.IntegerField(read_only=True)
    base_url = serializers.CharField(read_only=True)
    changed_at = serializers.DateTimeField(read_only=True)
    inflight = serializers.IntegerField(
        read_only=True,
        allow_null=True,
        help_text="Over all live gateways; null to roles of teams and projects.",
    )
    inflight_at = serializers.DictField(
        child=serializers.IntegerField(),
        read_only=True,
        allow_null=True,
        help_text="Of that, by gateway; a drained worker has none anywhere.",
    )


class BreakerSerializer(serializers.Serializer[BreakerFacts]):
    """One breaker that is not closed."""

    worker = serializers.CharField(read_only=True)
    process = serializers.CharField(read_only=True, help_text="The gateway's child it belongs to.")
    state = serializers.ChoiceField(choices=choices_of(BreakerState), read_only=True)


class ConditionSerializer(serializers.Serializer[Condition]):
    """How a pool is, as the console's pages say it."""

    state = serializers.ChoiceField(
        source="kind", choices=choices_of(ConditionKind), read_only=True
    )
    reason = serializers.CharField(read_only=True, help_text="In words; often empty.")
    ready = serializers.IntegerField(read_only=True, allow_null=True)
    wanted = serializers.IntegerField(read_only=True)


_NOW = frozenset(("workers", "condition", "breakers", "panic_at", "last_resort_at"))


class ListedPoolSerializer(OwnedSerializer):
    """A pool as lists show it: what was configured, and how it is."""

    name = serializers.CharField(max_length=64)
    model = NameOrIdField(help_text="Name or id; a new name is listed in the catalogue.")
    model_id = serializers.CharField(read_only=True)
    provisioner = serializers.ChoiceField(choices=provisioners())
    backend = serializers.ChoiceField(choices=backends(), required=False)
    served_model_name = serializers.CharField(
        max_length=255, required=False, help_text="What the workers call the model."
    )
    power = serializers.ChoiceField(
        choices=powers(),
        required=False,
        help_text="Of a drained pool the workers run on, and are sent nothing new.",
    )
    replicas = whole(POOL_BOUNDS["replicas"], required=False)
    addresses = serializers.ListField(
        child=serializers.CharField(max_length=2_048),
        required=False,
        max_length=1_000,
        help_text="Base URLs of a static pool, one worker each, usually ending in /v1.",
    )
    credential = serializers.CharField(
        write_only=True,
        required=False,
        allow_null=True,
        max_length=4_096,
        trim_whitespace=False,
        help_text="Sent to the workers as a bearer token; left out, it stays; null takes it away.",
    )
    has_credential = serializers.BooleanField(read_only=True)
    credential_last4 = serializers.CharField(read_only=True)
    model_source = serializers.CharField(max_length=512, required=False, allow_null=True)
    engine_arguments = serializers.DictField(
        child=serializers.JSONField(), required=False, help_text="Allow-listed engine arguments."
    )
    port_base = serializers.IntegerField(
        min_value=1, max_value=65_535, required=False, allow_null=True
    )
    restart_generation = whole(
        POOL_BOUNDS["restart_generation"],
        required=False,
        help_text="Make it greater to restart the workers.",
    )
    start_timeout_s = whole(POOL_BOUNDS["start_timeout_s"], required=False)
    drain_timeout_s = whole(POOL_BOUNDS["drain_timeout_s"], required=False)
    cordoned = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=MAX_REPLICAS - 1),
        required=False,
        max_length=MAX_REPLICAS,
        help_text="Numbers of workers to be drained and kept so; the list replaces the old one.",
    )
    worker_restarts = serializers.DictField(
        child=serializers.IntegerField(min_value=0, max_value=2**31 - 1),
        required=False,
        help_text="By a worker's number, a count: make it greater to restart that worker. Workers "
        "that are left out keep theirs.",
    )
    worker_concurrency = whole(
        POOL_BOUNDS["worker_concurrency"],
        required=False,
        allow_null=True,
        help_text="Requests one worker runs at once; null is its max_num_seqs, or not known.",
    )
    gpu_type = serializers.CharField(
        max_length=40,
        required=False,
        allow_null=True,
        help_text="Such as H100; with the class it says what its GPUs cost.",
    )
    capacity_class = serializers.ChoiceField(
        choices=capacity_classes(), required=False, allow_null=True
    )
    gpus_per_worker = whole(GPU_BOUNDS["gpus_per_worker"], required=False)
    breaker_failure_percent = whole(POOL_BOUNDS["breaker_failure_percent"], required=False)
    breaker_min_requests = whole(POOL_BOUNDS["breaker_min_requests"], required=False)
    breaker_open_ms = whole(
        POOL_BOUNDS["breaker_open_ms"],
        required=False,
        help_text="At first; it doubles while the worker stays bad.",
    )
    panic_percent = whole(
        POOL_BOUNDS["panic_percent"],
        required=False,
        help_text="With less of the ready workers left, breakers are ignored; 0 is never.",
    )
    endpoints = serializers.ListField(
        child=serializers.ChoiceField(choices=endpoints()),
        required=False,
        max_length=len(Endpoint),
        help_text="What the workers of a static pool have, of what their backend can have; none is "
        "all. Where responses or messages are not among it, they are translated into chat.",
    )
    condition = ConditionSerializer(
        read_only=True,
        allow_null=True,
        help_text="Now; null when the state store isn't answering.",
    )

    def _problem_with(self, name: str, value: Any, fixed: frozenset[str]) -> str | None:
        # a caller that sends back what it read can't know what has changed since
        if name in _NOW and name in fixed and self.instance is not None:
            return None
        return super()._problem_with(name, value, fixed)


class PoolSerializer(ListedPoolSerializer):
    """A pool by itself, with its workers; those of a static pool only once one was found out."""

    workers = WorkerSerializer(
        many=True,
        read_only=True,
        allow_null=True,
        help_text="As told by their supervisor; null when the state store isn't answering.",
    )
    breakers = BreakerSerializer(
        many=True,
        read_only=True,
        allow_null=True,
        help_text="Those not closed; null if nobody can tell, and to roles of teams and projects.",
    )
    panic_at = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        allow_null=True,
        help_text="Gateway processes that ignore them, for too few workers would be left.",
    )
    last_resort_at = serializers.ListField(
        child=serializers.CharField(),
        read_only=True,
        allow_null=True,
        help_text="Gateway processes at which every breaker is open: the pool is sent to there "
        "only if no other target has room.",
    )


class WorkerLogSerializer(serializers.Serializer[WorkerLog]):
    """The end of what a worker printed."""

    worker = serializers.CharField(source="worker_id", read_only=True)
    state = serializers.ChoiceField(
        choices=choices_of(LogState),
        read_only=True,
        help_text="`waiting` until a supervisor ships it, a second or two after the first call; "
        "ask again within 30 s to keep it coming.",
    )
    at = serializers.DateTimeField(read_only=True, allow_null=True)
    size_bytes = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="Of the whole file."
    )
    text = serializers.CharField(read_only=True, help_text="Its last 64 KB at most.")
