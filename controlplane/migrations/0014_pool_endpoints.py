"""What the workers of a pool have, of what their backend can have; none is all."""

import django.contrib.postgres.fields
from django.db import migrations, models

import controlplane.models.kinds


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0013_rule_minutes")]

    operations = [
        migrations.AddField(
            model_name="pool",
            name="endpoints",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.CharField(
                    choices=controlplane.models.kinds.endpoints, max_length=32
                ),
                blank=True,
                default=list,
                size=None,
            ),
        ),
    ]
