"""Comments that keep silent streams alive; routes that are there have none before the answer."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0008_former_ledgers")]

    operations = [
        migrations.AddField(
            model_name="route",
            name="keep_alive_ms",
            field=models.PositiveIntegerField(blank=True, null=True),
        ),
        migrations.AddConstraint(
            model_name="route",
            constraint=models.CheckConstraint(
                condition=models.Q(("keep_alive_ms__gte", 1_000), ("keep_alive_ms__lte", 600_000)),
                name="route_keep_alive_ms_in_range",
                violation_error_message="It must be between 1,000 and 600,000.",
            ),
        ),
    ]
