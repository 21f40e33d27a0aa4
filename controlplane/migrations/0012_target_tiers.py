"""A pool may stand in several tiers of a route: as a first choice and as a last one."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0011_replays")]

    operations = [
        migrations.RemoveConstraint(model_name="routetarget", name="route_target_pool_unique"),
        migrations.AddConstraint(
            model_name="routetarget",
            constraint=models.UniqueConstraint(
                deferrable=models.Deferrable["DEFERRED"],
                fields=("route", "pool", "tier"),
                name="route_target_pool_tier_unique",
            ),
        ),
    ]
