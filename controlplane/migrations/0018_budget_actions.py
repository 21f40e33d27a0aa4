"""Budgets: what they do from a share of the amount on, rolling periods, and what they did."""

import controlplane.models.kinds
import controlplane.models.rows
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0017_budgets'),
    ]

    operations = [
        migrations.CreateModel(
            name='BudgetEffect',
            fields=[
                ('pk', models.CompositePrimaryKey('budget_id', 'effect', 'at', blank=True, editable=False, primary_key=True, serialize=False)),
                ('budget_id', models.CharField(max_length=40)),
                ('effect', models.CharField(max_length=12)),
                ('at', models.DateTimeField()),
                ('requests', models.BigIntegerField(default=0)),
                ('last_at', models.DateTimeField()),
            ],
        ),
        migrations.AddField(
            model_name='budget',
            name='acts_at_percent',
            field=models.SmallIntegerField(default=100),
        ),
        migrations.AddField(
            model_name='budget',
            name='cheaper_model',
            field=models.CharField(blank=True, max_length=40, null=True),
        ),
        migrations.AddField(
            model_name='budget',
            name='grace_nanousd',
            field=models.BigIntegerField(default=0),
        ),
        migrations.AddField(
            model_name='budget',
            name='is_rolling',
            field=models.BooleanField(default=False),
        ),
        migrations.AddField(
            model_name='budget',
            name='owner',
            field=models.CharField(blank=True, max_length=100, validators=[controlplane.models.rows.printable_name]),
        ),
        migrations.AddField(
            model_name='budget',
            name='throttle_per_minute',
            field=models.IntegerField(default=60),
        ),
        migrations.AddField(
            model_name='budget',
            name='too_long',
            field=models.CharField(choices=controlplane.models.kinds.too_long_policies, default='refuse', max_length=8),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('grace_nanousd__gte', 0), ('grace_nanousd__lte', 1000000000000000000)), name='budget_grace_nanousd_in_range', violation_error_message='It must be between 0 and 1,000,000,000,000,000,000.'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('acts_at_percent__gte', 1), ('acts_at_percent__lte', 100)), name='budget_acts_at_percent_in_range', violation_error_message='It must be between 1 and 100.'),
        ),
        migrations.AddConstraint(
            model_name='budget',
            constraint=models.CheckConstraint(condition=models.Q(('throttle_per_minute__gte', 1), ('throttle_per_minute__lte', 100000)), name='budget_throttle_per_minute_in_range', violation_error_message='It must be between 1 and 100,000.'),
        ),
        migrations.AddIndex(
            model_name='budgeteffect',
            index=models.Index(fields=['at'], name='budget_effect_at'),
        ),
    ]
