"""Budgets, what the ledger has of their accounts, and how their counters are kept true."""

import controlplane.models.budgets
import controlplane.models.kinds
import controlplane.models.rows
import django.contrib.postgres.fields
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0016_alerts'),
    ]

    operations = [
        migrations.CreateModel(
            name='BudgetCount',
            fields=[
                ('budget_id', models.CharField(max_length=40, primary_key=True, serialize=False)),
                ('definition', models.TextField()),
                ('since', models.DateTimeField()),
                ('is_filled', models.BooleanField(default=False)),
                ('seeded_epoch', models.TextField(default='')),
            ],
        ),
        migrations.CreateModel(
            name='BudgetReading',
            fields=[
                ('key', models.TextField(primary_key=True, serialize=False)),
                ('told_nanousd', models.BigIntegerField(default=0)),
                ('settled_nanousd', models.BigIntegerField(null=True)),
            ],
        ),
        migrations.CreateModel(
            name='BudgetUpkeep',
            fields=[
                ('id', models.SmallIntegerField(default=1, primary_key=True, serialize=False)),
                ('phase', models.CharField(default='idle', max_length=8)),
                ('epoch', models.TextField(default='')),
                ('since', models.DateTimeField(null=True)),
                ('marks', models.JSONField(default=dict)),
                ('looked_at', models.DateTimeField(null=True)),
                ('compared_at', models.DateTimeField(null=True)),
                ('is_seeded', models.BooleanField(default=False)),
                ('waits_for', models.TextField(default='')),
            ],
        ),
        migrations.CreateModel(
            name='BudgetAccount',
            fields=[
                ('key', models.TextField(primary_key=True, serialize=False)),
                ('budget_id', models.CharField(max_length=40)),
                ('organisation_id', models.TextField()),
                ('subjects', django.contrib.postgres.fields.ArrayField(base_field=models.TextField(), size=None)),
                ('starts_at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('spent_nanousd', models.BigIntegerField(default=0)),
                ('attempts', models.BigIntegerField(default=0)),
                ('unknown_cost', models.BigIntegerField(default=0)),
                ('updated_at', models.DateTimeField()),
            ],
            options={
                'indexes': [models.Index(fields=['budget_id', 'starts_at', '-spent_nanousd'], name='budget_account_most'), models.Index(fields=['updated_at'], name='budget_account_moved'), models.Index(fields=['ends_at'], name='budget_account_end')],
            },
        ),
        migrations.CreateModel(
            name='BudgetBucket',
            fields=[
                ('pk', models.CompositePrimaryKey('key', 'at', blank=True, editable=False, primary_key=True, serialize=False)),
                ('key', models.TextField()),
                ('at', models.DateTimeField()),
                ('ends_at', models.DateTimeField()),
                ('spent_nanousd', models.BigIntegerField(default=0)),
            ],
            options={
                'indexes': [models.Index(fields=['ends_at'], name='budget_bucket_end')],
            },
        ),
        migrations.CreateModel(
            name='BudgetCorrection',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField()),
                ('organisation_id', models.TextField()),
                ('budget_id', models.CharField(max_length=40)),
                ('why', models.CharField(max_length=8)),
                ('accounts', models.IntegerField()),
                ('added_nanousd', models.BigIntegerField(default=0)),
                ('taken_nanousd', models.BigIntegerField(default=0)),
            ],
            options={
                'indexes': [models.Index(fields=['budget_id', '-at'], name='budget_correction_newest'), models.Index(fields=['at'], name='budget_correction_at')],
            },
        ),
        migrations.CreateModel(
            name='Budget',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.budget_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100, validators=[controlplane.models.rows.printable_name])),
                ('scopes', models.JSONField()),
                ('amount_nanousd', models.BigIntegerField()),
                ('period', models.CharField(choices=controlplane.models.kinds.budget_periods, max_length=8)),
                ('action', models.CharField(choices=controlplane.models.kinds.budget_actions, default='block', max_length=8)),
                ('unknown_price', models.CharField(choices=controlplane.models.kinds.unknown_prices, default='refuse', max_length=8)),
                ('grace_percent', models.SmallIntegerField(default=0)),
                ('raised_to_nanousd', models.BigIntegerField(blank=True, null=True)),
                ('raised_until', models.DateTimeField(blank=True, null=True)),
                ('is_enabled', models.BooleanField(default=True)),
                ('thresholds_percent', django.contrib.postgres.fields.ArrayField(base_field=models.SmallIntegerField(), blank=True, default=controlplane.models.budgets.default_thresholds, size=10)),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='budgets', to='controlplane.organisation')),
            ],
            options={
                'constraints': [models.UniqueConstraint(models.F('organisation'), django.db.models.functions.text.Lower('name'), name='budget_name_unique', violation_error_message='The organisation has a budget of this name already.'), models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='budget_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'), models.CheckConstraint(condition=models.Q(models.Q(('raised_to_nanousd__isnull', True), ('raised_until__isnull', True)), models.Q(('raised_to_nanousd__isnull', False), ('raised_until__isnull', False)), _connector='OR'), name='budget_raise_has_an_end', violation_error_message='A raise has an amount and an end.'), models.CheckConstraint(condition=models.Q(('amount_nanousd__gte', 0), ('amount_nanousd__lte', 1000000000000000000)), name='budget_amount_nanousd_in_range', violation_error_message='It must be between 0 and 1,000,000,000,000,000,000.'), models.CheckConstraint(condition=models.Q(('raised_to_nanousd__gte', 0), ('raised_to_nanousd__lte', 1000000000000000000)), name='budget_raised_to_nanousd_in_range', violation_error_message='It must be between 0 and 1,000,000,000,000,000,000.'), models.CheckConstraint(condition=models.Q(('grace_percent__gte', 0), ('grace_percent__lte', 100)), name='budget_grace_percent_in_range', violation_error_message='It must be between 0 and 100.')],
            },
        ),
    ]
