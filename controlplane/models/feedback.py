"""What people say of answers, as the recorder heard it."""

from django.db.models import BooleanField, DateTimeField, FloatField, Index, Model, TextField


class Feedback(Model):
    """What one rater says of one request; `event_id` is made of both, so it is said once.

    `request_id` may name a request that isn't in the ledger, or is no more. `rater` is whom the
    caller names, None the caller itself. None of the four things that can be said is unsaid, never
    0 or no.
    """

    event_id = TextField(primary_key=True)
    organisation_id = TextField()
    request_id = TextField()
    at = DateTimeField()
    project_id = TextField()
    key_id = TextField()
    rater = TextField(null=True)
    score = FloatField(null=True)
    label = TextField(null=True)
    comment = TextField(null=True)
    is_completed = BooleanField(null=True)

    class Meta:
        indexes = [
            Index(fields=["request_id"], name="feedback_request"),
            Index(fields=["at"], name="feedback_age"),
        ]

    def __str__(self) -> str:
        return self.event_id
