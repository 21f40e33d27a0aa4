"""The configuration's rows, and what the database itself holds them to."""

import controlplane.models.kinds
import controlplane.models.organisations
import controlplane.models.rows
import django.contrib.auth.models
import django.contrib.auth.validators
import django.contrib.postgres.fields
import django.core.validators
import django.db.models.constraints
import django.db.models.deletion
import django.db.models.functions.text
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models


# A row may only refer to rows of its own organisation; the plain foreign keys can't say that.
PARENTS = ("team", "project", "cataloguemodel", "pool", "route", "key", "serviceaccount")
REFERENCES = (
    ("project", "team", "team"),
    ("price", "model", "cataloguemodel"),
    ("pool", "model", "cataloguemodel"),
    ("routetarget", "route", "route"),
    ("routetarget", "pool", "pool"),
    ("key", "project", "project"),
    ("keyroute", "key", "key"),
    ("keyroute", "route", "route"),
    ("rolebinding", "service_account", "serviceaccount"),
)


def reference(child, field, parent):
    return (
        f"ALTER TABLE controlplane_{child} ADD CONSTRAINT {child}_{field}_same_organisation"
        f" FOREIGN KEY ({field}_id, organisation_id)"
        f" REFERENCES controlplane_{parent} (id, organisation_id) DEFERRABLE INITIALLY DEFERRED"
    )


# The audit trail only grows; a published version and its contents are never rewritten.
REFUSE_CHANGE = """
CREATE FUNCTION controlplane_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never changed', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;
CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE ON controlplane_auditentry
    FOR EACH ROW EXECUTE FUNCTION controlplane_refuse_change();
CREATE TRIGGER section_never_changes BEFORE UPDATE ON controlplane_configsection
    FOR EACH ROW EXECUTE FUNCTION controlplane_refuse_change();
CREATE TRIGGER revision_never_changes BEFORE UPDATE ON controlplane_configrevision
    FOR EACH ROW EXECUTE FUNCTION controlplane_refuse_change();
"""


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='ConfigSection',
            fields=[
                ('digest', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('content', models.BinaryField()),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
        ),
        migrations.CreateModel(
            name='Key',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.key_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('scopes', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(choices=controlplane.models.kinds.scopes, max_length=32), size=None)),
                ('is_restricted', models.BooleanField(default=False)),
                ('is_enabled', models.BooleanField(default=True)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, editable=False, null=True)),
            ],
        ),
        migrations.CreateModel(
            name='User',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('password', models.CharField(max_length=128, verbose_name='password')),
                ('last_login', models.DateTimeField(blank=True, null=True, verbose_name='last login')),
                ('is_superuser', models.BooleanField(default=False, help_text='Designates that this user has all permissions without explicitly assigning them.', verbose_name='superuser status')),
                ('username', models.CharField(error_messages={'unique': 'A user with that username already exists.'}, help_text='Required. 150 characters or fewer. Letters, digits and @/./+/-/_ only.', max_length=150, unique=True, validators=[django.contrib.auth.validators.UnicodeUsernameValidator()], verbose_name='username')),
                ('first_name', models.CharField(blank=True, max_length=150, verbose_name='first name')),
                ('last_name', models.CharField(blank=True, max_length=150, verbose_name='last name')),
                ('email', models.EmailField(blank=True, max_length=254, verbose_name='email address')),
                ('is_staff', models.BooleanField(default=False, help_text='Designates whether the user can log into this admin site.', verbose_name='staff status')),
                ('is_active', models.BooleanField(default=True, help_text='Designates whether this user should be treated as active. Unselect this instead of deleting accounts.', verbose_name='active')),
                ('date_joined', models.DateTimeField(default=django.utils.timezone.now, verbose_name='date joined')),
                ('groups', models.ManyToManyField(blank=True, help_text='The groups this user belongs to. A user will get all permissions granted to each of their groups.', related_name='user_set', related_query_name='user', to='auth.group', verbose_name='groups')),
                ('user_permissions', models.ManyToManyField(blank=True, help_text='Specific permissions for this user.', related_name='user_set', related_query_name='user', to='auth.permission', verbose_name='user permissions')),
            ],
            options={
                'verbose_name': 'user',
                'verbose_name_plural': 'users',
                'abstract': False,
            },
            managers=[
                ('objects', django.contrib.auth.models.UserManager()),
            ],
        ),
        migrations.CreateModel(
            name='AuditEntry',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('organisation_id', models.CharField(blank=True, max_length=40, null=True)),
                ('actor_kind', models.CharField(max_length=32)),
                ('actor_id', models.CharField(max_length=40)),
                ('actor_label', models.CharField(max_length=255)),
                ('via', models.CharField(max_length=32)),
                ('request_id', models.CharField(blank=True, default='', max_length=64)),
                ('action', models.CharField(max_length=32)),
                ('noun', models.CharField(max_length=32)),
                ('object_id', models.CharField(max_length=40)),
                ('before', models.JSONField(blank=True, null=True)),
                ('after', models.JSONField(blank=True, null=True)),
                ('reason', models.TextField(blank=True, default='')),
            ],
            options={
                'indexes': [models.Index(fields=['organisation_id', '-id'], name='audit_by_organisation'), models.Index(fields=['noun', 'object_id', '-id'], name='audit_by_object')],
            },
        ),
        migrations.CreateModel(
            name='ConfigRevision',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('lineage', models.CharField(max_length=64)),
                ('version', models.BigIntegerField()),
                ('manifest', models.JSONField()),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('organisation_id', models.CharField(blank=True, max_length=40, null=True)),
                ('actor_kind', models.CharField(max_length=32)),
                ('actor_id', models.CharField(max_length=40)),
                ('actor_label', models.CharField(max_length=255)),
                ('reason', models.TextField(blank=True, default='')),
                ('request_id', models.CharField(blank=True, default='', max_length=64)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('lineage', 'version'), name='config_revision_version_unique'), models.CheckConstraint(condition=models.Q(('version__gte', 1)), name='config_revision_version_positive')],
            },
        ),
        migrations.CreateModel(
            name='Installation',
            fields=[
                ('id', models.PositiveSmallIntegerField(default=1, editable=False, primary_key=True, serialize=False)),
                ('lineage', models.CharField(max_length=64)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                'constraints': [models.CheckConstraint(condition=models.Q(('id', 1)), name='installation_is_one')],
            },
        ),
        migrations.CreateModel(
            name='KeyDigest',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('pepper_version', models.PositiveIntegerField()),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('last4', models.CharField(max_length=4)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('accepted_until', models.DateTimeField(blank=True, null=True)),
                ('key', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='digests', to='controlplane.key')),
            ],
            options={
                'ordering': ['-id'],
            },
        ),
        migrations.CreateModel(
            name='Organisation',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.organisation_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('time_zone', models.CharField(default='UTC', max_length=64, validators=[controlplane.models.organisations.check_time_zone])),
                ('is_enabled', models.BooleanField(default=True)),
            ],
            options={
                'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('name'), name='organisation_name_unique', violation_error_message='There is an organisation of this name already.'), models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='organisation_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.')],
            },
        ),
        migrations.AddField(
            model_name='key',
            name='organisation',
            field=models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='keys', to='controlplane.organisation'),
        ),
        migrations.CreateModel(
            name='CatalogueModel',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.model_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=128, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?\\Z', 'A name must match ^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?$.')])),
                ('task', models.CharField(choices=controlplane.models.kinds.tasks, default='generate', max_length=32)),
                ('max_context_tokens', models.PositiveIntegerField(blank=True, null=True)),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='models', to='controlplane.organisation')),
            ],
        ),
        migrations.CreateModel(
            name='Pool',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.pool_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=64, validators=[django.core.validators.RegexValidator('^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?\\Z', 'A name must match ^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$.')])),
                ('provisioner', models.CharField(choices=controlplane.models.kinds.provisioners, max_length=32)),
                ('backend', models.CharField(choices=controlplane.models.kinds.backends, max_length=32)),
                ('served_model_name', models.CharField(max_length=255)),
                ('power', models.CharField(choices=controlplane.models.kinds.powers, default='running', max_length=16)),
                ('replicas', models.PositiveIntegerField(default=1)),
                ('addresses', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=2048), blank=True, default=list, size=None)),
                ('credential', models.TextField(blank=True, editable=False, null=True)),
                ('credential_last4', models.CharField(blank=True, default='', editable=False, max_length=4)),
                ('model_source', models.CharField(blank=True, max_length=512, null=True)),
                ('engine_arguments', models.JSONField(blank=True, default=dict)),
                ('port_base', models.PositiveIntegerField(blank=True, null=True)),
                ('restart_generation', models.PositiveIntegerField(default=0)),
                ('start_timeout_s', models.PositiveIntegerField(default=600)),
                ('drain_timeout_s', models.PositiveIntegerField(default=30)),
                ('model', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='pools', to='controlplane.cataloguemodel')),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='pools', to='controlplane.organisation')),
            ],
        ),
        migrations.CreateModel(
            name='Price',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.price_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('input_nanousd_per_mtok', models.BigIntegerField()),
                ('output_nanousd_per_mtok', models.BigIntegerField()),
                ('cached_input_nanousd_per_mtok', models.BigIntegerField(blank=True, null=True)),
                ('model', models.OneToOneField(error_messages={'unique': 'The model has a price already.'}, on_delete=django.db.models.deletion.CASCADE, related_name='price', to='controlplane.cataloguemodel')),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='prices', to='controlplane.organisation')),
            ],
        ),
        migrations.CreateModel(
            name='Project',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.project_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('is_default', models.BooleanField(default=False, editable=False)),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='projects', to='controlplane.organisation')),
            ],
        ),
        migrations.AddField(
            model_name='key',
            name='project',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='keys', to='controlplane.project'),
        ),
        migrations.CreateModel(
            name='Route',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.route_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=128, validators=[django.core.validators.RegexValidator('^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?\\Z', 'A name must match ^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?$.')])),
                ('strategy', models.CharField(choices=controlplane.models.kinds.strategies, default='weighted', max_length=32)),
                ('is_enabled', models.BooleanField(default=True)),
                ('accounting', models.CharField(choices=controlplane.models.kinds.accountings, default='lenient', max_length=16)),
                ('default_max_output_tokens', models.PositiveIntegerField(default=4096)),
                ('max_attempts', models.PositiveIntegerField(default=2)),
                ('connect_timeout_ms', models.PositiveIntegerField(default=2000)),
                ('first_byte_timeout_ms', models.PositiveIntegerField(default=120000)),
                ('idle_timeout_ms', models.PositiveIntegerField(default=60000)),
                ('total_timeout_ms', models.PositiveIntegerField(blank=True, null=True)),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='routes', to='controlplane.organisation')),
            ],
        ),
        migrations.CreateModel(
            name='KeyRoute',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='key_routes', to='controlplane.key')),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='controlplane.organisation')),
                ('route', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='key_routes', to='controlplane.route')),
            ],
        ),
        migrations.AddField(
            model_name='key',
            name='routes',
            field=models.ManyToManyField(related_name='keys', through='controlplane.KeyRoute', to='controlplane.route'),
        ),
        migrations.CreateModel(
            name='RouteTarget',
            fields=[
                ('id', models.CharField(default=controlplane.models.rows.target_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('weight', models.PositiveIntegerField()),
                ('position', models.PositiveIntegerField()),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to='controlplane.organisation')),
                ('pool', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='targets', to='controlplane.pool')),
                ('route', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='targets', to='controlplane.route')),
            ],
            options={
                'ordering': ['position'],
            },
        ),
        migrations.CreateModel(
            name='ServiceAccount',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.service_account_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('is_enabled', models.BooleanField(default=True)),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='service_accounts', to='controlplane.organisation')),
            ],
        ),
        migrations.CreateModel(
            name='RoleBinding',
            fields=[
                ('id', models.CharField(default=controlplane.models.rows.binding_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('role', models.CharField(choices=[('viewer', 'viewer'), ('operator', 'operator'), ('finance', 'finance'), ('admin', 'admin')], max_length=16)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='role_bindings', to='controlplane.organisation')),
                ('user', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='role_bindings', to=settings.AUTH_USER_MODEL)),
                ('service_account', models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='role_bindings', to='controlplane.serviceaccount')),
            ],
        ),
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.CharField(default=controlplane.models.rows.token_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('pepper_version', models.PositiveIntegerField()),
                ('digest', models.CharField(max_length=64, unique=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('expires_at', models.DateTimeField(blank=True, null=True)),
                ('revoked_at', models.DateTimeField(blank=True, null=True)),
                ('service_account', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='tokens', to='controlplane.serviceaccount')),
            ],
        ),
        migrations.CreateModel(
            name='Team',
            fields=[
                ('version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('id', models.CharField(default=controlplane.models.rows.team_id, editable=False, max_length=40, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('organisation', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='teams', to='controlplane.organisation')),
            ],
        ),
        migrations.AddField(
            model_name='project',
            name='team',
            field=models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='projects', to='controlplane.team'),
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.UniqueConstraint(django.db.models.functions.text.Lower('username'), name='user_username_unique'),
        ),
        migrations.AddConstraint(
            model_name='user',
            constraint=models.UniqueConstraint(django.db.models.functions.text.Lower('email'), condition=models.Q(('email', ''), _negated=True), name='user_email_unique'),
        ),
        migrations.AddConstraint(
            model_name='keydigest',
            constraint=models.UniqueConstraint(condition=models.Q(('accepted_until__isnull', True)), fields=('key',), name='key_digest_one_current'),
        ),
        migrations.AddConstraint(
            model_name='cataloguemodel',
            constraint=models.UniqueConstraint(fields=('organisation', 'name'), name='model_name_unique', violation_error_message='The catalogue has a model of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='cataloguemodel',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?$')), name='model_name_pattern', violation_error_message='A name must match ^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?$.'),
        ),
        migrations.AddConstraint(
            model_name='cataloguemodel',
            constraint=models.CheckConstraint(condition=models.Q(('max_context_tokens__isnull', True), ('max_context_tokens__gte', 1), _connector='OR'), name='model_context_positive'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.UniqueConstraint(fields=('organisation', 'name'), name='pool_name_unique', violation_error_message='The organisation has a pool of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$')), name='pool_name_pattern', violation_error_message='A name must match ^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('replicas__gte', 0), ('replicas__lte', 1000)), name='pool_replicas_in_range', violation_error_message='Replicas must be between 0 and 1,000.'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('port_base__isnull', True), models.Q(('port_base__gte', 1), ('port_base__lte', 65535)), _connector='OR'), name='pool_port_in_range'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('start_timeout_s__gte', 1)), name='pool_start_timeout_positive'),
        ),
        migrations.AddConstraint(
            model_name='pool',
            constraint=models.CheckConstraint(condition=models.Q(('credential__isnull', False), ('credential_last4', ''), _connector='OR'), name='pool_last4_of_a_credential'),
        ),
        migrations.AddConstraint(
            model_name='price',
            constraint=models.CheckConstraint(condition=models.Q(('input_nanousd_per_mtok__isnull', True), ('input_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_input_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='price',
            constraint=models.CheckConstraint(condition=models.Q(('output_nanousd_per_mtok__isnull', True), ('output_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_output_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='price',
            constraint=models.CheckConstraint(condition=models.Q(('cached_input_nanousd_per_mtok__isnull', True), ('cached_input_nanousd_per_mtok__gte', 0), _connector='OR'), name='price_cached_input_not_negative', violation_error_message="A price can't be negative."),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.UniqueConstraint(fields=('organisation', 'name'), name='route_name_unique', violation_error_message='The organisation has a route of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?$')), name='route_name_pattern', violation_error_message='A name must match ^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?$.'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('connect_timeout_ms__gte', 1), ('default_max_output_tokens__gte', 1), ('first_byte_timeout_ms__gte', 1), ('idle_timeout_ms__gte', 1), ('max_attempts__gte', 1)), name='route_bounds_positive'),
        ),
        migrations.AddConstraint(
            model_name='route',
            constraint=models.CheckConstraint(condition=models.Q(('total_timeout_ms__isnull', True), ('total_timeout_ms__gte', 1), _connector='OR'), name='route_total_timeout_positive'),
        ),
        migrations.AddConstraint(
            model_name='keyroute',
            constraint=models.UniqueConstraint(fields=('key', 'route'), name='key_route_unique'),
        ),
        migrations.AddConstraint(
            model_name='key',
            constraint=models.UniqueConstraint(models.F('organisation'), django.db.models.functions.text.Lower('name'), condition=models.Q(('revoked_at__isnull', True)), name='key_name_unique', violation_error_message='The organisation has a live key of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='key',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='key_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'),
        ),
        migrations.AddConstraint(
            model_name='key',
            constraint=models.CheckConstraint(condition=models.Q(('revoked_at__isnull', True), ('is_enabled', False), _connector='OR'), name='key_revoked_is_disabled'),
        ),
        migrations.AddConstraint(
            model_name='routetarget',
            constraint=models.UniqueConstraint(deferrable=django.db.models.constraints.Deferrable['DEFERRED'], fields=('route', 'pool'), name='route_target_pool_unique'),
        ),
        migrations.AddConstraint(
            model_name='routetarget',
            constraint=models.CheckConstraint(condition=models.Q(('weight__gte', 0), ('weight__lte', 1000000)), name='route_target_weight_in_range'),
        ),
        migrations.AddConstraint(
            model_name='serviceaccount',
            constraint=models.UniqueConstraint(models.F('organisation'), django.db.models.functions.text.Lower('name'), name='service_account_name_unique', violation_error_message='There is a service account of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='serviceaccount',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='service_account_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'),
        ),
        migrations.AddConstraint(
            model_name='rolebinding',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('service_account__isnull', True), ('user__isnull', False)), models.Q(('service_account__isnull', False), ('user__isnull', True)), _connector='OR'), name='role_binding_one_subject'),
        ),
        migrations.AddConstraint(
            model_name='rolebinding',
            constraint=models.CheckConstraint(condition=models.Q(('role__in', ['viewer', 'operator', 'finance', 'admin'])), name='role_binding_role'),
        ),
        migrations.AddConstraint(
            model_name='rolebinding',
            constraint=models.UniqueConstraint(condition=models.Q(('user__isnull', False)), fields=('organisation', 'user', 'role'), name='role_binding_user_unique'),
        ),
        migrations.AddConstraint(
            model_name='rolebinding',
            constraint=models.UniqueConstraint(condition=models.Q(('service_account__isnull', False)), fields=('organisation', 'service_account', 'role'), name='role_binding_service_account_unique'),
        ),
        migrations.AddConstraint(
            model_name='team',
            constraint=models.UniqueConstraint(models.F('organisation'), django.db.models.functions.text.Lower('name'), name='team_name_unique', violation_error_message='The organisation has a team of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='team',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='team_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'),
        ),
        migrations.AddConstraint(
            model_name='project',
            constraint=models.UniqueConstraint(models.F('organisation'), django.db.models.functions.text.Lower('name'), name='project_name_unique', violation_error_message='The organisation has a project of this name already.'),
        ),
        migrations.AddConstraint(
            model_name='project',
            constraint=models.UniqueConstraint(condition=models.Q(('is_default', True)), fields=('organisation',), name='project_default_unique'),
        ),
        migrations.AddConstraint(
            model_name='project',
            constraint=models.CheckConstraint(condition=models.Q(('name__regex', '^[^[:cntrl:][:space:]]([^[:cntrl:]]*[^[:cntrl:][:space:]])?$')), name='project_name_label', violation_error_message='A name has no line breaks or tabs, and no blanks around it.'),
        ),
        migrations.RunSQL(
            [f"ALTER TABLE controlplane_{parent} ADD CONSTRAINT {parent}_of_organisation UNIQUE (id, organisation_id)" for parent in PARENTS],
            [f"ALTER TABLE controlplane_{parent} DROP CONSTRAINT {parent}_of_organisation CASCADE" for parent in PARENTS],
        ),
        migrations.RunSQL(
            [reference(*one) for one in REFERENCES],
            migrations.RunSQL.noop,
        ),
        migrations.RunSQL(
            REFUSE_CHANGE,
            "DROP FUNCTION controlplane_refuse_change CASCADE",
        ),
    ]
