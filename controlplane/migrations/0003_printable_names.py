from django.db import migrations, models

import controlplane.models.rows

NAMED = ('key', 'organisation', 'project', 'serviceaccount', 'team')


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0002_ledger'),
    ]

    operations = [
        migrations.AlterField(
            model_name=name,
            name='name',
            field=models.CharField(max_length=100, validators=[controlplane.models.rows.printable_name]),
        )
        for name in NAMED
    ]
