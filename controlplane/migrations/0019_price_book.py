"""The price book: versions with a beginning, corrections of what was booked, and what GPUs cost.

A price that is there becomes its first version, in force since it was last edited.
"""

import controlplane.models.rows
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

# A row may only refer to rows of its own organisation; the plain foreign keys can't say that.
REFERENCES = (("price", "pool", "pool"), ("priceversion", "price", "price"))


def reference(child, field, parent):
    name = f"{child}_{field}_same_organisation"
    return (
        f"ALTER TABLE controlplane_{child} ADD CONSTRAINT {name}"
        f" FOREIGN KEY ({field}_id, organisation_id)"
        f" REFERENCES controlplane_{parent} (id, organisation_id) DEFERRABLE INITIALLY DEFERRED",
        f"ALTER TABLE controlplane_{child} DROP CONSTRAINT {name}",
    )


OWN = (
    (
        "ALTER TABLE controlplane_price ADD CONSTRAINT price_of_organisation"
        " UNIQUE (id, organisation_id)",
        "ALTER TABLE controlplane_price DROP CONSTRAINT price_of_organisation CASCADE",
    ),
    *(reference(*one) for one in REFERENCES),
    (
        "CREATE TRIGGER price_version_never_changes BEFORE UPDATE ON controlplane_priceversion"
        " FOR EACH ROW EXECUTE FUNCTION controlplane_refuse_change()",
        "DROP TRIGGER price_version_never_changes ON controlplane_priceversion",
    ),
)
VERSIONS = """
INSERT INTO controlplane_priceversion (
    id, organisation_id, price_id, effective_from, created_at, created_by,
    input_nanousd_per_mtok, output_nanousd_per_mtok, cached_input_nanousd_per_mtok
)
SELECT 'prv_' || substr(id, 5), organisation_id, id, updated_at, updated_at, '',
    input_nanousd_per_mtok, output_nanousd_per_mtok, cached_input_nanousd_per_mtok
FROM controlplane_price
"""



class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0017_budgets'),
    ]

    operations = [
        migrations.CreateModel(
            name='PriceVersion',
            fields=[
                ('id', models.CharField(default=controlplane.models.rows.price_version_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('effective_from', models.DateTimeField()),
                ('input_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('output_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('cached_input_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('reasoning_output_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('embedding_input_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('request_nanousd', models.BigIntegerField(blank=True, null=True)),
                ('customer_input_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('customer_output_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('created_by', models.TextField(blank=True, default='', editable=False)),
            ],
        ),
        migrations.AddField(
            model_name='charge',
            name='reasoning_output_nanousd_per_mtok',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='charge',
            name='request_nanousd',
            field=models.BigIntegerField(null=True),
        ),
        migrations.AddField(
            model_name='price',
            name='pool',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='prices', to='controlplane.pool'),
        ),
        migrations.AddField(
            model_name='price',
            name='removed_at',
            field=models.DateTimeField(blank=True, editable=False, null=True),
        ),
        migrations.AlterField(
            model_name='price',
            name='model',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='prices', to='controlplane.cataloguemodel'),
        ),
        migrations.AddConstraint(
            model_name='price',
            constraint=models.UniqueConstraint(fields=('pool', 'model'), name='price_once', nulls_distinct=False, violation_error_message='The model has a price already.'),
        ),
        migrations.AddField(
            model_name='priceversion',
            name='organisation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='controlplane.organisation'),
        ),
        migrations.AddField(
            model_name='priceversion',
            name='price',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='versions', to='controlplane.price'),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.UniqueConstraint(fields=('price', 'effective_from'), name='price_version_once', violation_error_message='A version begins at this moment already.'),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('input_nanousd_per_mtok__isnull', True), ('output_nanousd_per_mtok__isnull', True)), models.Q(('input_nanousd_per_mtok__isnull', False), ('output_nanousd_per_mtok__isnull', False)), _connector='OR'), name='price_version_of_both_sides', violation_error_message='A price is of input and output, or of neither.'),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('input_nanousd_per_mtok__isnull', True), ('input_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_input_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('output_nanousd_per_mtok__isnull', True), ('output_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_output_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('cached_input_nanousd_per_mtok__isnull', True), ('cached_input_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_cached_input_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('reasoning_output_nanousd_per_mtok__isnull', True), ('reasoning_output_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_reasoning_output_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('embedding_input_nanousd_per_mtok__isnull', True), ('embedding_input_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_embedding_input_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('request_nanousd__isnull', True), ('request_nanousd__gte', 0), _connector='OR'), name='price_version_request_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('customer_input_nanousd_per_mtok__isnull', True), ('customer_input_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_customer_input_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='priceversion',
            constraint=models.CheckConstraint(condition=models.Q(('customer_output_nanousd_per_mtok__isnull', True), ('customer_output_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_version_customer_output_not_negative', violation_error_message="A price can't be negative."),
        ),
        *(migrations.RunSQL(*one) for one in OWN),
        migrations.RunSQL(VERSIONS, migrations.RunSQL.noop),
        # rows just written wait for their checks, and their table can't be altered till then
        migrations.RunSQL("SET CONSTRAINTS ALL IMMEDIATE", migrations.RunSQL.noop),
        migrations.RunSQL("SET CONSTRAINTS ALL DEFERRED", migrations.RunSQL.noop),
        migrations.RemoveConstraint(
            model_name='price',
            name='price_input_not_negative',
        ),
        migrations.RemoveConstraint(
            model_name='price',
            name='price_output_not_negative',
        ),
        migrations.RemoveConstraint(
            model_name='price',
            name='price_cached_input_not_negative',
        ),
        migrations.RemoveField(
            model_name='price',
            name='cached_input_nanousd_per_mtok',
        ),
        migrations.RemoveField(
            model_name='price',
            name='input_nanousd_per_mtok',
        ),
        migrations.RemoveField(
            model_name='price',
            name='output_nanousd_per_mtok',
        ),
    ]
