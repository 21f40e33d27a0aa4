"""The knobs of standing up to faults, and the gateways' desired state.

Routes that are there keep their strategy; only new ones begin with `least_work`. Time-outs and
attempts beyond what can be configured from now on come down to the most there is.
"""

import controlplane.models.kinds
import controlplane.models.rows
import django.contrib.postgres.fields
import django.utils.timezone
from django.db import migrations, models

_DAY_MS = 86_400_000
_MOST = {
    "max_attempts": 10,
    "connect_timeout_ms": _DAY_MS,
    "first_byte_timeout_ms": _DAY_MS,
    "idle_timeout_ms": _DAY_MS,
    "total_timeout_ms": _DAY_MS,
}
CLAMPS = [
    # one by one: a null is no limit, and stays none
    f"UPDATE controlplane_route SET {field} = {most} WHERE {field} > {most}"
    for field, most in _MOST.items()
]
CHECKS = {
    # what the framework can't say of the parts of a list or a document
    "pool_cordoned_in_range": "0 <= ALL (cordoned) AND 1000 > ALL (cordoned)",
    "pool_worker_restarts_document": "jsonb_typeof(worker_restarts) = 'object'",
}


def check(name, condition):
    return (
        f"ALTER TABLE controlplane_pool ADD CONSTRAINT {name} CHECK ({condition})",
        f"ALTER TABLE controlplane_pool DROP CONSTRAINT {name}",
    )


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0006_idempotency'),
    ]

    operations = [
        *(migrations.RunSQL(clamp, migrations.RunSQL.noop) for clamp in CLAMPS),
        # a row that was changed twice waits for its checks, and its table can't be altered till then
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.RunSQL("SET CONSTRAINTS ALL DEFERRED", migrations.RunSQL.noop),
        migrations.CreateModel(
            name='GatewaySetting',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.gateway_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=255, validators=[controlplane.models.rows.printable_name])),
                ('restart_generation', models.PositiveIntegerField(default=0)),
                ('is_drained', models.BooleanField(default=False)),
            ],
        ),
        migrations.RemoveConstraint(
            model_name='pool',
            name='pool_start_timeout_positive',
        ),
        migrations.RemoveConstraint(
            model_name='route',
            name='route_bounds_positive',
        ),
        migrations.RemoveConstraint(
            model_name='route',
            name='route_total_timeout_positive',
        ),
        migrations.AddField(
            model_name='pool',
            name='breaker_failure_percent',
            field=models.PositiveIntegerField(default=50),
        ),
        migrations.AddField(
            model_name='pool',
            name='breaker_min_requests',
            field=models.PositiveIntegerField(default=5),
        ),
        migrations.AddField(
            model_name='pool',
            name='breaker_open_ms',
            field=models.PositiveIntegerField(default=5000),
        ),
        migrations.AddField(
            model_name='pool',
            name='cordoned',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.PositiveIntegerField(), blank=True, default=list, size=None),
        ),
        migrations.AddField(
            model_name='pool',
            name='panic_percent',
            field=models.PositiveIntegerField(default=50),
        ),
        migrations.AddField(
            model_name='pool',
            name='worker_concurrency',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='pool',
            name='worker_restarts',
            field=models.JSONField(blank=True, default=dict),
        ),
        migrations.AddField(
            model_name='route',
            name='max_wait_penalty',
            field=models.FloatField(default=0.5),
        ),
        migrations.AddField(
            model_name='route',
            name='retry_budget_percent',
            field=models.PositiveIntegerField(default=20),
        ),
        migrations.AddField(
            model_name='routetarget',
            name='connect_timeout_ms',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='routetarget',
            name='first_byte_timeout_ms',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='routetarget',
            name='idle_timeout_ms',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='routetarget',
            name='total_timeout_ms',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='route',
            name='strategy',
            field=models.CharField(choices=controlplane.models.kinds.strategies, default='least_work', max_length=32),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('start_timeout_s__gte', 1)), name='pool_start_timeout_s_in_range', violation_error_message='It must be at least 1.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('drain_timeout_s__gte', 0)), name='pool_drain_timeout_s_in_range', violation_error_message="It can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('restart_generation__gte', 0)), name='pool_restart_generation_in_range', violation_error_message="It can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('worker_concurrency__gte', 1), ('worker_concurrency__lte', 1000000)), name='pool_worker_concurrency_in_range', violation_error_message='It must be between 1 and 1,000,000.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('breaker_failure_percent__gte', 1), ('breaker_failure_percent__lte', 100)), name='pool_breaker_failure_percent_in_range', violation_error_message='It must be between 1 and 100.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('breaker_min_requests__gte', 1), ('breaker_min_requests__lte', 10000)), name='pool_breaker_min_requests_in_range', violation_error_message='It must be between 1 and 10,000.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('breaker_open_ms__gte', 100), ('breaker_open_ms__lte', 600000)), name='pool_breaker_open_ms_in_range', violation_error_message='It must be between 100 and 600,000.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('panic_percent__gte', 0), ('panic_percent__lte', 100)), name='pool_panic_percent_in_range', violation_error_message='It must be between 0 and 100.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('connect_timeout_ms__gte', 1), ('connect_timeout_ms__lte', 86400000)), name='route_connect_timeout_ms_in_range', violation_error_message='It must be between 1 and 86,400,000.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('first_byte_timeout_ms__gte', 1), ('first_byte_timeout_ms__lte', 86400000)), name='route_first_byte_timeout_ms_in_range', violation_error_message='It must be between 1 and 86,400,000.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('idle_timeout_ms__gte', 1), ('idle_timeout_ms__lte', 86400000)), name='route_idle_timeout_ms_in_range', violation_error_message='It must be between 1 and 86,400,000.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('total_timeout_ms__gte', 1), ('total_timeout_ms__lte', 86400000)), name='route_total_timeout_ms_in_range', violation_error_message='It must be between 1 and 86,400,000.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('default_max_output_tokens__gte', 1)), name='route_default_max_output_tokens_in_range', violation_error_message='It must be at least 1.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('max_attempts__gte', 1), ('max_attempts__lte', 10)), name='route_max_attempts_in_range', violation_error_message='It must be between 1 and 10.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('retry_budget_percent__gte', 0), ('retry_budget_percent__lte', 100)), name='route_retry_budget_percent_in_range', violation_error_message='It must be between 0 and 100.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('max_wait_penalty__gte', 0), ('max_wait_penalty__lte', 1000)), name='route_max_wait_penalty_in_range', violation_error_message='It must be between 0 and 1,000.'),
        ),
        migrations.AddConstraint(
            model_name='routetarget',
            constraint=models.CheckConstraint(condition=models.Q(('connect_timeout_ms__gte', 1), ('connect_timeout_ms__lte', 86400000)), name='route_target_connect_timeout_ms_in_range', violation_error_message='It must be between 1 and 86,400,000.'),
        ),
        migrations.AddConstraint(
            model_name='routetarget',
            constraint=models.CheckConstraint(condition=models.Q(('first_byte_timeout_ms__gte', 1), ('first_byte_timeout_ms__lte', 86400000)), name='route_target_first_byte_timeout_ms_in_range', violation_error_message='It must be between 1 and 86,400,000.'),
        ),
        migrations.AddConstraint(
            model_name='routetarget',
            constraint=models.CheckConstraint(condition=models.Q(('idle_timeout_ms__gte', 1), ('idle_timeout_ms__lte', 86400000)), name='route_target_idle_timeout_ms_in_range', violation_error_message='It must be between 1 and 86,400,000.'),
        ),
        migrations.AddConstraint(
            model_name='routetarget',
            constraint=models.CheckConstraint(condition=models.Q(('total_timeout_ms__gte', 1), ('total_timeout_ms__lte', 86400000)), name='route_target_total_timeout_ms_in_range', violation_error_message='It must be between 1 and 86,400,000.'),
        ),
        migrations.AlterConstraint(
            model_name='pool',
            name='pool_replicas_in_range',
            constraint=models.CheckConstraint(condition=models.Q(('replicas__gte', 0), ('replicas__lte', 1000)), name='pool_replicas_in_range', violation_error_message='It must be between 0 and 1,000.'),
        ),
        migrations.AddConstraint(
            model_name='gatewaysetting',
            constraint=models.UniqueConstraint(fields=('name',), name='gateway_name_unique'),
        ),
        migrations.AddConstraint(
            model_name='gatewaysetting',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='gateway_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'),
        ),
        *(migrations.RunSQL(*check(*one)) for one in CHECKS.items()),
    ]
