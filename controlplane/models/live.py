"""Live figures as the sampler keeps them: fine rows for two hours, longer ones for 35 days.

`at` is where a bucket begins, `resolution_s` how long it is. No column refers to configuration.
"""

from django.db.models import (
    BigIntegerField,
    BooleanField,
    CompositePrimaryKey,
    DateTimeField,
    FloatField,
    Index,
    IntegerField,
    JSONField,
    Model,
    TextField,
)


class LiveTraffic(Model):
    """What ended in one bucket, by organisation, pool and route (an empty id stands for none).

    A fine row is one process instance's, its `source`; a longer one is everybody's and has none.
    `failures` are counts by error code, `shed` by class, `refused` by reason, the histograms counts
    by `decisions.histograms` bucket.
    """

    pk = CompositePrimaryKey(
        "resolution_s", "organisation_id", "at", "pool_id", "route_id", "source"
    )
    resolution_s = IntegerField()
    organisation_id = TextField()
    at = DateTimeField()
    pool_id = TextField()
    route_id = TextField()
    source = TextField()
    requests = BigIntegerField()
    failures = JSONField()
    prompt_tokens = BigIntegerField()
    completion_tokens = BigIntegerField()
    cost_nanousd = BigIntegerField()
    unknown_usage = BigIntegerField()
    unknown_cost = BigIntegerField()
    first_token_ms = JSONField()
    output_token_ms = JSONField()
    shed = JSONField(default=dict)
    refused = JSONField(default=dict)

    class Meta:
        indexes = [Index(fields=["resolution_s", "at"], name="live_traffic_at")]


class LiveWorker(Model):
    """One worker's gauges: sums of what was measured in the bucket, and how often that was.

    A fine row is one second's single measurement, so that measuring it again changes nothing.
    """

    pk = CompositePrimaryKey("resolution_s", "pool_id", "at", "worker_id")
    resolution_s = IntegerField()
    pool_id = TextField()
    at = DateTimeField()
    worker_id = TextField()
    is_gpu = BooleanField()
    running_sum = FloatField()
    running_samples = IntegerField()
    waiting_sum = FloatField()
    waiting_samples = IntegerField()
    kv_used_sum = FloatField()
    kv_used_samples = IntegerField()
    utilisation_sum = FloatField()
    utilisation_samples = IntegerField()
    memory_bytes_sum = FloatField()
    memory_bytes_samples = IntegerField()

    class Meta:
        indexes = [Index(fields=["resolution_s", "at"], name="live_worker_at")]


class LivePeak(Model):
    """The most there was of something at once in one bucket; where there was none is no row.

    `kind` is one of `decisions.live_peaks`, `subject_id` a pool or a route. `since` is when the
    value came up that was the most, None where nobody asks that.
    """

    pk = CompositePrimaryKey("resolution_s", "kind", "subject_id", "at")
    resolution_s = IntegerField()
    kind = TextField()
    subject_id = TextField()
    at = DateTimeField()
    value = FloatField()
    since = DateTimeField(null=True)

    class Meta:
        indexes = [Index(fields=["resolution_s", "at"], name="live_peak_at")]


class LiveCoverage(Model):
    """How much of a bucket any gateway reported, and which gateways were missing in it.

    `since_s` and `until_s` bound what was reported, from the bucket's beginning; None if nothing.
    `as_of` is the last sample that `live`, `seen` and `missing` are of. What is missing is a name,
    or name and numbers of children where some of them reported.
    """

    pk = CompositePrimaryKey("resolution_s", "at")
    resolution_s = IntegerField()
    at = DateTimeField()
    since_s = FloatField(null=True)
    until_s = FloatField(null=True)
    covered_s = FloatField()
    live = IntegerField()
    seen = IntegerField()
    missing = JSONField()
    as_of = DateTimeField()
