import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0005_scoped_roles'),
    ]

    operations = [
        migrations.CreateModel(
            name='KeptAnswer',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('caller', models.CharField(max_length=64)),
                ('key', models.CharField(max_length=255)),
                ('fingerprint', models.CharField(max_length=64)),
                ('status', models.PositiveSmallIntegerField(blank=True, null=True)),
                ('answer', models.TextField(blank=True, default='')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                'indexes': [models.Index(fields=['created_at'], name='kept_answer_by_age')],
                'constraints': [models.UniqueConstraint(fields=('caller', 'key'), name='kept_answer_unique')],
            },
        ),
    ]
