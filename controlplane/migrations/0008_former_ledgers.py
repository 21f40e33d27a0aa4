"""How far a former ledger had each journal, for a database that was put back to an older copy."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("controlplane", "0007_faults")]

    operations = [
        migrations.AddField(
            model_name="journalmark", name="reached", field=models.BigIntegerField(default=0)
        ),
        migrations.AddField(
            model_name="journalmark", name="missing", field=models.BigIntegerField(default=0)
        ),
    ]
