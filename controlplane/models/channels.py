"""Channels: ways to reach people, and the messages that go by them."""

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    CASCADE,
    BooleanField,
    CharField,
    DateTimeField,
    EmailField,
    ForeignKey,
    Index,
    JSONField,
    Model,
    PositiveIntegerField,
    Q,
    TextField,
    UniqueConstraint,
)
from django.db.models.functions import Lower
from django.utils import timezone

from controlplane.decisions.alert_kinds import DeliveryState
from controlplane.models.alerts import AlertRule, Episode
from controlplane.models.kinds import channel_kinds, delivery_kinds, delivery_states
from controlplane.models.organisations import Organisation
from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    channel_id,
    delivery_id,
    id_field,
    name_is_label,
    printable_name,
)


class Channel(VersionedRow):
    """One channel. `url` and `secret` are ciphertext; `host` is where the address leads.

    `disabled_reason` says why the console's own hand switched it off, "" if a person did or it is
    on. `failures` is the weight of what failed since the last success, `waits_until` when its
    receiver wants to be asked again at the earliest.
    """

    id = id_field(channel_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="channels", null=True)
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])
    kind = CharField(max_length=16, choices=channel_kinds)
    recipients = ArrayField(EmailField(max_length=254), default=list, blank=True)
    url = TextField(null=True, blank=True, editable=False)
    host = CharField(max_length=255, default="", blank=True, editable=False)
    secret = TextField(null=True, blank=True, editable=False)
    secret_last4 = CharField(max_length=4, default="", blank=True, editable=False)
    tells_switches = BooleanField(default=False)
    is_enabled = BooleanField(default=True)
    disabled_reason = CharField(max_length=500, default="", blank=True, editable=False)
    failures = PositiveIntegerField(default=0, editable=False)
    waits_until = DateTimeField(null=True, blank=True, editable=False)
    last_sent_at = DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            UniqueConstraint(
                "organisation",
                Lower("name"),
                name="channel_name_unique",
                nulls_distinct=False,
                violation_error_message="There is a channel of this name already.",
            ),
            name_is_label("channel"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def has_secret(self) -> bool:
        return self.secret is not None

    @property
    def is_dead(self) -> bool:
        """Whether it was switched off because it kept failing."""
        return not self.is_enabled and self.disabled_reason != ""


class RuleChannel(Model):
    """A rule tells a channel; both belong to the organisation."""

    organisation = ForeignKey(Organisation, CASCADE, related_name="+", null=True)
    rule = ForeignKey(AlertRule, CASCADE, related_name="+")
    channel = ForeignKey(Channel, CASCADE, related_name="+")

    class Meta:
        constraints = [
            UniqueConstraint(fields=["rule", "channel"], name="rule_channel_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.rule_id} tells {self.channel_id}"


class Delivery(VersionedRow):
    """One message by one channel: an outbox. Its id is the message's, however often it is sent.

    `content` is what it tells, fixed when it was queued. `taken_at` is when an attempt began, and
    `attempts` how many have.
    """

    id = id_field(delivery_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="deliveries", null=True)
    channel = ForeignKey(Channel, CASCADE, related_name="deliveries")
    episode = ForeignKey(Episode, CASCADE, related_name="deliveries", null=True)
    kind = CharField(max_length=16, choices=delivery_kinds)
    content = JSONField()
    state = CharField(max_length=16, choices=delivery_states, default=DeliveryState.QUEUED.value)
    attempts = PositiveIntegerField(default=0)
    next_try_at = DateTimeField(default=timezone.now)
    taken_at = DateTimeField(null=True, blank=True)
    sent_at = DateTimeField(null=True, blank=True)
    status = PositiveIntegerField(null=True, blank=True)
    error = CharField(max_length=500, default="", blank=True)

    class Meta:
        indexes = [
            Index(
                fields=["next_try_at"],
                name="delivery_due",
                condition=Q(state__in=("queued", "sending")),
            ),
            Index(fields=["organisation", "-created_at"], name="delivery_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.channel_id}"
