"""Roll-ups by hour, by the organisation's days and by what callers name, summed from the ledger.

No row was ever dropped from the ledger before this, so it tells all that the roll-ups had. Names
are kept from the days that were there. The recorder must not run meanwhile, as at any upgrade.
"""

from django.db import migrations, models

KEEP_LABELS = """
CREATE TABLE controlplane_formerlabel AS
    SELECT DISTINCT ON (organisation_id, dimension, value) organisation_id, dimension, value, label
    FROM controlplane_usageday WHERE label <> ''
    ORDER BY organisation_id, dimension, value, day DESC
"""

# A request is counted at its last attempt, all else at each; one that never went upstream is told
# by its own row. What a failure is: inference/decisions/outcomes.py.
ATTEMPTS = """
CREATE TEMPORARY TABLE attempt ON COMMIT DROP AS
SELECT r.organisation_id, r.project_id, r.team_id, r.key_id, COALESCE(r.route_id, '') AS route_id,
    COALESCE(c.pool_id, '') AS pool_id, COALESCE(c.model_id, '') AS model_id,
    r.at - make_interval(
        mins => extract(minute FROM r.at AT TIME ZONE zone)::int,
        secs => extract(second FROM r.at AT TIME ZONE zone)::double precision
    ) AS hour,
    (r.at AT TIME ZONE zone)::date AS day, r.end_user,
    CASE WHEN jsonb_array_length(r.tags) > 0 THEN r.tags END AS tags,
    is_last::int AS requests,
    CASE WHEN NOT is_last THEN 0
        WHEN r.outcome = 'lost_gateway' THEN 1
        WHEN r.outcome IN ('ok', 'cancelled') THEN 0
        WHEN r.http_status BETWEEN 400 AND 499 THEN 0
        ELSE 1 END AS errors,
    (c.event_id IS NOT NULL)::int AS attempts,
    COALESCE(c.prompt_tokens, 0) AS prompt_tokens,
    COALESCE(c.completion_tokens, 0) AS completion_tokens,
    COALESCE(c.cached_tokens, 0) AS cached_tokens,
    COALESCE(c.cost_nanousd, 0) AS cost_nanousd,
    (c.event_id IS NOT NULL AND (c.prompt_tokens IS NULL OR c.completion_tokens IS NULL))::int
        AS unknown_usage,
    (is_last AND r.cost_nanousd IS NULL)::int AS unknown_cost
FROM (
    SELECT one.*, COALESCE(o.time_zone, 'UTC') AS zone,
        (SELECT max(attempt) FROM controlplane_charge AS own
         WHERE own.event_id = one.event_id AND own.day = one.day) AS last_attempt
    FROM controlplane_request AS one LEFT JOIN controlplane_organisation AS o
        ON o.id = one.organisation_id
) AS r
LEFT JOIN controlplane_charge AS c ON c.event_id = r.event_id AND c.day = r.day
CROSS JOIN LATERAL (SELECT c.attempt IS NOT DISTINCT FROM r.last_attempt AS is_last) AS place
"""

SUMS = (
    "requests errors attempts prompt_tokens completion_tokens cached_tokens cost_nanousd"
    " unknown_usage unknown_cost"
).split()
NAMES = ", ".join(SUMS)
SUMMED = ", ".join(f"sum({name})" for name in SUMS)

HOURS = f"""
INSERT INTO controlplane_usagehour (organisation_id, hour, dimension, value, project_id, {NAMES})
SELECT organisation_id, hour, dimension, value, project_id, {SUMMED}
FROM attempt CROSS JOIN LATERAL (VALUES
    ('route', route_id), ('pool', pool_id), ('model', model_id), ('project', project_id),
    ('team', team_id), ('key', key_id)
) AS placed(dimension, value)
GROUP BY 1, 2, 3, 4, 5
"""

DAYS = f"""
INSERT INTO controlplane_usageday
    (organisation_id, day, dimension, value, project_id, {NAMES}, label)
SELECT organisation_id, day, dimension, value, project_id, {NAMES}, COALESCE(label, '')
FROM (
    SELECT h.organisation_id, (hour AT TIME ZONE COALESCE(o.time_zone, 'UTC'))::date AS day,
        dimension, value, project_id, {", ".join(f"sum({name}) AS {name}" for name in SUMS)}
    FROM controlplane_usagehour AS h LEFT JOIN controlplane_organisation AS o
        ON o.id = h.organisation_id
    GROUP BY 1, 2, 3, 4, 5
) AS days LEFT JOIN controlplane_formerlabel USING (organisation_id, dimension, value)
"""

NAMED = f"""
INSERT INTO controlplane_usagenamed
    (organisation_id, day, dimension, key_id, kind, value, project_id, {NAMES})
SELECT organisation_id, day, 'end_user', key_id, 'named', end_user, project_id, {SUMMED}
FROM attempt WHERE end_user <> '' GROUP BY 1, 2, 4, 6, 7
UNION ALL
SELECT organisation_id, day, 'tag', key_id, 'named', tag, project_id, {SUMMED}
FROM attempt CROSS JOIN LATERAL jsonb_array_elements_text(tags) AS named(tag)
GROUP BY 1, 2, 4, 6, 7
UNION ALL
SELECT organisation_id, day, 'tag', key_id, 'repeated', '', project_id,
    {", ".join(f"-sum({name} * (jsonb_array_length(tags) - 1))" for name in SUMS)}
FROM attempt WHERE jsonb_array_length(tags) > 1 GROUP BY 1, 2, 4, 7
"""

DROP = "DROP TABLE controlplane_formerlabel"


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0017_budgets'),
    ]

    operations = [
        migrations.RunSQL(KEEP_LABELS, DROP),
        migrations.DeleteModel(name='UsageDay'),
        migrations.CreateModel(
            name='UsageHour',
            fields=[
                ('requests', models.BigIntegerField(default=0)),
                ('errors', models.BigIntegerField(default=0)),
                ('attempts', models.BigIntegerField(default=0)),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('completion_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('cost_nanousd', models.BigIntegerField(default=0)),
                ('unknown_usage', models.BigIntegerField(default=0)),
                ('unknown_cost', models.BigIntegerField(default=0)),
                ('pk', models.CompositePrimaryKey('organisation_id', 'hour', 'dimension', 'value', 'project_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('organisation_id', models.TextField()),
                ('hour', models.DateTimeField()),
                ('dimension', models.TextField()),
                ('value', models.TextField()),
                ('project_id', models.TextField(default='')),
            ],
            options={'indexes': [models.Index(fields=['organisation_id', 'dimension', 'hour'], name='usage_hour_dimension')]},
        ),
        migrations.CreateModel(
            name='UsageDay',
            fields=[
                ('requests', models.BigIntegerField(default=0)),
                ('errors', models.BigIntegerField(default=0)),
                ('attempts', models.BigIntegerField(default=0)),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('completion_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('cost_nanousd', models.BigIntegerField(default=0)),
                ('unknown_usage', models.BigIntegerField(default=0)),
                ('unknown_cost', models.BigIntegerField(default=0)),
                ('pk', models.CompositePrimaryKey('organisation_id', 'day', 'dimension', 'value', 'project_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('organisation_id', models.TextField()),
                ('day', models.DateField()),
                ('dimension', models.TextField()),
                ('value', models.TextField()),
                ('project_id', models.TextField(default='')),
                ('label', models.TextField(default='')),
            ],
            options={'indexes': [models.Index(fields=['organisation_id', 'dimension', 'day'], name='usage_day_dimension')]},
        ),
        migrations.CreateModel(
            name='UsageNamed',
            fields=[
                ('requests', models.BigIntegerField(default=0)),
                ('errors', models.BigIntegerField(default=0)),
                ('attempts', models.BigIntegerField(default=0)),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('completion_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('cost_nanousd', models.BigIntegerField(default=0)),
                ('unknown_usage', models.BigIntegerField(default=0)),
                ('unknown_cost', models.BigIntegerField(default=0)),
                ('pk', models.CompositePrimaryKey('organisation_id', 'day', 'dimension', 'key_id', 'kind', 'value', 'project_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('organisation_id', models.TextField()),
                ('day', models.DateField()),
                ('dimension', models.TextField()),
                ('key_id', models.TextField()),
                ('kind', models.TextField()),
                ('value', models.TextField()),
                ('project_id', models.TextField()),
            ],
            options={'indexes': [models.Index(fields=['organisation_id', 'dimension', 'day'], name='usage_named_dimension')]},
        ),
        migrations.RunSQL([ATTEMPTS, HOURS, DAYS, NAMED, DROP], KEEP_LABELS),
    ]
