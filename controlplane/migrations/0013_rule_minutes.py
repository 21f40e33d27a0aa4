"""What each rule of a route took, by the minute; the last day of it from the ledger's own rows."""

from django.db import migrations, models

FILL = """
INSERT INTO controlplane_ruleminute (organisation_id, minute, route_id, rule_id, requests)
SELECT organisation_id, date_trunc('minute', at, 'UTC'), route_id, rule_id, COUNT(*)
FROM controlplane_request
WHERE day >= ((now() - interval '25 hours') AT TIME ZONE 'UTC')::date
  AND at >= now() - interval '25 hours' AND route_id IS NOT NULL AND rule_id IS NOT NULL
GROUP BY 1, 2, 3, 4
"""


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0012_target_tiers")]

    operations = [
        migrations.CreateModel(
            name="RuleMinute",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "organisation_id",
                        "minute",
                        "route_id",
                        "rule_id",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("organisation_id", models.TextField()),
                ("minute", models.DateTimeField()),
                ("route_id", models.TextField()),
                ("rule_id", models.TextField()),
                ("requests", models.BigIntegerField(default=0)),
            ],
            options={"indexes": [models.Index(fields=["minute"], name="rule_minute_at")]},
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
