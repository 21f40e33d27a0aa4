"""Alerts: what is watched, what became of it, and what is kept quiet."""

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    CASCADE,
    SET_NULL,
    BooleanField,
    CharField,
    CheckConstraint,
    CompositePrimaryKey,
    DateTimeField,
    F,
    FloatField,
    ForeignKey,
    Index,
    ManyToManyField,
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

from controlplane.decisions.alert_kinds import EpisodeState, NoData, Severity
from controlplane.models.kinds import (
    alert_kinds,
    alert_scopes,
    episode_states,
    no_data_policies,
    severities,
)
from controlplane.models.organisations import Organisation
from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    alert_rule_id,
    episode_id,
    id_field,
    name_is_label,
    printable_name,
    silence_id,
)


class AlertRule(VersionedRow):
    """What is watched, where, and from which value on it is an alert.

    Without an organisation it is the whole installation's. `scope_id` null is each place apart.
    `clears_at` null is nine tenths of the threshold; from `critical_at` on the same alert is
    critical, whatever the rule's severity. It reminds every `reminds_every_s` for as long
    as nobody has taken it up, and after each `escalates_after_s` tells the channels of the next
    step; 0 is never.
    """

    id = id_field(alert_rule_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="alert_rules", null=True)
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])
    kind = CharField(max_length=32, choices=alert_kinds)
    scope = CharField(max_length=16, choices=alert_scopes)
    scope_id = TextField(null=True, blank=True)
    threshold = FloatField()
    window_s = PositiveIntegerField(default=0)
    clears_at = FloatField(null=True, blank=True)
    critical_at = FloatField(null=True, blank=True)
    on_no_data = CharField(max_length=8, choices=no_data_policies, default=NoData.KEEP.value)
    for_s = PositiveIntegerField(default=0)
    severity = CharField(max_length=16, choices=severities, default=Severity.WARNING.value)
    channels = ManyToManyField(
        "controlplane.Channel", through="controlplane.RuleChannel", related_name="rules", blank=True
    )
    tells_resolved = BooleanField(default=True)
    reminds_every_s = PositiveIntegerField(default=0)
    escalates_after_s = PositiveIntegerField(default=0)
    runbook = TextField(default="", blank=True)
    is_enabled = BooleanField(default=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                "organisation",
                Lower("name"),
                name="alert_rule_name_unique",
                nulls_distinct=False,
                violation_error_message="There is a rule of this name already.",
            ),
            name_is_label("alert_rule"),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def channel_names(self) -> list[str]:
        """Whom it tells at once, by name."""
        return sorted(one.channel.name for one in self.steps.all() if one.step == 0)

    @property
    def escalation(self) -> list[str]:
        """Whom it tells after them, in their order."""
        later = sorted((one.step, one.channel.name) for one in self.steps.all() if one.step)
        return [name for _, name in later]


class AlertStanding(Model):
    """What is known of one place of a rule from the looks before; see `decisions.alerts`."""

    pk = CompositePrimaryKey("rule_id", "subject_id")
    rule = ForeignKey(AlertRule, CASCADE, related_name="standings")
    subject_id = TextField()
    is_firing = BooleanField(default=False)
    breached_since = DateTimeField(null=True, blank=True)
    cleared_since = DateTimeField(null=True, blank=True)
    seen_at = DateTimeField()
    value = FloatField(null=True, blank=True)
    fired_at = ArrayField(DateTimeField(), default=list)
    critical_since = DateTimeField(null=True, blank=True)
    is_critical = BooleanField(default=False)


class Episode(VersionedRow):
    """One alert from its firing to its end; it keeps what its rule was called.

    `told_at` and `end_told_at` are when messages about its firing and its end were queued,
    `reminded_at` when anybody was last told of it, `escalated` how many steps were told. What
    the console fires by itself has no rule. It became critical `worsened_at`, and that was told
    `worse_told_at`. `detail` is what its value was compared with.
    """

    id = id_field(episode_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="episodes", null=True)
    rule = ForeignKey(AlertRule, SET_NULL, related_name="episodes", null=True)
    name = CharField(max_length=LABEL_LENGTH)
    kind = CharField(max_length=32, choices=alert_kinds)
    scope = CharField(max_length=16, choices=alert_scopes)
    subject_id = TextField()
    subject_name = TextField(default="", blank=True)
    threshold = FloatField()
    window_s = PositiveIntegerField(default=0)
    severity = CharField(max_length=16, choices=severities)
    state = CharField(max_length=16, choices=episode_states, default=EpisodeState.OPEN.value)
    value = FloatField(null=True, blank=True)
    peak = FloatField(null=True, blank=True)
    opened_at = DateTimeField(default=timezone.now)
    seen_at = DateTimeField(default=timezone.now)
    acknowledged_at = DateTimeField(null=True, blank=True)
    acknowledged_by = CharField(max_length=255, default="", blank=True)
    snoozed_until = DateTimeField(null=True, blank=True)
    resolved_at = DateTimeField(null=True, blank=True)
    resolved_why = CharField(max_length=200, default="", blank=True)
    told_at = DateTimeField(null=True, blank=True)
    end_told_at = DateTimeField(null=True, blank=True)
    reminded_at = DateTimeField(null=True, blank=True)
    escalated = SmallIntegerField(default=0)
    worsened_at = DateTimeField(null=True, blank=True)
    worse_told_at = DateTimeField(null=True, blank=True)
    is_flapping = BooleanField(default=False)
    detail = TextField(default="", blank=True)
    runbook = TextField(default="", blank=True)

    class Meta:
        constraints = [
            UniqueConstraint(
                fields=["rule", "kind", "scope", "subject_id", "window_s", "threshold"],
                condition=~Q(state="resolved"),
                nulls_distinct=False,
                name="episode_one_at_a_time",
            ),
            CheckConstraint(
                condition=Q(state="resolved", resolved_at__isnull=False)
                | (~Q(state="resolved") & Q(resolved_at__isnull=True)),
                name="episode_resolved_has_a_time",
            ),
        ]
        indexes = [
            Index(fields=["organisation", "-opened_at"], name="episode_newest"),
            Index(fields=["organisation"], name="episode_held", condition=~Q(state="resolved")),
            Index(fields=["resolved_at"], name="episode_ended"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.subject_name or self.subject_id}"


class Silence(VersionedRow):
    """Nothing is sent about what it names until it ends; pages show it all the same.

    `rule` null is every rule, `subject_id` null every place. One with `weekdays` (Monday is 0)
    holds on those days alone, from `from_time` until `until_time` in the organisation's zone; one
    that ends before it begins lasts into the next day. `holds_until` is when the quiet it keeps at
    present is over; the jobs see to it.
    """

    id = id_field(silence_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="silences", null=True)
    rule = ForeignKey(AlertRule, CASCADE, related_name="silences", null=True)
    subject_id = TextField(null=True, blank=True)
    reason = CharField(max_length=200, validators=[printable_name])
    created_by = CharField(max_length=255)
    ends_at = DateTimeField()
    weekdays = ArrayField(SmallIntegerField(), default=list, blank=True)
    from_time = TimeField(null=True, blank=True)
    until_time = TimeField(null=True, blank=True)
    holds_until = DateTimeField(null=True, blank=True, editable=False)

    class Meta:
        constraints = [
            CheckConstraint(condition=Q(ends_at__gt=F("created_at")), name="silence_ends_later"),
            CheckConstraint(
                condition=Q(weekdays=[], from_time__isnull=True, until_time__isnull=True)
                | (~Q(weekdays=[]) & Q(from_time__isnull=False, until_time__isnull=False)),
                name="silence_recurs_with_times",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.rule_id or 'all'}:{self.subject_id or 'all'}"
