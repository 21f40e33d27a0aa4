"""Cache policies, the routes that have one, and purges with their count."""

import controlplane.models.caches
import controlplane.models.kinds
import controlplane.models.rows
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.db import migrations, models


OWN = (
    (
        "ALTER TABLE controlplane_cachepolicy ADD CONSTRAINT cachepolicy_of_organisation"
        " UNIQUE (id, organisation_id)",
        "ALTER TABLE controlplane_cachepolicy DROP CONSTRAINT cachepolicy_of_organisation CASCADE",
    ),
    (
        "ALTER TABLE controlplane_route ADD CONSTRAINT route_cache_policy_same_organisation"
        " FOREIGN KEY (cache_policy_id, organisation_id)"
        " REFERENCES controlplane_cachepolicy (id, organisation_id) DEFERRABLE INITIALLY DEFERRED",
        "ALTER TABLE controlplane_route DROP CONSTRAINT IF EXISTS"
        " route_cache_policy_same_organisation",
    ),
    (
        "CREATE SEQUENCE controlplane_purge_epoch",
        "DROP SEQUENCE controlplane_purge_epoch",
    ),
)


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0022_price_book'),
    ]

    operations = [
        migrations.CreateModel(
            name='Purge',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.purge_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=controlplane.models.kinds.purge_kinds, max_length=16)),
                ('value', models.TextField()),
                ('epoch', models.BigIntegerField(editable=False, unique=True)),
                ('reason', models.TextField(blank=True)),
                ('made_by', models.TextField(blank=True)),
            ],
        ),
        migrations.AddField(
            model_name='route',
            name='similarity_min',
            field=models.FloatField(blank=True, null=True),
        ),
        migrations.CreateModel(
            name='CachePolicy',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.cache_policy_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100, validators=[controlplane.models.rows.printable_name])),
                ('tiers', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=controlplane.models.kinds.cache_tiers, max_length=16), blank=True, default=controlplane.models.caches.default_tiers, size=None)),
                ('scope', models.CharField(choices=controlplane.models.kinds.cache_scopes, default='project', max_length=16)),
                ('ttl_s', models.JSONField(default=controlplane.models.caches.default_ttl_s)),
                ('stores_sampled', models.BooleanField(default=False)),
                ('stores_tool_calls', models.BooleanField(default=False)),
                ('serves_out_of_budget', models.BooleanField(default=True)),
                ('similarity_min', models.FloatField(default=0.92)),
                ('check_percent', models.FloatField(default=2.0)),
                ('stale_s', models.PositiveIntegerField(default=0)),
                ('bypass', models.JSONField(blank=True, default=list)),
                ('max_entry_bytes', models.PositiveIntegerField(default=1048576)),
                ('memory_percent', models.PositiveIntegerField(default=100)),
                ('edge_s', models.PositiveIntegerField(default=0)),
                ('is_enabled', models.BooleanField(default=True)),
                ('false_hits_max_percent', models.FloatField(blank=True, default=1.0, null=True)),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='cache_policies', to='controlplane.organisation')),
            ],
        ),
        migrations.AddField(
            model_name='route',
            name='cache_policy',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='routes', to='controlplane.cachepolicy'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('similarity_min__gte', 0.5), ('similarity_min__lte', 1.0)), name='route_similarity_min_in_range', violation_error_message='It must be between 0.5 and 1.0.'),
        ),
        migrations.AddField(
            model_name='purge',
            name='organisation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='purges', to='controlplane.organisation'),
        ),
        migrations.AddConstraint(
            model_name='cachepolicy',
            constraint=models.UniqueConstraint(models.F('organisation'), django.db.models.functions.text.Lower('name'), name='cache_policy_name_unique', violation_error_message='The organisation has a cache policy of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='cachepolicy',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='cache_policy_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'),
        ),
        migrations.AddConstraint(
            model_name='cachepolicy',
            constraint=models.CheckConstraint(condition=models.Q(('similarity_min__gte', 0.5), ('similarity_min__lte', 1.0)), name='cache_policy_similarity_min_in_range', violation_error_message='It must be between 0.5 and 1.0.'),
        ),
        migrations.AddConstraint(
            model_name='cachepolicy',
            constraint=models.CheckConstraint(condition=models.Q(('check_percent__gte', 0), ('check_percent__lte', 100)), name='cache_policy_check_percent_in_range', violation_error_message='It must be between 0 and 100.'),
        ),
        migrations.AddConstraint(
            model_name='cachepolicy',
            constraint=models.CheckConstraint(condition=models.Q(('stale_s__gte', 0), ('stale_s__lte', 2592000)), name='cache_policy_stale_s_in_range', violation_error_message='It must be between 0 and 2,592,000.'),
        ),
        migrations.AddConstraint(
            model_name='cachepolicy',
            constraint=models.CheckConstraint(condition=models.Q(('max_entry_bytes__gte', 1024), ('max_entry_bytes__lte', 16777216)), name='cache_policy_max_entry_bytes_in_range', violation_error_message='It must be between 1,024 and 16,777,216.'),
        ),
        migrations.AddConstraint(
            model_name='cachepolicy',
            constraint=models.CheckConstraint(condition=models.Q(('memory_percent__gte', 1), ('memory_percent__lte', 100)), name='cache_policy_memory_percent_in_range', violation_error_message='It must be between 1 and 100.'),
        ),
        migrations.AddConstraint(
            model_name='cachepolicy',
            constraint=models.CheckConstraint(condition=models.Q(('edge_s__gte', 0), ('edge_s__lte', 2592000)), name='cache_policy_edge_s_in_range', violation_error_message='It must be between 0 and 2,592,000.'),
        ),
        migrations.AddConstraint(
            model_name='cachepolicy',
            constraint=models.CheckConstraint(condition=models.Q(('false_hits_max_percent__gte', 0.1), ('false_hits_max_percent__lte', 50)), name='cache_policy_false_hits_max_percent_in_range', violation_error_message='It must be between 0.1 and 50.'),
        ),
        migrations.AddIndex(
            model_name='purge',
            index=models.Index(fields=['organisation', '-created_at'], name='purge_newest'),
        ),
        *(migrations.RunSQL(*one) for one in OWN),
    ]
