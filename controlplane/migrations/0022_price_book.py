"""The price book: versions with a beginning, corrections of what was booked, and what GPUs cost.

A price that is there becomes its first version, in force since it was last edited.
"""

import controlplane.models.kinds
import controlplane.models.rows
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

# A row may only refer to rows of its own organisation; the plain foreign keys can't say that.
REFERENCES = (("price", "pool", "pool"), ("priceversion", "price", "price"))


def reference(child, field, parent):
    name = f"{child}_{field}_same_organisation"
    return (
        f"ALTER TABLE controlplane_{child} ADD CONSTRAINT {name}"
        f" FOREIGN KEY ({field}_id, organisation_id)"
        f" REFERENCES controlplane_{parent} (id, organisation_id) DEFERRABLE INITIALLY DEFERRED",
        f"ALTER TABLE controlplane_{child} DROP CONSTRAINT {name}",
    )


OWN = (
    (
        "ALTER TABLE controlplane_price ADD CONSTRAINT price_of_organisation"
        " UNIQUE (id, organisation_id)",
        "ALTER TABLE controlplane_price DROP CONSTRAINT price_of_organisation CASCADE",
    ),
    *(reference(*one) for one in REFERENCES),
    (
        "CREATE TRIGGER price_version_never_changes BEFORE UPDATE ON controlplane_priceversion"
        " FOR EACH ROW EXECUTE FUNCTION controlplane_refuse_change()",
        "DROP TRIGGER price_version_never_changes ON controlplane_priceversion",
    ),
    (
        # a scan of one hour reads few pages, and it costs a recorder next to nothing
        "CREATE INDEX charge_started ON controlplane_charge USING brin (started_at)",
        "DROP INDEX charge_started",
    ),
    (
        "CREATE TRIGGER correction_never_changes BEFORE UPDATE OR DELETE"
        " ON controlplane_spendcorrection"
        " FOR EACH ROW EXECUTE FUNCTION controlplane_refuse_change()",
        "DROP TRIGGER correction_never_changes ON controlplane_spendcorrection",
    ),
)
VERSIONS = """
INSERT INTO controlplane_priceversion (
    id, organisation_id, price_id, effective_from, created_at, created_by,
    input_nanousd_per_mtok, output_nanousd_per_mtok, cached_input_nanousd_per_mtok
)
SELECT 'prv_' || substr(id, 5), organisation_id, id, updated_at, updated_at, '',
    input_nanousd_per_mtok, output_nanousd_per_mtok, cached_input_nanousd_per_mtok
FROM controlplane_price
"""



class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0021_alerts_complete'),
    ]

    operations = [
        migrations.CreateModel(
            name='GpuPrice',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.gpu_price_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('gpu_type', models.CharField(max_length=40)),
                ('capacity_class', models.CharField(choices=controlplane.models.kinds.capacity_classes, max_length=16)),
                ('hour_nanousd', models.BigIntegerField()),
                ('effective_from', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='OwnCost',
            fields=[
                ('pk', models.CompositePrimaryKey('pool_id', 'hour', 'kind', 'team_id', 'project_id', 'model_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('organisation_id', models.TextField()),
                ('pool_id', models.TextField()),
                ('hour', models.DateTimeField()),
                ('kind', models.TextField()),
                ('team_id', models.TextField(default='')),
                ('project_id', models.TextField(default='')),
                ('model_id', models.TextField(default='')),
                ('gpu_type', models.TextField(default='')),
                ('capacity_class', models.TextField(default='')),
                ('gpu_seconds', models.FloatField(default=0)),
                ('tokens', models.BigIntegerField(default=0)),
                ('attempts', models.BigIntegerField(default=0)),
                ('own_nanousd', models.BigIntegerField(null=True)),
                ('list_nanousd', models.BigIntegerField(default=0)),
                ('unpriced', models.BigIntegerField(default=0)),
                ('hour_nanousd', models.BigIntegerField(null=True)),
                ('computed_at', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='PriceVersion',
            fields=[
                ('id', models.CharField(default=controlplane.models.rows.price_version_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('effective_from', models.DateTimeField()),
                ('input_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('output_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('cached_input_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('reasoning_output_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('embedding_input_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('request_nanousd', models.BigIntegerField(blank=True, null=True)),
                ('customer_input_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('customer_output_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('created_by', models.TextField(blank=True, default='', editable=False)),
            ],
        ),
        migrations.CreateModel(
            name='Repricing',
            fields=[
                ('id', models.CharField(default=controlplane.models.rows.repricing_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('version', models.IntegerField(default=1)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('created_by', models.CharField(max_length=255)),
                ('reason', models.TextField()),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField()),
                ('scope', models.JSONField(default=dict)),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('summing', 'Summing'), ('ready', 'Ready'), ('booking', 'Booking'), ('done', 'Done'), ('failed', 'Failed'), ('discarded', 'Discarded')], default='queued', max_length=10)),
                ('total', models.IntegerField(default=0)),
                ('done', models.IntegerField(default=0)),
                ('cursor', models.JSONField(null=True)),
                ('sums', models.JSONField(default=dict)),
                ('corrections', models.IntegerField(default=0)),
                ('corrected_nanousd', models.BigIntegerField(default=0)),
                ('detail', models.TextField(blank=True, default='')),
                ('booked_by', models.CharField(blank=True, default='', max_length=255)),
                ('beat_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='SpendCorrection',
            fields=[
                ('id', models.CharField(default=controlplane.models.rows.correction_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('organisation_id', models.TextField()),
                ('day', models.DateField()),
                ('at', models.DateTimeField()),
                ('received_at', models.DateTimeField()),
                ('booked_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('repricing_id', models.CharField(max_length=40, null=True)),
                ('event_id', models.TextField(null=True)),
                ('attempt', models.IntegerField(null=True)),
                ('team_id', models.TextField(default='')),
                ('project_id', models.TextField(default='')),
                ('key_id', models.TextField(default='')),
                ('route_id', models.TextField(default='')),
                ('pool_id', models.TextField(default='')),
                ('model_id', models.TextField(default='')),
                ('end_user', models.TextField(null=True)),
                ('tags', models.JSONField(null=True)),
                ('version_id', models.TextField(null=True)),
                ('amount_nanousd', models.BigIntegerField()),
                ('was_unknown', models.BooleanField(default=False)),
                ('is_request_known', models.BooleanField(default=False)),
                ('reason', models.TextField(default='')),
                ('created_by', models.TextField(default='')),
            ],
        ),
        migrations.AddField(
            model_name='charge',
            name='reasoning_output_nanousd_per_mtok',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='charge',
            name='request_nanousd',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='pool',
            name='capacity_class',
            field=models.CharField(blank=True, choices=controlplane.models.kinds.capacity_classes, max_length=16, null=True),
        ),
        migrations.AddField(
            model_name='pool',
            name='gpu_type',
            field=models.CharField(blank=True, max_length=40, null=True),
        ),
        migrations.AddField(
            model_name='pool',
            name='gpus_per_worker',
            field=models.PositiveIntegerField(default=1),
        ),
        migrations.AddField(
            model_name='price',
            name='pool',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='prices', to='controlplane.pool'),
        ),
        migrations.AddField(
            model_name='price',
            name='removed_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AlterField(
            model_name='price',
            name='model',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='prices', to='controlplane.cataloguemodel'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('gpus_per_worker__gte', 1), ('gpus_per_worker__lte', 64)), name='pool_gpus_per_worker_in_range', violation_error_message='It must be between 1 and 64.'),
        ),
        migrations.AddConstraint(
            model_name='price',
            constraint=models.UniqueConstraint(fields=('pool', 'model'), name='price_once', nulls_distinct=False, violation_error_message='The model has a price already.'),
        ),
        migrations.AddField(
            model_name='gpuprice',
            name='organisation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='gpu_prices', to='controlplane.organisation'),
        ),
        migrations.AddIndex(
            model_name='owncost',
            index=models.Index(fields=['organisation_id', 'hour'], name='own_cost_hour'),
        ),
        migrations.AddField(
            model_name='priceversion',
            name='organisation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='controlplane.organisation'),
        ),
        migrations.AddField(
            model_name='priceversion',
            name='price',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='controlplane.price'),
        ),
        migrations.AddField(
            model_name='repricing',
            name='organisation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='repricings', to='controlplane.organisation'),
        ),
        migrations.AddIndex(
            model_name='spendcorrection',
            index=models.Index(fields=['organisation_id', '-booked_at', '-id'], name='correction_newest'),
        ),
        migrations.AddIndex(
            model_name='spendcorrection',
            index=models.Index(fields=['organisation_id', 'received_at'], name='correction_received'),
        ),
        migrations.AddIndex(
            model_name='spendcorrection',
            index=models.Index(fields=['at'], name='correction_at'),
        ),
        migrations.AddIndex(
            model_name='spendcorrection',
            index=models.Index(condition=models.Q(('event_id__isnull', False)), fields=['event_id'], name='correction_of_request'),
        ),
        migrations.AddConstraint(
            model_name='spendcorrection',
            constraint=models.UniqueConstraint(condition=models.Q(('repricing_id__isnull', False)), fields=('repricing_id', 'event_id', 'attempt'), name='correction_once'),
        ),
        migrations.AddConstraint(
            model_name='gpuprice',
            constraint=models.UniqueConstraint(fields=('organisation', 'gpu_type', 'capacity_class', 'effective_from'), name='gpu_price_once', violation_error_message='A price begins at this moment already.'),
        ),
        migrations.AddConstraint(
            model_name='gpuprice',
            constraint=models.CheckConstraint(condition=models.Q(('hour_nanousd__gte', 0)), name='gpu_price_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.UniqueConstraint(fields=('price', 'effective_from'), name='price_version_once', violation_error_message='A version begins at this moment already.'),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('input_nanousd_per_mtok__isnull', True), ('output_nanousd_per_mtok__isnull', True)), models.Q(('input_nanousd_per_mtok__isnull', False), ('output_nanousd_per_mtok__isnull', False)), _connector='OR'), name='price_version_of_both_sides', violation_error_message='A price is of input and output, or of neither.'),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('input_nanousd_per_mtok__isnull', True), ('input_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_input_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('output_nanousd_per_mtok__isnull', True), ('output_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_output_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('cached_input_nanousd_per_mtok__isnull', True), ('cached_input_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_cached_input_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('reasoning_output_nanousd_per_mtok__isnull', True), ('reasoning_output_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_reasoning_output_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('embedding_input_nanousd_per_mtok__isnull', True), ('embedding_input_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_embedding_input_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('request_nanousd__isnull', True), ('request_nanousd__gte', 0), _connector='OR'), name='price_version_request_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('customer_input_nanousd_per_mtok__isnull', True), ('customer_input_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_customer_input_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('customer_output_nanousd_per_mtok__isnull', True), ('customer_output_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_customer_output_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddIndex(
            model_name='repricing',
            index=models.Index(fields=['organisation', '-created_at'], name='repricing_newest'),
        ),
        migrations.AddIndex(
            model_name='repricing',
            index=models.Index(fields=['state'], name='repricing_by_state'),
        ),
        *(migrations.RunSQL(*one) for one in OWN),
        migrations.RunSQL(VERSIONS, migrations.RunSQL.noop),
        # rows just written wait for their checks, and their table can't be altered till then
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.RunSQL("SET CONSTRAINTS ALL DEFERRED", migrations.RunSQL.noop),
        migrations.RemoveConstraint(
            model_name='price',
            name='price_input_not_negative',
        ),
        migrations.RemoveConstraint(
            model_name='price',
            name='price_output_not_negative',
        ),
        migrations.RemoveConstraint(
            model_name='price',
            name='price_cached_input_not_negative',
        ),
        migrations.RemoveField(
            model_name='price',
            name='cached_input_nanousd_per_mtok',
        ),
        migrations.RemoveField(
            model_name='price',
            name='input_nanousd_per_mtok',
        ),
        migrations.RemoveField(
            model_name='price',
            name='output_nanousd_per_mtok',
        ),
    ]
