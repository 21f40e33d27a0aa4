"""Attempts by day and the price version they were charged at, summed from the ledger.

A day of the ledger at a time, so that what is summed fits into memory however long it is. The
recorder must not run meanwhile, as at any upgrade.
"""

from django.db import migrations, models

SUMS = "attempts prompt_tokens completion_tokens cost_nanousd unpriced unknown_usage".split()
ADDED = ", ".join(f"{name} = kept.{name} + EXCLUDED.{name}" for name in SUMS)
KEY = "organisation_id, day, version_id, team_id, project_id, model_id, pool_id"

FILL = f"""
INSERT INTO controlplane_usagepriced AS kept ({KEY}, {", ".join(SUMS)})
SELECT r.organisation_id, (r.at AT TIME ZONE COALESCE(o.time_zone, 'UTC'))::date,
    COALESCE(c.price_id, ''), r.team_id, r.project_id, c.model_id, c.pool_id, count(*),
    COALESCE(sum(c.prompt_tokens), 0), COALESCE(sum(c.completion_tokens), 0),
    COALESCE(sum(c.cost_nanousd), 0), count(*) FILTER (WHERE c.cost_nanousd IS NULL),
    count(*) FILTER (WHERE c.prompt_tokens IS NULL OR c.completion_tokens IS NULL)
FROM controlplane_request AS r
JOIN controlplane_charge AS c ON c.event_id = r.event_id AND c.day = %(day)s
LEFT JOIN controlplane_organisation AS o ON o.id = r.organisation_id
WHERE r.day = %(day)s
GROUP BY 1, 2, 3, 4, 5, 6, 7
ON CONFLICT ({KEY}) DO UPDATE SET {ADDED}
"""

CORRECT = f"""
INSERT INTO controlplane_usagepriced AS kept ({KEY}, {", ".join(SUMS)})
SELECT c.organisation_id, (c.at AT TIME ZONE COALESCE(o.time_zone, 'UTC'))::date, '', c.team_id,
    c.project_id, c.model_id, c.pool_id, 0, 0, 0, sum(c.amount_nanousd),
    -count(*) FILTER (WHERE c.was_unknown), 0
FROM controlplane_spendcorrection AS c
LEFT JOIN controlplane_organisation AS o ON o.id = c.organisation_id
WHERE c.repricing_id IS NULL OR c.day >= (SELECT min(day) FROM controlplane_request)
GROUP BY 1, 2, 3, 4, 5, 6, 7
ON CONFLICT ({KEY}) DO UPDATE SET {ADDED}
"""
# what repricings changed of days the ledger has dropped would stand without what they changed


def fill(apps, schema_editor):
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT day FROM controlplane_request ORDER BY 1")
        for (day,) in cursor.fetchall():
            cursor.execute(FILL, {"day": day})
        cursor.execute(CORRECT)


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0023_caches'),
    ]

    operations = [
        migrations.CreateModel(
            name='UsagePriced',
            fields=[
                ('pk', models.CompositePrimaryKey('organisation_id', 'day', 'version_id', 'team_id', 'project_id', 'model_id', 'pool_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('organisation_id', models.TextField()),
                ('day', models.DateField()),
                ('version_id', models.TextField()),
                ('team_id', models.TextField()),
                ('project_id', models.TextField()),
                ('model_id', models.TextField()),
                ('pool_id', models.TextField()),
                ('attempts', models.BigIntegerField(default=0)),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('completion_tokens', models.BigIntegerField(default=0)),
                ('cost_nanousd', models.BigIntegerField(default=0)),
                ('unpriced', models.BigIntegerField(default=0)),
                ('unknown_usage', models.BigIntegerField(default=0)),
            ],
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
