"""Alerts: rules, what became of them, silences, channels, and the outbox of messages."""

import controlplane.models.kinds
import controlplane.models.rows
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.db import migrations, models

# No reference crosses organisations; what is the installation's has none, and is not held to it.
PARENTS = ("alertrule", "channel", "episode")
REFERENCES = (
    ("rulechannel", "rule", "alertrule"),
    ("rulechannel", "channel", "channel"),
    ("episode", "rule", "alertrule"),
    ("silence", "rule", "alertrule"),
    ("delivery", "channel", "channel"),
    ("delivery", "episode", "episode"),
)


def reference(child, field, parent):
    return (
        f"ALTER TABLE controlplane_{child} ADD CONSTRAINT {child}_{field}_same_organisation"
        f" FOREIGN KEY ({field}_id, organisation_id)"
        f" REFERENCES controlplane_{parent} (id, organisation_id) DEFERRABLE INITIALLY DEFERRED"
    )


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0015_live_peaks'),
    ]

    operations = [
        migrations.CreateModel(
            name='AlertRule',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.alert_rule_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100, validators=[controlplane.models.rows.printable_name])),
                ('kind', models.CharField(choices=controlplane.models.kinds.alert_kinds, max_length=32)),
                ('scope', models.CharField(choices=controlplane.models.kinds.alert_scopes, max_length=16)),
                ('scope_id', models.TextField(blank=True, null=True)),
                ('threshold', models.FloatField()),
                ('window_s', models.PositiveIntegerField(default=0)),
                ('for_s', models.PositiveIntegerField(default=0)),
                ('severity', models.CharField(choices=controlplane.models.kinds.severities, default='warning', max_length=16)),
                ('tells_resolved', models.BooleanField(default=True)),
                ('is_enabled', models.BooleanField(default=True)),
                ('organisation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='alert_rules', to='controlplane.organisation')),
            ],
        ),
        migrations.CreateModel(
            name='AlertStanding',
            fields=[
                ('pk', models.CompositePrimaryKey('rule_id', 'subject_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('subject_id', models.TextField()),
                ('is_firing', models.BooleanField(default=False)),
                ('breached_since', models.DateTimeField(blank=True, null=True)),
                ('cleared_since', models.DateTimeField(blank=True, null=True)),
                ('seen_at', models.DateTimeField()),
                ('value', models.FloatField(blank=True, null=True)),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='standings', to='controlplane.alertrule')),
            ],
        ),
        migrations.CreateModel(
            name='Channel',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.channel_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100, validators=[controlplane.models.rows.printable_name])),
                ('kind', models.CharField(choices=controlplane.models.kinds.channel_kinds, max_length=16)),
                ('recipients', django.contrib.postgres.fields.ArrayField(base_field=models.EmailField(max_length=254), blank=True, default=list, size=None)),
                ('url', models.TextField(blank=True, editable=False, null=True)),
                ('host', models.CharField(blank=True, default='', editable=False, max_length=255)),
                ('secret', models.TextField(blank=True, editable=False, null=True)),
                ('secret_last4', models.CharField(blank=True, default='', editable=False, max_length=4)),
                ('tells_switches', models.BooleanField(default=False)),
                ('is_enabled', models.BooleanField(default=True)),
                ('disabled_reason', models.CharField(blank=True, default='', editable=False, max_length=500)),
                ('failures', models.PositiveIntegerField(default=0, editable=False)),
                ('waits_until', models.DateTimeField(blank=True, editable=False, null=True)),
                ('last_sent_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('organisation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='channels', to='controlplane.organisation')),
            ],
        ),
        migrations.CreateModel(
            name='Episode',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.episode_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('kind', models.CharField(choices=controlplane.models.kinds.alert_kinds, max_length=32)),
                ('scope', models.CharField(choices=controlplane.models.kinds.alert_scopes, max_length=16)),
                ('subject_id', models.TextField()),
                ('subject_name', models.TextField(blank=True, default='')),
                ('threshold', models.FloatField()),
                ('window_s', models.PositiveIntegerField(default=0)),
                ('severity', models.CharField(choices=controlplane.models.kinds.severities, max_length=16)),
                ('state', models.CharField(choices=controlplane.models.kinds.episode_states, default='open', max_length=16)),
                ('value', models.FloatField(blank=True, null=True)),
                ('peak', models.FloatField(blank=True, null=True)),
                ('opened_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('acknowledged_at', models.DateTimeField(blank=True, null=True)),
                ('acknowledged_by', models.CharField(blank=True, default='', max_length=255)),
                ('snoozed_until', models.DateTimeField(blank=True, null=True)),
                ('resolved_at', models.DateTimeField(blank=True, null=True)),
                ('resolved_why', models.CharField(blank=True, default='', max_length=200)),
                ('told_at', models.DateTimeField(blank=True, null=True)),
                ('end_told_at', models.DateTimeField(blank=True, null=True)),
                ('organisation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='episodes', to='controlplane.organisation')),
                ('rule', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='episodes', to='controlplane.alertrule')),
            ],
        ),
        migrations.CreateModel(
            name='Delivery',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.delivery_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=controlplane.models.kinds.delivery_kinds, max_length=16)),
                ('content', models.JSONField()),
                ('state', models.CharField(choices=controlplane.models.kinds.delivery_states, default='queued', max_length=16)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('next_try_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('taken_at', models.DateTimeField(blank=True, null=True)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('status', models.PositiveIntegerField(blank=True, null=True)),
                ('error', models.CharField(blank=True, default='', max_length=500)),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='controlplane.channel')),
                ('organisation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='controlplane.organisation')),
                ('episode', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='deliveries', to='controlplane.episode')),
            ],
        ),
        migrations.CreateModel(
            name='RuleChannel',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('channel', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='controlplane.channel')),
                ('organisation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='controlplane.organisation')),
                ('rule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='controlplane.alertrule')),
            ],
        ),
        migrations.AddField(
            model_name='alertrule',
            name='channels',
            field=models.ManyToManyField(blank=True, related_name='rules', through='controlplane.RuleChannel', to='controlplane.channel'),
        ),
        migrations.CreateModel(
            name='Silence',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.silence_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('subject_id', models.TextField(blank=True, null=True)),
                ('reason', models.CharField(max_length=200, validators=[controlplane.models.rows.printable_name])),
                ('created_by', models.CharField(max_length=255)),
                ('ends_at', models.DateTimeField()),
                ('organisation', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='silences', to='controlplane.organisation')),
                ('rule', models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name='silences', to='controlplane.alertrule')),
            ],
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.UniqueConstraint(models.F('organisation'), django.db.models.functions.text.Lower('name'), name='channel_name_unique', nulls_distinct=False, violation_error_message='There is a channel of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='channel',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='channel_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'),
        ),
        migrations.AddIndex(
            model_name='episode',
            index=models.Index(fields=['organisation', '-opened_at'], name='episode_newest'),
        ),
        migrations.AddConstraint(
            model_name='episode',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'resolved'), _negated=True), fields=('rule', 'kind', 'scope', 'subject_id', 'window_s', 'threshold'), name='episode_one_at_a_time', nulls_distinct=False),
        ),
        migrations.AddConstraint(
            model_name='episode',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('resolved_at__isnull', False), ('state', 'resolved')), models.Q(models.Q(('state', 'resolved'), _negated=True), ('resolved_at__isnull', True)), _connector='OR'), name='episode_resolved_has_a_time'),
        ),
        migrations.AddIndex(
            model_name='episode',
            index=models.Index(condition=models.Q(('state', 'resolved'), _negated=True), fields=['organisation'], name='episode_held'),
        ),
        migrations.AddIndex(
            model_name='episode',
            index=models.Index(fields=['resolved_at'], name='episode_ended'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(condition=models.Q(('state__in', ('queued', 'sending'))), fields=['next_try_at'], name='delivery_due'),
        ),
        migrations.AddIndex(
            model_name='delivery',
            index=models.Index(fields=['organisation', '-created_at'], name='delivery_newest'),
        ),
        migrations.AddConstraint(
            model_name='rulechannel',
            constraint=models.UniqueConstraint(fields=('rule', 'channel'), name='rule_channel_unique'),
        ),
        migrations.AddConstraint(
            model_name='alertrule',
            constraint=models.UniqueConstraint(models.F('organisation'), django.db.models.functions.text.Lower('name'), name='alert_rule_name_unique', nulls_distinct=False, violation_error_message='There is a rule of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='alertrule',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='alert_rule_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'),
        ),
        migrations.AddConstraint(
            model_name='silence',
            constraint=models.CheckConstraint(condition=models.Q(('ends_at__gt', models.F('created_at'))), name='silence_ends_later'),
        ),
        migrations.RunSQL(
            [f"ALTER TABLE controlplane_{parent} ADD CONSTRAINT {parent}_of_organisation UNIQUE (id, organisation_id)" for parent in PARENTS],
            [f"ALTER TABLE controlplane_{parent} DROP CONSTRAINT {parent}_of_organisation CASCADE" for parent in PARENTS],
        ),
        migrations.RunSQL(
            [reference(*one) for one in REFERENCES],
            migrations.RunSQL.noop,
        ),
    ]
