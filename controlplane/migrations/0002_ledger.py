"""The ledger: two tables partitioned by day, their roll-ups, and how far journals are committed.

Uniqueness must include the partition key, so it is (day, event_id). The index has event_id first:
a look-up by id alone is one probe a partition.
"""

from django.db import migrations, models

REQUESTS = """
CREATE TABLE controlplane_request (
    day date NOT NULL,
    event_id text NOT NULL,
    at timestamp with time zone NOT NULL,
    received_at timestamp with time zone NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    organisation_id text NOT NULL,
    team_id text NOT NULL,
    project_id text NOT NULL,
    key_id text NOT NULL,
    endpoint text NOT NULL,
    requested_model text NOT NULL,
    is_stream boolean NOT NULL,
    gateway text NOT NULL,
    lineage text NOT NULL,
    version bigint NOT NULL,
    route_id text,
    route_name text,
    outcome text NOT NULL,
    http_status integer NOT NULL,
    error_code text,
    total_ms double precision NOT NULL,
    queued_ms double precision,
    first_token_ms double precision,
    output_tokens_max bigint,
    client_request_id text,
    attempts integer NOT NULL,
    pool_id text,
    pool_name text,
    model_id text,
    model_name text,
    worker_id text,
    prompt_tokens bigint,
    completion_tokens bigint,
    cached_tokens bigint,
    reasoning_tokens bigint,
    cost_nanousd bigint,
    cost_max_nanousd bigint,
    decision jsonb,
    journal text NOT NULL,
    seq bigint NOT NULL,
    PRIMARY KEY (event_id, day)
) PARTITION BY RANGE (day);
CREATE TABLE controlplane_request_default PARTITION OF controlplane_request DEFAULT;
CREATE INDEX request_newest
    ON controlplane_request (organisation_id, at DESC, event_id DESC);
CREATE INDEX request_client_id
    ON controlplane_request (organisation_id, client_request_id)
    WHERE client_request_id IS NOT NULL;
"""

CHARGES = """
CREATE TABLE controlplane_charge (
    day date NOT NULL,
    event_id text NOT NULL,
    attempt integer NOT NULL,
    organisation_id text NOT NULL,
    target_id text NOT NULL,
    pool_id text NOT NULL,
    pool_name text,
    model_id text NOT NULL,
    model_name text,
    worker_id text NOT NULL,
    kind text NOT NULL,
    started_at timestamp with time zone NOT NULL,
    duration_ms double precision NOT NULL,
    first_token_ms double precision,
    http_status integer,
    error_code text,
    prompt_tokens bigint,
    completion_tokens bigint,
    cached_tokens bigint,
    reasoning_tokens bigint,
    price_id text,
    input_nanousd_per_mtok bigint,
    output_nanousd_per_mtok bigint,
    cached_input_nanousd_per_mtok bigint,
    cost_nanousd bigint,
    cost_max_nanousd bigint,
    PRIMARY KEY (event_id, day, attempt)
) PARTITION BY RANGE (day);
CREATE TABLE controlplane_charge_default PARTITION OF controlplane_charge DEFAULT;
"""


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0001_initial'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(REQUESTS, 'DROP TABLE controlplane_request'),
                migrations.RunSQL(CHARGES, 'DROP TABLE controlplane_charge'),
            ],
            state_operations=[
                migrations.CreateModel(
                    name='Request',
                    fields=[
                        ('pk', models.CompositePrimaryKey('day', 'event_id', blank=True, editable=False, primary_key=True, serialize=False)),
                        ('day', models.DateField()),
                        ('event_id', models.TextField()),
                        ('at', models.DateTimeField()),
                        ('received_at', models.DateTimeField()),
                        ('recorded_at', models.DateTimeField()),
                        ('organisation_id', models.TextField()),
                        ('team_id', models.TextField()),
                        ('project_id', models.TextField()),
                        ('key_id', models.TextField()),
                        ('endpoint', models.TextField()),
                        ('requested_model', models.TextField()),
                        ('is_stream', models.BooleanField()),
                        ('gateway', models.TextField()),
                        ('lineage', models.TextField()),
                        ('version', models.BigIntegerField()),
                        ('route_id', models.TextField(null=True)),
                        ('route_name', models.TextField(null=True)),
                        ('outcome', models.TextField()),
                        ('http_status', models.IntegerField()),
                        ('error_code', models.TextField(null=True)),
                        ('total_ms', models.FloatField()),
                        ('queued_ms', models.FloatField(null=True)),
                        ('first_token_ms', models.FloatField(null=True)),
                        ('output_tokens_max', models.BigIntegerField(null=True)),
                        ('client_request_id', models.TextField(null=True)),
                        ('attempts', models.IntegerField()),
                        ('pool_id', models.TextField(null=True)),
                        ('pool_name', models.TextField(null=True)),
                        ('model_id', models.TextField(null=True)),
                        ('model_name', models.TextField(null=True)),
                        ('worker_id', models.TextField(null=True)),
                        ('prompt_tokens', models.BigIntegerField(null=True)),
                        ('completion_tokens', models.BigIntegerField(null=True)),
                        ('cached_tokens', models.BigIntegerField(null=True)),
                        ('reasoning_tokens', models.BigIntegerField(null=True)),
                        ('cost_nanousd', models.BigIntegerField(null=True)),
                        ('cost_max_nanousd', models.BigIntegerField(null=True)),
                        ('decision', models.JSONField(null=True)),
                        ('journal', models.TextField()),
                        ('seq', models.BigIntegerField()),
                    ],
                    options={
                        'indexes': [
                            models.Index(fields=['organisation_id', '-at', '-event_id'], name='request_newest'),
                            models.Index(fields=['organisation_id', 'client_request_id'], condition=models.Q(('client_request_id__isnull', False)), name='request_client_id'),
                        ],
                    },
                ),
                migrations.CreateModel(
                    name='Charge',
                    fields=[
                        ('pk', models.CompositePrimaryKey('day', 'event_id', 'attempt', blank=True, editable=False, primary_key=True, serialize=False)),
                        ('day', models.DateField()),
                        ('event_id', models.TextField()),
                        ('attempt', models.IntegerField()),
                        ('organisation_id', models.TextField()),
                        ('target_id', models.TextField()),
                        ('pool_id', models.TextField()),
                        ('pool_name', models.TextField(null=True)),
                        ('model_id', models.TextField()),
                        ('model_name', models.TextField(null=True)),
                        ('worker_id', models.TextField()),
                        ('kind', models.TextField()),
                        ('started_at', models.DateTimeField()),
                        ('duration_ms', models.FloatField()),
                        ('first_token_ms', models.FloatField(null=True)),
                        ('http_status', models.IntegerField(null=True)),
                        ('error_code', models.TextField(null=True)),
                        ('prompt_tokens', models.BigIntegerField(null=True)),
                        ('completion_tokens', models.BigIntegerField(null=True)),
                        ('cached_tokens', models.BigIntegerField(null=True)),
                        ('reasoning_tokens', models.BigIntegerField(null=True)),
                        ('price_id', models.TextField(null=True)),
                        ('input_nanousd_per_mtok', models.BigIntegerField(null=True)),
                        ('output_nanousd_per_mtok', models.BigIntegerField(null=True)),
                        ('cached_input_nanousd_per_mtok', models.BigIntegerField(null=True)),
                        ('cost_nanousd', models.BigIntegerField(null=True)),
                        ('cost_max_nanousd', models.BigIntegerField(null=True)),
                    ],
                ),
            ],
        ),
        migrations.CreateModel(
            name='JournalMark',
            fields=[
                ('journal', models.TextField(primary_key=True, serialize=False)),
                ('mark', models.BigIntegerField(default=0)),
                ('ahead', models.JSONField(default=list)),
                ('updated_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='PoisonRecord',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('digest', models.TextField(unique=True)),
                ('stream_id', models.TextField()),
                ('raw', models.BinaryField()),
                ('error', models.TextField()),
                ('at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='UsageDay',
            fields=[
                ('requests', models.BigIntegerField(default=0)),
                ('errors', models.BigIntegerField(default=0)),
                ('attempts', models.BigIntegerField(default=0)),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('completion_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('cost_nanousd', models.BigIntegerField(default=0)),
                ('unknown_usage', models.BigIntegerField(default=0)),
                ('unknown_cost', models.BigIntegerField(default=0)),
                ('pk', models.CompositePrimaryKey('organisation_id', 'day', 'dimension', 'value', blank=True, editable=False, primary_key=True, serialize=False)),
                ('organisation_id', models.TextField()),
                ('day', models.DateField()),
                ('dimension', models.TextField()),
                ('value', models.TextField()),
                ('label', models.TextField(default='')),
            ],
            options={
                'abstract': False,
            },
        ),
        migrations.CreateModel(
            name='UsageMinute',
            fields=[
                ('requests', models.BigIntegerField(default=0)),
                ('errors', models.BigIntegerField(default=0)),
                ('attempts', models.BigIntegerField(default=0)),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('completion_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('cost_nanousd', models.BigIntegerField(default=0)),
                ('unknown_usage', models.BigIntegerField(default=0)),
                ('unknown_cost', models.BigIntegerField(default=0)),
                ('pk', models.CompositePrimaryKey('organisation_id', 'minute', 'route_id', 'pool_id', 'model_id', 'project_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('organisation_id', models.TextField()),
                ('minute', models.DateTimeField()),
                ('route_id', models.TextField()),
                ('pool_id', models.TextField()),
                ('model_id', models.TextField()),
                ('project_id', models.TextField()),
            ],
            options={
                'abstract': False,
            },
        ),
    ]
