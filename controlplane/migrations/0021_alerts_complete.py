"""Alerts: objectives of routes, how rules and channels tell, bots of Slack, silences that recur."""

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
        ('controlplane', '0020_reports'),
    ]

    operations = [
        migrations.CreateModel(
            name='SlackCall',
            fields=[
                ('signature', models.CharField(max_length=80, primary_key=True, serialize=False)),
                ('at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.RemoveIndex(
            model_name='delivery',
            name='delivery_due',
        ),
        migrations.AddField(
            model_name='alertrule',
            name='clears_at',
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='alertrule',
            name='escalates_after_s',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='alertrule',
            name='reminds_every_s',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='alertrule',
            name='runbook',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='alertstanding',
            name='fired_at',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.DateTimeField(), default=list, size=None),
        ),
        migrations.AddField(
            model_name='channel',
            name='conversation',
            field=models.CharField(blank=True, default='', max_length=80),
        ),
        migrations.AddField(
            model_name='channel',
            name='critical_passes',
            field=models.BooleanField(default=True),
        ),
        migrations.AddField(
            model_name='channel',
            name='digest_s',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='channel',
            name='quiet_from',
            field=models.TimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='channel',
            name='quiet_until',
            field=models.TimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='channel',
            name='signing_secret',
            field=models.TextField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='delivery',
            name='digest',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='folded', to='controlplane.delivery'),
        ),
        migrations.AddField(
            model_name='delivery',
            name='is_uncertain',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='delivery',
            name='receipt',
            field=models.CharField(blank=True, default='', max_length=120),
        ),
        migrations.AddField(
            model_name='episode',
            name='detail',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='episode',
            name='escalated',
            field=models.SmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='episode',
            name='is_flapping',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='episode',
            name='reminded_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='episode',
            name='runbook',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='route',
            name='objective_availability_percent',
            field=models.FloatField(blank=True, default=99.99, null=True),
        ),
        migrations.AddField(
            model_name='route',
            name='objective_first_token_p50_ms',
            field=models.PositiveIntegerField(blank=True, default=200, null=True),
        ),
        migrations.AddField(
            model_name='route',
            name='objective_first_token_p99_ms',
            field=models.PositiveIntegerField(blank=True, default=2000, null=True),
        ),
        migrations.AddField(
            model_name='rulechannel',
            name='step',
            field=models.SmallIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='silence',
            name='from_time',
            field=models.TimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='silence',
            name='holds_until',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name='silence',
            name='until_time',
            field=models.TimeField(blank=True, null=True),
        ),
        migrations.AddField(
            model_name='silence',
            name='weekdays',
            field=django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), blank=True, default=list, size=None),
        ),
        migrations.AddField(
            model_name='user',
            name='slack_id',
            field=models.CharField(blank=True, default='', max_length=32, validators=[django.core.validators.RegexValidator('^[UW][A-Z0-9]{6,30}$', "Give the member's id in Slack, such as U0123456789.")]),
        ),
        migrations.AlterField(
            model_name='rulechannel',
            name='rule',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='steps', to='controlplane.alertrule'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('state__in', ('queued', 'sending', 'held'))), fields=['next_try_at'], name='delivery_due'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('quiet_from__isnull', True), ('quiet_until__isnull', True)), models.Q(('quiet_from__isnull', False), ('quiet_until__isnull', False)), _connector='OR'), name='channel_quiet_has_both_ends', violation_error_message='Quiet hours have a beginning and an end.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('objective_availability_percent__gte', 50.0), ('objective_availability_percent__lte', 99.9999)), name='route_objective_availability_percent_in_range', violation_error_message='It must be between 50.0 and 99.9999.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('objective_first_token_p50_ms__gte', 1), ('objective_first_token_p50_ms__lte', 3600000)), name='route_objective_first_token_p50_ms_in_range', violation_error_message='It must be between 1 and 3,600,000.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('objective_first_token_p99_ms__gte', 1), ('objective_first_token_p99_ms__lte', 3600000)), name='route_objective_first_token_p99_ms_in_range', violation_error_message='It must be between 1 and 3,600,000.'),
        ),
        migrations.AddConstraint(
            model_name='silence',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('from_time__isnull', True), ('until_time__isnull', True), ('weekdays', [])), models.Q(models.Q(('weekdays', []), _negated=True), ('from_time__isnull', False), ('until_time__isnull', False)), _connector='OR'), name='silence_recurs_with_times'),
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.UniqueConstraint(condition=models.Q(('slack_id', ''), _negated=True), fields=('slack_id',), name='user_slack_id_unique'),
        ),
        migrations.AddIndex(
            model_name='slackcall',
            index=models.Index(fields=['at'], name='slack_call_at'),
        ),
        # a digest is of the same organisation as what it tells
        migrations.RunSQL(
            "ALTER TABLE controlplane_delivery ADD CONSTRAINT delivery_of_organisation"
            " UNIQUE (id, organisation_id)",
            "ALTER TABLE controlplane_delivery DROP CONSTRAINT delivery_of_organisation CASCADE",
        ),
        migrations.RunSQL(
            "ALTER TABLE controlplane_delivery ADD CONSTRAINT delivery_digest_same_organisation"
            " FOREIGN KEY (digest_id, organisation_id)"
            " REFERENCES controlplane_delivery (id, organisation_id) DEFERRABLE INITIALLY DEFERRED",
            migrations.RunSQL.noop,
        ),
    ]
