"""When each day of usage was last added to, so that reports look only at months that changed.

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
    ]
