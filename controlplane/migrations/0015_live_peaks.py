"""Live figures of queues and degradation, and of requests sent away by class."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0014_pool_endpoints")]

    operations = [
        migrations.AddField(
            model_name="livetraffic", name="shed", field=models.JSONField(default=dict)
        ),
        migrations.CreateModel(
            name="LivePeak",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "resolution_s",
                        "kind",
                        "subject_id",
                        "at",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("resolution_s", models.IntegerField()),
                ("kind", models.TextField()),
                ("subject_id", models.TextField()),
                ("at", models.DateTimeField()),
                ("value", models.FloatField()),
                ("since", models.DateTimeField(null=True)),
            ],
            options={
                "indexes": [models.Index(fields=["resolution_s", "at"], name="live_peak_at")],
            },
        ),
    ]
