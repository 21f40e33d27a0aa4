"""Live figures tell refusals apart by reason."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0026_alert_levels")]

    operations = [
        migrations.AddField("livetraffic", "refused", models.JSONField(default=dict)),
    ]
