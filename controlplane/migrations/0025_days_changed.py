"""When each day of usage was last added to; how much of the ledger a repricing reads at once.

Days that are there count as changed now.
"""

import django.db.models.functions.datetime
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0024_usage_priced'),
    ]

    operations = [
        migrations.AddField(
            model_name='usageday',
            name='changed_at',
            field=models.DateTimeField(db_default=django.db.models.functions.datetime.Now()),
        ),
        migrations.AddField(
            model_name='repricing',
            name='page',
            field=models.IntegerField(default=500),
        ),
        # a cursor of before was a day and an id; what was summed is summed again from the beginning
        migrations.RunSQL(
            "UPDATE controlplane_repricing SET cursor = NULL, done = 0,"
            " sums = CASE state WHEN 'summing' THEN '{}'::jsonb ELSE sums - 'again' END"
            " || CASE WHEN state = 'booking' THEN '{\"again\": {}}'::jsonb ELSE '{}'::jsonb END"
            " WHERE state IN ('summing', 'booking')",
            migrations.RunSQL.noop,
        ),
    ]
