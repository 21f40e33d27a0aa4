"""Channels: ways to reach people, and the messages that go by them."""

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    CASCADE,
    SET_NULL,
    BooleanField,
    CharField,
    CheckConstraint,
    DateTimeField,
    EmailField,
    ForeignKey,
    Index,
    JSONField,
    Model,
    PositiveIntegerField,
    Q,
    SmallIntegerField,
    TextField,
    TimeField,
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

    `conversation` is where a bot of Slack speaks, `signing_secret` (ciphertext) what its calls to
    us are signed with. What comes within `digest_s` is one message; from `quiet_from` until
    `quiet_until`, in the organisation's zone, nothing goes out but what is critical, if that
    passes.
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
    conversation = CharField(max_length=80, default="", blank=True)
    signing_secret = TextField(null=True, blank=True, editable=False)
    digest_s = PositiveIntegerField(default=0)
    quiet_from = TimeField(null=True, blank=True)
    quiet_until = TimeField(null=True, blank=True)
    critical_passes = BooleanField(default=True)
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
            CheckConstraint(
                condition=Q(quiet_from__isnull=True, quiet_until__isnull=True)
                | Q(quiet_from__isnull=False, quiet_until__isnull=False),
                name="channel_quiet_has_both_ends",
                violation_error_message="Quiet hours have a beginning and an end.",
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def has_secret(self) -> bool:
        return self.secret is not None

    @property
    def has_signing_secret(self) -> bool:
        return self.signing_secret is not None

    @property
    def is_dead(self) -> bool:
        """Whether it was switched off because it kept failing."""
        return not self.is_enabled and self.disabled_reason != ""


class RuleChannel(Model):
    """A rule tells a channel, at once or, from `step` 1 on, if nobody has taken an alert up.

    Both belong to the organisation.
    """

    organisation = ForeignKey(Organisation, CASCADE, related_name="+", null=True)
    rule = ForeignKey(AlertRule, CASCADE, related_name="steps")
    channel = ForeignKey(Channel, CASCADE, related_name="+")
    step = SmallIntegerField(default=0)

    class Meta:
        constraints = [
            UniqueConstraint(fields=["rule", "channel"], name="rule_channel_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.rule_id} tells {self.channel_id}"


class Delivery(VersionedRow):
    """One message by one channel: an outbox. Its id is the message's, however often it is sent.

    `content` is what it tells, fixed when it was queued. `taken_at` is when an attempt began, and
    `attempts` how many have. `is_uncertain` tells that one may have reached its receiver though
    nobody heard of it. `receipt` is what the receiver calls the message. One that was held may be
    told by another, its `digest`.
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
    is_uncertain = BooleanField(default=False)
    receipt = CharField(max_length=120, default="", blank=True)
    digest = ForeignKey("self", SET_NULL, related_name="folded", null=True)

    class Meta:
        indexes = [
            Index(
                fields=["next_try_at"],
                name="delivery_due",
                condition=Q(state__in=("queued", "sending", "held")),
            ),
            Index(fields=["organisation", "-created_at"], name="delivery_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.channel_id}"


class SlackCall(Model):
    """A call of Slack's that was acted on, by its signature: the same is never acted on again."""

    signature = CharField(max_length=80, primary_key=True)
    at = DateTimeField(default=timezone.now)

    class Meta:
        indexes = [Index(fields=["at"], name="slack_call_at")]

    def __str__(self) -> str:
        return self.signature
