"""The shapes of alerts, their rules, silences, channels and messages."""

from typing import Any

from rest_framework import serializers

from controlplane.api.serializers.strict import NameOrIdField, OwnedSerializer, StrictSerializer
from controlplane.decisions.alert_kinds import TRAITS
from controlplane.models.kinds import (
    alert_kinds,
    alert_scopes,
    channel_kinds,
    delivery_kinds,
    delivery_states,
    episode_states,
    no_data_policies,
    severities,
)
from controlplane.services.alert_rules import LONGEST_AGAIN_S, LONGEST_FOR_S, RUNBOOK_LENGTH
from controlplane.services.channels import LONGEST_DIGEST_S, MOST_RECIPIENTS, MOST_SECRET
from controlplane.services.rule_channels import MOST_STEPS
from inference.decisions.egress import MAX_URL_LENGTH

_LONGEST_WINDOW_S = max(one.windows[1] for one in TRAITS.values())


class SharedSerializer(OwnedSerializer):
    """A row of an organisation or, with `organisation` null, of the whole installation."""

    organisation_id = serializers.CharField(
        read_only=True, allow_null=True, help_text="Null: the whole installation's."
    )
    organisation = serializers.CharField(
        write_only=True,
        required=False,
        allow_null=True,
        help_text="Name or id; needed only if you have several. Null is the whole installation, "
        "which is the platform administrators'.",
    )

    def _problem_with(self, name: str, value: Any, fixed: frozenset[str]) -> str | None:
        if name == "organisation" and self.instance is not None:
            is_so = value is None and self.instance.organisation_id is None
            return None if is_so else "This can't be changed."
        return super()._problem_with(name, value, fixed)


_LOOKED_AT = frozenset(
    (
        *("value", "peak", "seen_at", "is_silenced", "subject_name", "detail"),
        *("told_at", "reminded_at", "escalated", "worsened_at"),
    )
)


class AlertSerializer(StrictSerializer):
    """One alert from its firing to its end."""

    id = serializers.CharField(read_only=True)
    organisation_id = serializers.CharField(read_only=True, allow_null=True)
    version = serializers.IntegerField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    updated_at = serializers.DateTimeField(read_only=True)
    rule_id = serializers.CharField(
        read_only=True, allow_null=True, help_text="Null: the rule is gone, or there never was one."
    )
    name = serializers.CharField(read_only=True, help_text="What its rule was called.")
    kind = serializers.ChoiceField(choices=alert_kinds(), read_only=True)
    scope = serializers.ChoiceField(choices=alert_scopes(), read_only=True)
    subject_id = serializers.CharField(read_only=True, help_text="The place it is about.")
    subject_name = serializers.CharField(read_only=True)
    threshold = serializers.FloatField(read_only=True)
    window_s = serializers.IntegerField(read_only=True)
    severity = serializers.ChoiceField(choices=severities(), read_only=True)
    state = serializers.ChoiceField(
        choices=episode_states(), required=False, help_text="`resolved` ends it by hand, for good."
    )
    snoozed_until = serializers.DateTimeField(
        required=False, allow_null=True, help_text="With `snoozed`, and only then; 7 days at most."
    )
    is_silenced = serializers.BooleanField(read_only=True)
    value = serializers.FloatField(
        read_only=True, allow_null=True, help_text="When last looked at; null: no data."
    )
    peak = serializers.FloatField(read_only=True, allow_null=True)
    opened_at = serializers.DateTimeField(read_only=True)
    seen_at = serializers.DateTimeField(read_only=True)
    acknowledged_at = serializers.DateTimeField(read_only=True, allow_null=True)
    acknowledged_by = serializers.CharField(read_only=True)
    resolved_at = serializers.DateTimeField(read_only=True, allow_null=True)
    resolved_why = serializers.CharField(read_only=True)
    told_at = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="When messages about it were queued."
    )
    reminded_at = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="When anybody was last told of it."
    )
    escalated = serializers.IntegerField(
        read_only=True, help_text="How many steps were told for want of anybody taking it up."
    )
    worsened_at = serializers.DateTimeField(
        read_only=True, allow_null=True, help_text="When it became critical, if it wasn't first."
    )
    is_flapping = serializers.BooleanField(
        read_only=True, help_text="It fired three times within an hour, and ends slowly."
    )
    detail = serializers.CharField(read_only=True, help_text="What its value was compared with.")
    runbook = serializers.CharField(read_only=True)

    def _problem_with(self, name: str, value: Any, fixed: frozenset[str]) -> str | None:
        # what was looked at meanwhile is no change of who sends back what he read
        if name in _LOOKED_AT:
            return None
        return super()._problem_with(name, value, fixed)


class ChannelNamesField(serializers.ListField):
    """Names of channels."""

    child = serializers.CharField(max_length=100)

    def get_attribute(self, instance: Any) -> list[str]:
        return list(instance.channel_names)


class EscalationField(ChannelNamesField):
    """Names of the channels that are told after those, in their order."""

    def get_attribute(self, instance: Any) -> list[str]:
        return list(instance.escalation)


class AlertRuleSerializer(SharedSerializer):
    """It fires when a value is at the threshold or above it for `for_s`."""

    name = serializers.CharField(max_length=100)
    kind = serializers.ChoiceField(choices=alert_kinds())
    scope = serializers.ChoiceField(choices=alert_scopes(), help_text="Not every kind has each.")
    scope_id = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=255,
        help_text="Name or id of the one that is meant; shown as the id. Null: each one apart.",
    )
    scope_name = serializers.CharField(read_only=True, allow_null=True)
    threshold = serializers.FloatField(
        required=False, help_text="In the kind's unit: per cent, ms, s, or a count."
    )
    window_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=_LONGEST_WINDOW_S,
        help_text="What the value is of, in whole minutes; 0 for kinds that are of one moment.",
    )
    clears_at = serializers.FloatField(
        required=False,
        allow_null=True,
        help_text="It is over once the value is below this; null: below nine tenths of "
        "`threshold`.",
    )
    critical_at = serializers.FloatField(
        required=False,
        allow_null=True,
        help_text="From this value on, for `for_s` too, the same alert is critical and told again; "
        "of budgets, the thresholds from this one on. Null: it stays as grave as it is.",
    )
    on_no_data = serializers.ChoiceField(
        choices=no_data_policies(),
        required=False,
        help_text="What follows where nothing is known: what is is held (`keep`), an alert ends "
        "(`resolve`), or it is an alert itself (`alert`).",
    )
    for_s = serializers.IntegerField(
        required=False, min_value=0, max_value=LONGEST_FOR_S, help_text="So long before it fires."
    )
    severity = serializers.ChoiceField(choices=severities(), required=False)
    channels = ChannelNamesField(
        required=False, max_length=50, help_text="Names or ids; shown as names."
    )
    tells_resolved = serializers.BooleanField(
        required=False, help_text="Whether the end is told too."
    )
    reminds_every_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=LONGEST_AGAIN_S,
        help_text="Told again so often as long as nobody takes it up; 0 is never.",
    )
    escalation = EscalationField(
        required=False,
        max_length=MOST_STEPS,
        help_text="Channels by name or id; each is told after `escalates_after_s` more.",
    )
    escalates_after_s = serializers.IntegerField(
        required=False, min_value=0, max_value=LONGEST_AGAIN_S, help_text="0 is never."
    )
    runbook = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=RUNBOOK_LENGTH,
        help_text="Address of what to do; messages link to it.",
    )
    is_enabled = serializers.BooleanField(required=False)
    condition = serializers.CharField(read_only=True, help_text="The same in words.")
    firing = serializers.IntegerField(read_only=True, help_text="Alerts of it that hold now.")

    def _problem_with(self, name: str, value: Any, fixed: frozenset[str]) -> str | None:
        if name == "firing" and self.instance is not None:
            return None
        return super()._problem_with(name, value, fixed)


class PreviewAlertSerializer(serializers.Serializer[Any]):
    """One alert the rule would have made."""

    subject_id = serializers.CharField()
    subject_name = serializers.CharField()
    fired_at = serializers.DateTimeField()
    resolved_at = serializers.DateTimeField(allow_null=True, help_text="Null: it would still hold.")
    peak = serializers.FloatField(allow_null=True, help_text="Null: nothing was known.")
    critical_at = serializers.DateTimeField(
        allow_null=True, help_text="When it would have become critical; null: never."
    )


class PreviewSerializer(serializers.Serializer[Any]):
    """What a rule would have done over the last day."""

    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    alerts = PreviewAlertSerializer(
        many=True, allow_null=True, help_text="Newest first; null: nobody keeps this kind's past."
    )
    places = serializers.IntegerField(help_text="How many it watches.")
    looked_at = serializers.IntegerField(help_text="Of these, how many were looked at.")
    unknown_share = serializers.FloatField(help_text="Of the day, what nothing is known of.")


class SilenceSerializer(SharedSerializer):
    """Nothing is sent about what it names until it ends."""

    create_only = frozenset({"organisation", "rule", "subject_id"})

    rule = NameOrIdField(required=False, allow_null=True, help_text="Name or id; null: every rule.")
    subject_id = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=255,
        help_text="The place, as alerts have it; null: every place.",
    )
    reason = serializers.CharField(max_length=200)
    ends_at = serializers.DateTimeField(help_text="Within 30 days; of what recurs within a year.")
    weekdays = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=6),
        required=False,
        max_length=7,
        help_text="Days on which it recurs, 0 is Monday; empty: it holds all the time.",
    )
    from_time = serializers.TimeField(
        required=False, allow_null=True, help_text="Of the organisation's clocks; with `weekdays`."
    )
    until_time = serializers.TimeField(
        required=False, allow_null=True, help_text="May be of the next day; with `weekdays`."
    )
    created_by = serializers.CharField(read_only=True)


class ChannelSerializer(SharedSerializer):
    """A way to reach people. Address and secret go in and never come out."""

    create_only = frozenset({"organisation", "kind"})

    name = serializers.CharField(max_length=100)
    kind = serializers.ChoiceField(choices=channel_kinds())
    recipients = serializers.ListField(
        child=serializers.EmailField(max_length=254),
        required=False,
        max_length=MOST_RECIPIENTS,
        help_text="Of mail.",
    )
    url = serializers.CharField(
        write_only=True,
        required=False,
        allow_null=True,
        max_length=MAX_URL_LENGTH,
        help_text="Of Slack and webhooks; it may be a secret, so only its host is shown.",
    )
    host = serializers.CharField(read_only=True)
    secret = serializers.CharField(
        write_only=True,
        required=False,
        allow_null=True,
        max_length=MOST_SECRET,
        trim_whitespace=False,
        help_text="Of webhooks what messages are signed with, of bots of Slack their token; 16 "
        "characters at least.",
    )
    has_secret = serializers.BooleanField(read_only=True)
    secret_last4 = serializers.CharField(read_only=True)
    conversation = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=80,
        help_text="Of bots of Slack: the id of the Slack channel, such as C0123456789.",
    )
    signing_secret = serializers.CharField(
        write_only=True,
        required=False,
        allow_null=True,
        max_length=MOST_SECRET,
        trim_whitespace=False,
        help_text="Of bots of Slack: what Slack signs with; without it messages have no buttons.",
    )
    has_signing_secret = serializers.BooleanField(read_only=True)
    tells_switches = serializers.BooleanField(
        required=False, help_text="Whether it is told when a kill switch is thrown or removed."
    )
    digest_s = serializers.IntegerField(
        required=False,
        min_value=0,
        max_value=LONGEST_DIGEST_S,
        help_text="What comes within so long is told as one message; 0 is at once.",
    )
    quiet_from = serializers.TimeField(
        required=False, allow_null=True, help_text="Of the organisation's clocks; UTC without one."
    )
    quiet_until = serializers.TimeField(
        required=False, allow_null=True, help_text="May be of the next day."
    )
    critical_passes = serializers.BooleanField(
        required=False, help_text="Whether what is critical is neither collected nor kept back."
    )
    is_enabled = serializers.BooleanField(required=False)
    disabled_reason = serializers.CharField(
        read_only=True, help_text="Why it was switched off by itself; empty otherwise."
    )
    lacking = serializers.CharField(
        read_only=True, help_text="What the host must be given first; empty: nothing."
    )
    last_sent_at = serializers.DateTimeField(read_only=True, allow_null=True)
    rules = serializers.ListField(
        source="rule_names",
        child=serializers.CharField(),
        read_only=True,
        help_text="Names of rules that tell it.",
    )

    def _problem_with(self, name: str, value: Any, fixed: frozenset[str]) -> str | None:
        if name in ("rules", "last_sent_at", "lacking") and self.instance is not None:
            return None
        return super()._problem_with(name, value, fixed)


class DeliverySerializer(StrictSerializer):
    """One message by one channel. POST sends a test; `state` queued sends one again that failed
    or is unknown."""

    create_only = frozenset({"channel"})

    id = serializers.CharField(read_only=True, help_text="The message's own, however often sent.")
    organisation_id = serializers.CharField(read_only=True, allow_null=True)
    version = serializers.IntegerField(read_only=True)
    created_at = serializers.DateTimeField(read_only=True)
    updated_at = serializers.DateTimeField(read_only=True)
    channel = NameOrIdField(help_text="Name or id; shown as the name.")
    channel_id = serializers.CharField(read_only=True)
    episode_id = serializers.CharField(read_only=True, allow_null=True, help_text="Of an alert.")
    kind = serializers.ChoiceField(choices=delivery_kinds(), read_only=True)
    title = serializers.CharField(source="content.title", read_only=True)
    text = serializers.CharField(source="content.text", read_only=True)
    state = serializers.ChoiceField(choices=delivery_states(), required=False)
    attempts = serializers.IntegerField(read_only=True)
    next_try_at = serializers.DateTimeField(read_only=True)
    sent_at = serializers.DateTimeField(read_only=True, allow_null=True)
    status = serializers.IntegerField(
        read_only=True, allow_null=True, help_text="What the receiver answered last."
    )
    error = serializers.CharField(read_only=True, help_text="Why the last attempt failed.")
    is_uncertain = serializers.BooleanField(
        read_only=True, help_text="An attempt may have reached the receiver though nobody heard."
    )
    receipt = serializers.CharField(read_only=True, help_text="What the receiver calls it.")
    digest_id = serializers.CharField(
        read_only=True, allow_null=True, help_text="The message that told it together with others."
    )
