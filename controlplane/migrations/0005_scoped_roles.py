"""Roles of one team or one project. Such a binding goes with its place and never widens."""

import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


PLACES = ("team", "project")


def reference(place):
    """A binding names a place of its own organisation only; the plain foreign key can't say that."""
    return (
        f"ALTER TABLE controlplane_rolebinding ADD CONSTRAINT rolebinding_{place}_same_organisation"
        f" FOREIGN KEY ({place}_id, organisation_id)"
        f" REFERENCES controlplane_{place} (id, organisation_id) DEFERRABLE INITIALLY DEFERRED",
        f"ALTER TABLE controlplane_rolebinding DROP CONSTRAINT rolebinding_{place}_same_organisation",
    )


class Migration(migrations.Migration):

    dependencies = [
        ('controlplane', '0004_live'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='rolebinding',
            name='role_binding_user_unique',
        ),
        migrations.RemoveConstraint(
            model_name='rolebinding',
            name='role_binding_service_account_unique',
        ),
        migrations.AddField(
            model_name='rolebinding',
            name='team',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='role_bindings', to='controlplane.team'),
        ),
        migrations.AddField(
            model_name='rolebinding',
            name='project',
            field=models.ForeignKey(blank=True, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='role_bindings', to='controlplane.project'),
        ),
        migrations.AddConstraint(
            model_name='rolebinding',
            constraint=models.CheckConstraint(condition=models.Q(('team__isnull', True), ('project__isnull', True), _connector='OR'), name='role_binding_one_place', violation_error_message='A role is held in a team or in a project, not in both.'),
        ),
        migrations.AddConstraint(
            model_name='rolebinding',
            constraint=models.UniqueConstraint(fields=('organisation', 'team', 'project', 'user', 'service_account', 'role'), name='role_binding_unique', nulls_distinct=False, violation_error_message='The subject has this role there already.'),
        ),
        *(migrations.RunSQL(*reference(place)) for place in PLACES),
        migrations.AddField(
            model_name='user',
            name='created_at',
            field=models.DateTimeField(default=django.utils.timezone.now, editable=False),
        ),
        migrations.AddField(
            model_name='user',
            name='must_change_password',
            field=models.BooleanField(default=False, editable=False),
        ),
        migrations.AddField(
            model_name='user',
            name='updated_at',
            field=models.DateTimeField(default=django.utils.timezone.now, editable=False),
        ),
        migrations.AddField(
            model_name='user',
            name='version',
            field=models.PositiveIntegerField(default=1, editable=False),
        ),
    ]
