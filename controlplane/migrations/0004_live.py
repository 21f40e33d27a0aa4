"""Live figures: traffic, workers and coverage, fine and by the minute."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0003_printable_names'),
    ]

    operations = [
        migrations.CreateModel(
            name='LiveCoverage',
            fields=[
                ('pk', models.CompositePrimaryKey('resolution_s', 'at', blank=True, editable=False, primary_key=True, serialize=False)),
                ('resolution_s', models.IntegerField()),
                ('at', models.DateTimeField()),
                ('since_s', models.FloatField(null=True)),
                ('until_s', models.FloatField(null=True)),
                ('covered_s', models.FloatField()),
                ('live', models.IntegerField()),
                ('seen', models.IntegerField()),
                ('missing', models.JSONField()),
                ('as_of', models.DateTimeField()),
            ],
        ),
        migrations.CreateModel(
            name='LiveTraffic',
            fields=[
                ('pk', models.CompositePrimaryKey('resolution_s', 'organisation_id', 'at', 'pool_id', 'route_id', 'source', blank=True, editable=False, primary_key=True, serialize=False)),
                ('resolution_s', models.IntegerField()),
                ('organisation_id', models.TextField()),
                ('at', models.DateTimeField()),
                ('pool_id', models.TextField()),
                ('route_id', models.TextField()),
                ('source', models.TextField()),
                ('requests', models.BigIntegerField()),
                ('failures', models.JSONField()),
                ('prompt_tokens', models.BigIntegerField()),
                ('completion_tokens', models.BigIntegerField()),
                ('cost_nanousd', models.BigIntegerField()),
                ('unknown_usage', models.BigIntegerField()),
                ('unknown_cost', models.BigIntegerField()),
                ('first_token_ms', models.JSONField()),
                ('output_token_ms', models.JSONField()),
            ],
            options={
                'indexes': [models.Index(fields=['resolution_s', 'at'], name='live_traffic_at')],
            },
        ),
        migrations.CreateModel(
            name='LiveWorker',
            fields=[
                ('pk', models.CompositePrimaryKey('resolution_s', 'pool_id', 'at', 'worker_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('resolution_s', models.IntegerField()),
                ('pool_id', models.TextField()),
                ('at', models.DateTimeField()),
                ('worker_id', models.TextField()),
                ('is_gpu', models.BooleanField()),
                ('running_sum', models.FloatField()),
                ('running_samples', models.IntegerField()),
                ('waiting_sum', models.FloatField()),
                ('waiting_samples', models.IntegerField()),
                ('kv_used_sum', models.FloatField()),
                ('kv_used_samples', models.IntegerField()),
                ('utilisation_sum', models.FloatField()),
                ('utilisation_samples', models.IntegerField()),
                ('memory_bytes_sum', models.FloatField()),
                ('memory_bytes_samples', models.IntegerField()),
            ],
            options={
                'indexes': [models.Index(fields=['resolution_s', 'at'], name='live_worker_at')],
            },
        ),
    ]

