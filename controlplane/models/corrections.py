"""What was booked and turned out wrong: corrections beside the ledger, and jobs that price anew.

Rows of the ledger are never changed; a correction adds to what they say, or takes from it.
"""

from django.db.models import (
    CASCADE,
    BigIntegerField,
    BooleanField,
    CharField,
    DateField,
    DateTimeField,
    ForeignKey,
    Index,
    IntegerField,
    JSONField,
    Model,
    Q,
    TextChoices,
    TextField,
    UniqueConstraint,
)
from django.utils import timezone

from controlplane.models.organisations import Organisation
from controlplane.models.rows import ID_LENGTH, correction_id, id_field, repricing_id


class SpendCorrection(Model):
    """One change of what was booked, in signed nano-USD; never changed itself.

    One of a `repricing_id` is of an attempt of the ledger, priced anew at `version_id`; another was
    written by a person. `at` and `received_at` are when the request ended and came, or the moment
    a person named. Ids are as events have them, "" stands for none. `was_unknown` tells that the
    attempt had no cost before, `is_request_known` that with it the whole request's is known.
    """

    id = id_field(correction_id)
    organisation_id = TextField()
    day = DateField()
    at = DateTimeField()
    received_at = DateTimeField()
    booked_at = DateTimeField(default=timezone.now)
    repricing_id = CharField(max_length=ID_LENGTH, null=True)
    event_id = TextField(null=True)
    attempt = IntegerField(null=True)
    team_id = TextField(default="")
    project_id = TextField(default="")
    key_id = TextField(default="")
    route_id = TextField(default="")
    pool_id = TextField(default="")
    model_id = TextField(default="")
    end_user = TextField(null=True)
    tags = JSONField(null=True)
    version_id = TextField(null=True)
    amount_nanousd = BigIntegerField()
    was_unknown = BooleanField(default=False)
    is_request_known = BooleanField(default=False)
    reason = TextField(default="")
    created_by = TextField(default="")

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["repricing_id", "event_id", "attempt"],
                condition=Q(repricing_id__isnull=False),
                name="correction_once",
            )
        ]
        indexes = [
            Index(fields=["organisation_id", "-booked_at", "-id"], name="correction_newest"),
            Index(fields=["organisation_id", "received_at"], name="correction_received"),
            Index(fields=["at"], name="correction_at"),
            Index(
                fields=["event_id"],
                condition=Q(event_id__isnull=False),
                name="correction_of_request",
            ),
        ]

    def __str__(self) -> str:
        return self.id


class RepricingState(TextChoices):
    """How far a repricing is: `ready` waits for a person to say that it be booked."""

    QUEUED = "queued", "Queued"
    SUMMING = "summing", "Summing"
    READY = "ready", "Ready"
    BOOKING = "booking", "Booking"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"
    DISCARDED = "discarded", "Discarded"


class Repricing(Model):
    """Requests that came in [since, until), priced at the book as it was when this was asked for.

    First it is summed, before and after, by team and model (`report`); once somebody says so, the
    corrections are booked. `cursor` is the last request that is done, so a job that ends is gone
    on with; `done` of about `total` requests are looked at, `page` of the ledger's at once.
    It is of requests that were recorded before it was asked for, and summed once more before it is
    booked (`services.repricings`).
    """

    id = id_field(repricing_id)
    organisation = ForeignKey(Organisation, on_delete=CASCADE, related_name="repricings")
    version = IntegerField(default=1)
    created_at = DateTimeField(default=timezone.now, editable=False)
    created_by = CharField(max_length=255)
    reason = TextField()
    since = DateTimeField()
    until = DateTimeField()
    scope = JSONField(default=dict)
    state = CharField(max_length=10, choices=RepricingState, default=RepricingState.QUEUED)
    total = IntegerField(default=0)
    done = IntegerField(default=0)
    cursor = JSONField(null=True)
    page = IntegerField(default=500)
    sums = JSONField(default=dict)
    corrections = IntegerField(default=0)
    corrected_nanousd = BigIntegerField(default=0)
    detail = TextField(default="", blank=True)
    booked_by = CharField(max_length=255, default="", blank=True)
    beat_at = DateTimeField(null=True)
    ended_at = DateTimeField(null=True)

    class Meta:
        indexes = [
            Index(fields=["organisation", "-created_at"], name="repricing_newest"),
            Index(fields=["state"], name="repricing_by_state"),
        ]

    def __str__(self) -> str:
        return self.id
