"""Alert rules with a graver threshold and a policy for missing data."""

from django.db import migrations, models

import controlplane.models.kinds


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0025_days_changed")]

    operations = [
        migrations.AddField("alertrule", "critical_at", models.FloatField(blank=True, null=True)),
        migrations.AddField(
            "alertrule",
            "on_no_data",
            models.CharField(
                choices=controlplane.models.kinds.no_data_policies, default="keep", max_length=8
            ),
        ),
        migrations.AddField(
            "alertstanding", "critical_since", models.DateTimeField(blank=True, null=True)
        ),
        migrations.AddField("alertstanding", "is_critical", models.BooleanField(default=False)),
        migrations.AddField("episode", "worsened_at", models.DateTimeField(blank=True, null=True)),
        migrations.AddField(
            "episode", "worse_told_at", models.DateTimeField(blank=True, null=True)
        ),
    ]
