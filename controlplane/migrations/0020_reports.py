"""Roll-ups by hour, by the organisation's days and by what callers name; reports; compared books.

The roll-ups are summed from the ledger. Days that were there before its oldest one stay, as they
were counted by UTC, without their projects. Names are kept from the days that were there. The
recorder must not run meanwhile, as at any upgrade.
"""

import controlplane.models.kinds
import controlplane.models.rows
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.db import migrations, models

KEEP_LABELS = """
CREATE TABLE controlplane_formerlabel AS
    SELECT DISTINCT ON (organisation_id, dimension, value) organisation_id, dimension, value, label
    FROM controlplane_usageday WHERE label <> ''
    ORDER BY organisation_id, dimension, value, day DESC
"""

# What the ledger can't tell again, because its rows of then were removed by hand.
KEEP_DAYS = """
CREATE TABLE controlplane_formerday AS
    SELECT * FROM controlplane_usageday
    WHERE day < (SELECT COALESCE(min(day), 'infinity') FROM controlplane_request)
"""

# One day of the ledger at a time, so that what is summed fits into memory however long it is.
# A request is counted at its last attempt, all else at each; one that never went upstream is told
# by its own row. What a failure is: inference/decisions/outcomes.py.
ATTEMPTS = """
CREATE TEMPORARY TABLE attempt AS
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
    SELECT one.*, COALESCE(o.time_zone, 'UTC') AS zone
    FROM controlplane_request AS one LEFT JOIN controlplane_organisation AS o
        ON o.id = one.organisation_id
    WHERE one.day = %(day)s
) AS r
LEFT JOIN controlplane_charge AS c ON c.event_id = r.event_id AND c.day = %(day)s
CROSS JOIN LATERAL (
    SELECT r.attempts <= 1 OR c.attempt IS NOT DISTINCT FROM (
        SELECT max(attempt) FROM controlplane_charge AS own
        WHERE own.event_id = r.event_id AND own.day = %(day)s
    ) AS is_last
) AS place
"""

SUMS = (
    "requests errors attempts prompt_tokens completion_tokens cached_tokens cost_nanousd"
    " unknown_usage unknown_cost"
).split()
NAMES = ", ".join(SUMS)
SUMMED = ", ".join(f"sum({name})" for name in SUMS)

ADDED = ", ".join(f"{name} = kept.{name} + EXCLUDED.{name}" for name in SUMS)

HOURS = f"""
INSERT INTO controlplane_usagehour AS kept
    (organisation_id, hour, dimension, value, project_id, {NAMES})
SELECT organisation_id, hour, dimension, value, project_id, {SUMMED}
FROM attempt CROSS JOIN LATERAL (VALUES
    ('route', route_id), ('pool', pool_id), ('model', model_id), ('project', project_id),
    ('team', team_id), ('key', key_id)
) AS placed(dimension, value)
GROUP BY 1, 2, 3, 4, 5
ON CONFLICT (organisation_id, hour, dimension, value, project_id) DO UPDATE SET {ADDED}
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

# West of Greenwich the ledger's oldest day begins in the day before: what both have of it is added.
FORMER_DAYS = f"""
INSERT INTO controlplane_usageday AS kept
    (organisation_id, day, dimension, value, project_id, {NAMES}, label)
SELECT organisation_id, day, dimension, value,
    CASE dimension WHEN 'project' THEN value ELSE '' END, {NAMES}, label
FROM controlplane_formerday
ON CONFLICT (organisation_id, day, dimension, value, project_id) DO UPDATE SET {ADDED}
"""

NAMED = f"""
INSERT INTO controlplane_usagenamed AS kept
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
ON CONFLICT (organisation_id, day, dimension, key_id, kind, value, project_id)
DO UPDATE SET {ADDED}
"""

DROP = "DROP TABLE controlplane_formerlabel"
DROP_DAYS = "DROP TABLE controlplane_formerday"

RECORDED = """
UPDATE controlplane_journalmark AS mark SET recorded = counted.rows
FROM (SELECT journal, count(*) AS rows FROM controlplane_request GROUP BY journal) AS counted
WHERE counted.journal = mark.journal
"""

# What was set aside or let go of was not counted by journal before this.
SKIPPED = """
UPDATE controlplane_journalmark SET skipped = mark - recorded + (
    SELECT COALESCE(sum((one->>1)::bigint - (one->>0)::bigint + 1), 0)
    FROM jsonb_array_elements(ahead) AS one
)
"""


def sum_ledger(apps, schema_editor):
    """Sum the hours and names of each day of the ledger."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT day FROM controlplane_request ORDER BY 1")
        for (day,) in cursor.fetchall():
            cursor.execute(ATTEMPTS, {"day": day})
            cursor.execute("ANALYZE attempt")
            cursor.execute(HOURS)
            cursor.execute(NAMED)
            cursor.execute("DROP TABLE attempt")


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0018_budget_actions'),
    ]

    operations = [
        migrations.RunSQL([KEEP_LABELS, KEEP_DAYS], DROP),
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
        migrations.RunPython(sum_ledger, migrations.RunPython.noop),
        migrations.RunSQL([DAYS, FORMER_DAYS, DROP, DROP_DAYS], KEEP_LABELS),
        migrations.CreateModel(
            name='LedgerCheck',
            fields=[
                ('name', models.TextField(primary_key=True, serialize=False)),
                ('checked_at', models.DateTimeField()),
                ('since', models.DateTimeField(null=True)),
                ('until', models.DateTimeField(null=True)),
                ('differences', models.JSONField(default=list)),
                ('detail', models.TextField(default='')),
            ],
        ),
        migrations.AddField(
            model_name='journalmark',
            name='recorded',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='journalmark',
            name='set_aside',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='journalmark',
            name='skipped',
            field=models.BigIntegerField(default=0),
        ),
        migrations.CreateModel(
            name='ReportSchedule',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.schedule_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100, validators=[controlplane.models.rows.printable_name])),
                ('group_by', models.CharField(choices=controlplane.models.kinds.report_groups, max_length=16)),
                ('cadence', models.CharField(choices=controlplane.models.kinds.report_cadences, max_length=8)),
                ('hour', models.SmallIntegerField(default=7)),
                ('is_enabled', models.BooleanField(default=True)),
                ('since', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('channel', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='report_schedules', to='controlplane.channel')),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='report_schedules', to='controlplane.organisation')),
            ],
        ),
        migrations.CreateModel(
            name='ReportRun',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('period', models.DateField()),
                ('until', models.DateField()),
                ('at', models.DateTimeField()),
                ('delivery_id', models.CharField(max_length=40)),
                ('schedule', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='runs', to='controlplane.reportschedule')),
            ],
        ),
        migrations.CreateModel(
            name='Statement',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.statement_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('month', models.DateField()),
                ('number', models.IntegerField()),
                ('time_zone', models.CharField(max_length=64)),
                ('state', models.CharField(choices=controlplane.models.kinds.statement_states, default='closed', max_length=8)),
                ('closed_by', models.CharField(max_length=255)),
                ('closed_reason', models.TextField(blank=True, default='')),
                ('reopened_at', models.DateTimeField(blank=True, null=True)),
                ('reopened_by', models.CharField(blank=True, default='', max_length=255)),
                ('reopened_reason', models.TextField(blank=True, default='')),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='statements', to='controlplane.organisation')),
            ],
        ),
        migrations.CreateModel(
            name='StatementRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('requests', models.BigIntegerField(default=0)),
                ('errors', models.BigIntegerField(default=0)),
                ('attempts', models.BigIntegerField(default=0)),
                ('prompt_tokens', models.BigIntegerField(default=0)),
                ('completion_tokens', models.BigIntegerField(default=0)),
                ('cached_tokens', models.BigIntegerField(default=0)),
                ('cost_nanousd', models.BigIntegerField(default=0)),
                ('unknown_usage', models.BigIntegerField(default=0)),
                ('unknown_cost', models.BigIntegerField(default=0)),
                ('dimension', models.TextField()),
                ('kind', models.TextField(default='value')),
                ('value', models.TextField()),
                ('label', models.TextField()),
                ('of_month', models.DateField()),
                ('statement', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='rows', to='controlplane.statement')),
            ],
        ),
        migrations.CreateModel(
            name='ReportExport',
            fields=[
                ('id', models.CharField(default=controlplane.models.rows.export_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('created_by', models.CharField(max_length=255)),
                ('group_by', models.CharField(choices=controlplane.models.kinds.report_groups, max_length=16)),
                ('part', models.CharField(choices=controlplane.models.kinds.report_parts, default='whole', max_length=8)),
                ('since', models.DateField()),
                ('until', models.DateField()),
                ('format', models.CharField(choices=controlplane.models.kinds.export_formats, max_length=8)),
                ('state', models.CharField(choices=controlplane.models.kinds.export_states, default='queued', max_length=8)),
                ('total', models.IntegerField(default=0)),
                ('done', models.IntegerField(default=0)),
                ('lines', models.IntegerField(null=True)),
                ('size_bytes', models.BigIntegerField(null=True)),
                ('detail', models.TextField(blank=True, default='')),
                ('beat_at', models.DateTimeField(null=True)),
                ('ended_at', models.DateTimeField(null=True)),
                ('expires_at', models.DateTimeField(null=True)),
                ('content', models.BinaryField(null=True)),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='report_exports', to='controlplane.organisation')),
            ],
            options={
                'indexes': [models.Index(fields=['organisation', '-created_at'], name='export_newest'), models.Index(fields=['state'], name='export_by_state')],
            },
        ),
        migrations.AddConstraint(
            model_name='reportschedule',
            constraint=models.UniqueConstraint(models.F('organisation'), django.db.models.functions.text.Lower('name'), name='schedule_name_unique', violation_error_message='The organisation has a scheduled report of this name.'),
        ),
        migrations.AddConstraint(
            model_name='reportschedule',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='schedule_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'),
        ),
        migrations.AddConstraint(
            model_name='reportschedule',
            constraint=models.CheckConstraint(condition=models.Q(('hour__gte', 0), ('hour__lte', 23)), name='schedule_hour_in_range', violation_error_message='An hour is from 0 to 23.'),
        ),
        migrations.AddConstraint(
            model_name='reportrun',
            constraint=models.UniqueConstraint(fields=('schedule', 'period', 'until'), name='report_run_once'),
        ),
        migrations.AddConstraint(
            model_name='statement',
            constraint=models.UniqueConstraint(condition=models.Q(('state', 'closed')), fields=('organisation', 'month'), name='statement_one_closed', violation_error_message='The month is closed already.'),
        ),
        migrations.AddConstraint(
            model_name='statement',
            constraint=models.UniqueConstraint(fields=('organisation', 'month', 'number'), name='statement_number_unique'),
        ),
        migrations.AddConstraint(
            model_name='statementrow',
            constraint=models.UniqueConstraint(fields=('statement', 'dimension', 'kind', 'value', 'of_month'), name='statement_row_unique'),
        ),
        migrations.RunSQL([RECORDED, SKIPPED], migrations.RunSQL.noop),
    ]
