"""What a draft would have done to past traffic, as it was foretold, and what came of it."""

from django.db.models import (
    CASCADE,
    BigIntegerField,
    CharField,
    DateTimeField,
    ForeignKey,
    Index,
    IntegerField,
    JSONField,
    Model,
    TextChoices,
    TextField,
)
from django.utils import timezone

from controlplane.models.organisations import Organisation
from controlplane.models.rows import ID_LENGTH, id_field, replay_id


class ReplayState(TextChoices):
    """How far a replay is."""

    QUEUED = "queued", "Queued"
    RUNNING = "running", "Running"
    DONE = "done", "Done"
    FAILED = "failed", "Failed"


class Replay(Model):
    """One draft of a route, replayed on the requests that ended in [since, until).

    `changes` are as a PATCH of the route takes them, `drafted` is the route as gateways would be
    given it, on this `version` of the configuration. `report` is what was foretold, `observed` what
    was seen once the draft was published; both None until there is one. `done` of `total` rows are
    replayed. A job that runs it moves `beat_at` on.
    """

    id = id_field(replay_id)
    organisation = ForeignKey(Organisation, on_delete=CASCADE, related_name="replays")
    created_at = DateTimeField(default=timezone.now, editable=False)
    created_by = CharField(max_length=255)
    route_id = CharField(max_length=ID_LENGTH)
    route_name = TextField()
    changes = JSONField()
    drafted = JSONField()
    lineage = TextField()
    version = BigIntegerField()
    since = DateTimeField()
    until = DateTimeField()
    most_requests = IntegerField()
    state = CharField(max_length=8, choices=ReplayState, default=ReplayState.QUEUED)
    total = IntegerField(default=0)
    done = IntegerField(default=0)
    detail = TextField(default="", blank=True)
    beat_at = DateTimeField(null=True)
    ended_at = DateTimeField(null=True)
    report = JSONField(null=True)
    published_version = BigIntegerField(null=True)
    published_at = DateTimeField(null=True)
    observed = JSONField(null=True)

    class Meta:
        indexes = [
            Index(fields=["organisation", "-created_at"], name="replay_newest"),
            Index(fields=["state"], name="replay_by_state"),
        ]

    def __str__(self) -> str:
        return self.id
