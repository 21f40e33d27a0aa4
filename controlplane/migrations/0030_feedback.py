from django.db import migrations, models


class Migration(migrations.Migration):
    """What people say of answers."""

    dependencies = [("controlplane", "0029_cache_usage")]

    operations = [
        migrations.CreateModel(
            name="Feedback",
            fields=[
                ("event_id", models.TextField(primary_key=True, serialize=False)),
                ("organisation_id", models.TextField()),
                ("request_id", models.TextField()),
                ("at", models.DateTimeField()),
                ("project_id", models.TextField()),
                ("key_id", models.TextField()),
                ("rater", models.TextField(null=True)),
                ("score", models.FloatField(null=True)),
                ("label", models.TextField(null=True)),
                ("comment", models.TextField(null=True)),
                ("is_completed", models.BooleanField(null=True)),
            ],
            options={
                "indexes": [
                    models.Index(fields=["request_id"], name="feedback_request"),
                    models.Index(fields=["at"], name="feedback_age"),
                ],
            },
        ),
    ]
