"""Replays: what drafts of routes would have done to past traffic."""

import controlplane.models.rows
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0010_traffic'),
    ]

    operations = [
        migrations.CreateModel(
            name='Replay',
            fields=[
                ('id', models.CharField(default=controlplane.models.rows.replay_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('created_by', models.CharField(max_length=255)),
                ('route_id', models.CharField(max_length=40)),
                ('route_name', models.TextField()),
                ('changes', models.JSONField()),
                ('drafted', models.JSONField()),
                ('lineage', models.TextField()),
                ('version', models.BigIntegerField()),
                ('since', models.DateTimeField()),
                ('until', models.DateTimeField()),
                ('most_requests', models.IntegerField()),
                ('state', models.CharField(choices=[('queued', 'Queued'), ('running', 'Running'), ('done', 'Done'), ('failed', 'Failed')], default='queued', max_length=8)),
                ('total', models.IntegerField(default=0)),
                ('done', models.IntegerField(default=0)),
                ('detail', models.TextField(blank=True, default='')),
                ('beat_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('report', models.JSONField(null=True)),
                ('published_version', models.BigIntegerField(null=True)),
                ('published_at', models.DateTimeField(null=True)),
                ('observed', models.JSONField(null=True)),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='replays', to='controlplane.organisation')),
            ],
            options={
                'indexes': [models.Index(fields=['organisation', '-created_at'], name='replay_newest'), models.Index(fields=['state'], name='replay_by_state')],
            },
        ),
    ]
