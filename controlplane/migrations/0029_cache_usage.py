"""What a cache did for each request, and the roll-ups of it: savings, similarities, false hits."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0027_refusals_and_grace'),
    ]

    operations = [
        migrations.CreateModel(
            name='CacheHour',
            fields=[
                ('pk', models.CompositePrimaryKey('organisation_id', 'hour', 'project_id', 'route_id', 'policy_id', 'outcome', 'tier', blank=True, editable=False, primary_key=True, serialize=False)),
                ('organisation_id', models.TextField()),
                ('hour', models.DateTimeField()),
                ('project_id', models.TextField()),
                ('route_id', models.TextField()),
                ('policy_id', models.TextField()),
                ('outcome', models.TextField()),
                ('tier', models.TextField()),
                ('requests', models.BigIntegerField(default=0)),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('completion_tokens', models.BigIntegerField(default=0)),
                ('saved_nanousd', models.BigIntegerField(default=0)),
                ('unknown_saved', models.BigIntegerField(default=0)),
                ('saved_ms', models.FloatField(default=0.0)),
                ('inputs', models.BigIntegerField(default=0)),
                ('inputs_hit', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.AddField(
            model_name='request',
            name='cache',
            field=models.JSONField(null=True),
        ),
        migrations.CreateModel(
            name='CacheSimilarity',
            fields=[
                ('pk', models.CompositePrimaryKey('organisation_id', 'hour', 'route_id', 'step', 'verdict', blank=True, editable=False, primary_key=True, serialize=False)),
                ('organisation_id', models.TextField()),
                ('hour', models.DateTimeField()),
                ('route_id', models.TextField()),
                ('step', models.SmallIntegerField()),
                ('verdict', models.TextField()),
                ('requests', models.BigIntegerField(default=0)),
            ],
            options={
                'indexes': [models.Index(fields=['hour'], name='cache_similarity_hour')],
            },
        ),
        migrations.CreateModel(
            name='FalseHit',
            fields=[
                ('pk', models.CompositePrimaryKey('event_id', 'source', blank=True, editable=False, primary_key=True, serialize=False)),
                ('event_id', models.TextField()),
                ('source', models.TextField()),
                ('organisation_id', models.TextField()),
                ('at', models.DateTimeField()),
                ('project_id', models.TextField()),
                ('route_id', models.TextField()),
                ('policy_id', models.TextField()),
                ('entry_id', models.TextField()),
                ('similarity', models.FloatField(null=True)),
                ('told_by', models.TextField(default='')),
                ('reason', models.TextField(default='')),
            ],
            options={
                'indexes': [models.Index(fields=['organisation_id', '-at'], name='false_hit_newest')],
            },
        ),
    ]
