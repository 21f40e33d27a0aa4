"""Limits, kill switches, and what routes and keys need for rules, fallbacks, queues and classes."""

import controlplane.models.kinds
import controlplane.models.rows
import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0009_keep_alive'),
    ]

    operations = [
        migrations.CreateModel(
            name='Limit',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.limit_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100, validators=[controlplane.models.rows.printable_name])),
                ('subject', models.CharField(choices=controlplane.models.kinds.limit_subjects, max_length=16)),
                ('subject_id', models.TextField(blank=True, null=True)),
                ('unit', models.CharField(choices=controlplane.models.kinds.limit_units, max_length=16)),
                ('window', models.CharField(blank=True, choices=controlplane.models.kinds.limit_windows, max_length=8, null=True)),
                ('amount', models.BigIntegerField()),
                ('enforcement', models.CharField(choices=controlplane.models.kinds.enforcements, default='lenient', max_length=8)),
                ('is_enabled', models.BooleanField(default=True)),
            ],
        ),
        migrations.CreateModel(
            name='Switch',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.switch_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('subject', models.CharField(choices=controlplane.models.kinds.switch_subjects, max_length=16)),
                ('subject_id', models.TextField(blank=True, null=True)),
                ('reason', models.CharField(blank=True, default='', max_length=200, validators=[controlplane.models.rows.printable_name])),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
            ],
        ),
        migrations.AddField(
            model_name='key',
            name='default_task',
            field=models.CharField(blank=True, choices=controlplane.models.kinds.task_classes, max_length=16, null=True),
        ),
        migrations.AddField(
            model_name='key',
            name='priority',
            field=models.CharField(choices=controlplane.models.kinds.priorities, default='default', max_length=16),
        ),
        migrations.AddField(
            model_name='key',
            name='tags',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=64, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9]([A-Za-z0-9._:/=-]{0,62}[A-Za-z0-9])?\\Z', 'A tag must match ^[A-Za-z0-9]([A-Za-z0-9._:/=-]{0,62}[A-Za-z0-9])?$.')]), blank=True, default=list, size=None),
        ),
        migrations.AddField(
            model_name='request',
            name='end_user',
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name='request',
            name='priority',
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name='request',
            name='rule_id',
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name='request',
            name='tags',
            field=models.JSONField(null=True),
        ),
        migrations.AddField(
            model_name='request',
            name='task',
            field=models.TextField(null=True),
        ),
        migrations.AddField(
            model_name='route',
            name='aliases',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=128, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?\\Z', 'A name must match ^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?$.')]), blank=True, default=list, size=None),
        ),
        migrations.AddField(
            model_name='route',
            name='default_task',
            field=models.CharField(choices=controlplane.models.kinds.task_classes, default='default', max_length=16),
        ),
        migrations.AddField(
            model_name='route',
            name='degradation',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=controlplane.models.kinds.degradation_steps, max_length=32), blank=True, default=list, size=None),
        ),
        migrations.AddField(
            model_name='route',
            name='hedge_after_ms',
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='route',
            name='max_queue_wait_ms',
            field=models.PositiveIntegerField(default=30000),
        ),
        migrations.AddField(
            model_name='route',
            name='max_queued',
            field=models.PositiveIntegerField(default=1000),
        ),
        migrations.AddField(
            model_name='route',
            name='rules',
            field=models.JSONField(blank=True, default=list),
        ),
        migrations.AddField(
            model_name='routetarget',
            name='tier',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('max_queue_wait_ms__gte', 0), ('max_queue_wait_ms__lte', 86400000)), name='route_max_queue_wait_ms_in_range', violation_error_message='It must be between 0 and 86,400,000.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('max_queued__gte', 0), ('max_queued__lte', 100000)), name='route_max_queued_in_range', violation_error_message='It must be between 0 and 100,000.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('hedge_after_ms__gte', 10), ('hedge_after_ms__lte', 86400000)), name='route_hedge_after_ms_in_range', violation_error_message='It must be between 10 and 86,400,000.'),
        ),
        migrations.AddConstraint(
            model_name='routetarget',
            constraint=models.CheckConstraint(condition=models.Q(('tier__lt', 8)), name='route_target_tier_in_range'),
        ),
        migrations.AddField(
            model_name='limit',
            name='organisation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='limits', to='controlplane.organisation'),
        ),
        migrations.AddField(
            model_name='switch',
            name='organisation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='switches', to='controlplane.organisation'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.UniqueConstraint(models.F('organisation'), django.db.models.functions.text.Lower('name'), name='limit_name_unique', violation_error_message='The organisation has a limit of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='limit_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('unit', 'parallel'), ('window__isnull', True)), models.Q(models.Q(('unit', 'parallel'), _negated=True), ('window__isnull', False)), _connector='OR'), name='limit_window_fits_unit', violation_error_message='All but limits on parallel requests need a window, and those have none.'),
        ),
        migrations.AddConstraint(
            model_name='limit',
            constraint=models.CheckConstraint(condition=models.Q(('amount__gte', 0), ('amount__lte', 1000000000000000)), name='limit_amount_in_range', violation_error_message='It must be between 0 and 1,000,000,000,000,000.'),
        ),
        migrations.AddConstraint(
            model_name='switch',
            constraint=models.UniqueConstraint(fields=('organisation', 'subject', 'subject_id'), name='switch_subject_unique', nulls_distinct=False, violation_error_message='This is switched off already.'),
        ),
    ]
