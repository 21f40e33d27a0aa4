"""The ledger: one row a request, one row an attempt, kept by day.

Both tables are partitioned by `day`, so their SQL is written by hand in the migration. No column
refers to configuration: a row outlives its route, pool, model and key, and keeps their names.
"""

from django.db.models import (
    BigIntegerField,
    BooleanField,
    CompositePrimaryKey,
    DateField,
    DateTimeField,
    FloatField,
    Index,
    IntegerField,
    JSONField,
    Model,
    Q,
    TextField,
)


class Request(Model):
    """One request. `at` is when it ended, durations are ms from its arrival, money nano-USD.

    Tokens and costs sum the charges; the `pool_…`, `model_…` and `worker_id` are the last
    attempt's. A cost of None has no price; of 0 with no attempts, nothing went upstream. `cache` is
    what a cache policy did for it, as `events.CacheUse` says it; None where none bore on it.
    """

    pk = CompositePrimaryKey("day", "event_id")
    day = DateField()
    event_id = TextField()
    at = DateTimeField()
    received_at = DateTimeField()
    recorded_at = DateTimeField()
    organisation_id = TextField()
    team_id = TextField()
    project_id = TextField()
    key_id = TextField()
    endpoint = TextField()
    requested_model = TextField()
    is_stream = BooleanField()
    gateway = TextField()
    lineage = TextField()
    version = BigIntegerField()
    route_id = TextField(null=True)
    route_name = TextField(null=True)
    outcome = TextField()
    http_status = IntegerField()
    error_code = TextField(null=True)
    total_ms = FloatField()
    queued_ms = FloatField(null=True)
    first_token_ms = FloatField(null=True)
    output_tokens_max = BigIntegerField(null=True)
    client_request_id = TextField(null=True)
    attempts = IntegerField()
    pool_id = TextField(null=True)
    pool_name = TextField(null=True)
    model_id = TextField(null=True)
    model_name = TextField(null=True)
    worker_id = TextField(null=True)
    prompt_tokens = BigIntegerField(null=True)
    completion_tokens = BigIntegerField(null=True)
    cached_tokens = BigIntegerField(null=True)
    reasoning_tokens = BigIntegerField(null=True)
    cost_nanousd = BigIntegerField(null=True)
    cost_max_nanousd = BigIntegerField(null=True)
    decision = JSONField(null=True)
    journal = TextField()
    seq = BigIntegerField()
    end_user = TextField(null=True)
    tags = JSONField(null=True)
    priority = TextField(null=True)
    task = TextField(null=True)
    rule_id = TextField(null=True)
    cache = JSONField(null=True)

    class Meta:
        indexes = [
            Index(fields=["organisation_id", "-at", "-event_id"], name="request_newest"),
            Index(
                fields=["organisation_id", "client_request_id"],
                condition=Q(client_request_id__isnull=False),
                name="request_client_id",
            ),
        ]

    def __str__(self) -> str:
        return self.event_id


class Charge(Model):
    """One attempt on one worker, with the price it was made at; money in nano-USD.

    `cost_nanousd` is what is booked, `cost_max_nanousd` the most it can have been; they are equal
    when `kind` is final, and None without a price.
    """

    pk = CompositePrimaryKey("day", "event_id", "attempt")
    day = DateField()
    event_id = TextField()
    attempt = IntegerField()
    organisation_id = TextField()
    target_id = TextField()
    pool_id = TextField()
    pool_name = TextField(null=True)
    model_id = TextField()
    model_name = TextField(null=True)
    worker_id = TextField()
    kind = TextField()
    started_at = DateTimeField()
    duration_ms = FloatField()
    first_token_ms = FloatField(null=True)
    http_status = IntegerField(null=True)
    error_code = TextField(null=True)
    prompt_tokens = BigIntegerField(null=True)
    completion_tokens = BigIntegerField(null=True)
    cached_tokens = BigIntegerField(null=True)
    reasoning_tokens = BigIntegerField(null=True)
    price_id = TextField(null=True)
    input_nanousd_per_mtok = BigIntegerField(null=True)
    output_nanousd_per_mtok = BigIntegerField(null=True)
    cached_input_nanousd_per_mtok = BigIntegerField(null=True)
    reasoning_output_nanousd_per_mtok = BigIntegerField(null=True)
    request_nanousd = BigIntegerField(null=True)
    cost_nanousd = BigIntegerField(null=True)
    cost_max_nanousd = BigIntegerField(null=True)

    def __str__(self) -> str:
        return f"{self.event_id}/{self.attempt}"
