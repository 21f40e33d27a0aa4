"""The shapes of a budget, of a raise, and of how it stands."""

from datetime import UTC, datetime
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from controlplane.api.serializers.strict import (
    NanoUsdField,
    OwnedSerializer,
    StrictSerializer,
    whole,
)
from controlplane.decisions.budget_effects import Effect
from controlplane.decisions.budget_proofs import ProofState
from controlplane.models.kinds import (
    budget_actions,
    budget_periods,
    budget_states,
    budget_subjects,
    choices_of,
    too_long_policies,
    unknown_prices,
)
from controlplane.services.budgets import MOST_PERCENT, MOST_THRESHOLDS
from inference.contract.params import BUDGET_BOUNDS, MAX_BUDGET_SCOPES


class BudgetNanoUsdField(NanoUsdField):
    """Money within a budget's bounds."""

    def to_internal_value(self, data: Any) -> int:
        amount = super().to_internal_value(data)
        if BUDGET_BOUNDS["amount_nanousd"].problem_with(amount) is not None:
            self.fail("range")
        return amount


class ScopeSerializer(StrictSerializer):
    """One of the things a budget is about; a request counts if it is of all of them."""

    subject = serializers.ChoiceField(choices=budget_subjects())
    subject_id = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=255,
        help_text="Name or id, of an end user or a tag what callers write; shown as the id. Null: "
        "each one is counted apart; for the organisation: all together.",
    )

    def to_internal_value(self, data: Any) -> Any:
        values = super().to_internal_value(data)
        return {**values, "subject_id": values.get("subject_id")}


class BudgetSerializer(OwnedSerializer):
    """At most `amount_nanousd` in each `period` for the requests that are of all its scopes."""

    name = serializers.CharField(max_length=100)
    scopes = ScopeSerializer(
        many=True,
        min_length=1,
        max_length=MAX_BUDGET_SCOPES,
        help_text="Each kind of thing once. They are replaced as a whole.",
    )
    amount_nanousd = BudgetNanoUsdField(
        help_text="Nano-USD as text: $1 is 1000000000. 0 lets through what costs nothing."
    )
    period = serializers.ChoiceField(
        choices=budget_periods(), help_text="By the calendar, in the organisation's time zone."
    )
    is_rolling = serializers.BooleanField(
        required=False,
        help_text="Not by the calendar: the last 60 minutes, 24 hours, 7, 30 or 90 days at any "
        "moment.",
    )
    action = serializers.ChoiceField(
        choices=budget_actions(),
        required=False,
        help_text="`block` refuses what may cost more than is left; `throttle` lets in fewer and "
        "`cheaper` sends to a cheaper model once a share is spent; `notify` only tells.",
    )
    too_long = serializers.ChoiceField(
        choices=too_long_policies(),
        required=False,
        help_text="What blocking ones do if a shorter answer would fit: `lower` its maximum to "
        "what is left buys.",
    )
    acts_at_percent = whole(
        BUDGET_BOUNDS["acts_at_percent"],
        required=False,
        help_text="The share of the amount from which `throttle` and `cheaper` act.",
    )
    throttle_per_minute = whole(
        BUDGET_BOUNDS["throttle_per_minute"],
        required=False,
        help_text="So many requests are let in then; others wait, as long as for a worker.",
    )
    cheaper_model = serializers.CharField(
        required=False,
        allow_null=True,
        max_length=255,
        help_text="Name or id; shown as the id. Null, or no target of the route: its cheapest.",
    )
    unknown_price = serializers.ChoiceField(
        choices=unknown_prices(),
        required=False,
        help_text="What blocking ones do with requests whose cost nobody knows.",
    )
    grace_percent = whole(
        BUDGET_BOUNDS["grace_percent"],
        required=False,
        help_text="So much more than the amount is let through before a request is refused.",
    )
    grace_nanousd = BudgetNanoUsdField(required=False, help_text="So much more besides.")
    thresholds_percent = serializers.ListField(
        child=serializers.IntegerField(min_value=1, max_value=MOST_PERCENT),
        required=False,
        max_length=MOST_THRESHOLDS,
        help_text="Of the amount, for alerts; no gateway reads them.",
    )
    raised_to_nanousd = BudgetNanoUsdField(
        read_only=True, allow_null=True, help_text="Set by `raise/`."
    )
    raised_until = serializers.DateTimeField(read_only=True, allow_null=True)
    is_enabled = serializers.BooleanField(required=False)
    owner = serializers.CharField(
        required=False,
        allow_blank=True,
        max_length=100,
        help_text="Whom people may turn to who are refused; shown to them.",
    )
    counts = serializers.CharField(read_only=True, help_text="The same in words.")


class RaiseSerializer(StrictSerializer):
    """More for a time, which has an end; both null end a raise now."""

    raised_to_nanousd = BudgetNanoUsdField(allow_null=True)
    raised_until = serializers.DateTimeField(allow_null=True)


@extend_schema_field(serializers.DateTimeField(allow_null=True))
class _MomentField(serializers.Field[int, Any, str | None, Any]):
    def to_representation(self, value: int) -> str:
        return datetime.fromtimestamp(value, UTC).isoformat().replace("+00:00", "Z")


class BudgetPeriodSerializer(serializers.Serializer[Any]):
    starts_at = _MomentField(source="starts_s", read_only=True)
    ends_at = _MomentField(source="ends_s", read_only=True)


class BudgetForecastSerializer(serializers.Serializer[Any]):
    """A straight line through now; four fifths of the outcomes lie between low and high."""

    at_end_nanousd = NanoUsdField(read_only=True)
    low_nanousd = NanoUsdField(read_only=True, allow_null=True)
    high_nanousd = NanoUsdField(read_only=True, allow_null=True)
    reached_at = _MomentField(source="reached_at_s", read_only=True, allow_null=True)


class BudgetSubjectSerializer(serializers.Serializer[Any]):
    subject = serializers.ChoiceField(choices=budget_subjects(), read_only=True)
    id = serializers.CharField(read_only=True)
    name = serializers.CharField(read_only=True, allow_null=True)


class BudgetAccountSerializer(serializers.Serializer[Any]):
    """What is counted for these subjects together in the present period."""

    subjects = BudgetSubjectSerializer(many=True, read_only=True)
    state = serializers.ChoiceField(choices=budget_states(), source="balance.state", read_only=True)
    spent_nanousd = NanoUsdField(
        source="balance.spent_nanousd", read_only=True, help_text="By the ledger."
    )
    reserved_nanousd = NanoUsdField(
        source="balance.reserved_nanousd",
        read_only=True,
        allow_null=True,
        help_text="Held by gateways for requests under way; null: the store does not answer.",
    )
    left_nanousd = NanoUsdField(source="balance.left_nanousd", read_only=True)
    used_percent = serializers.FloatField(
        source="balance.used_percent", read_only=True, allow_null=True
    )
    threshold_percent = serializers.IntegerField(
        source="balance.threshold_percent", read_only=True, allow_null=True
    )
    attempts = serializers.IntegerField(read_only=True)
    unknown_cost = serializers.IntegerField(
        read_only=True, help_text="Attempts whose cost nobody knows; they add nothing."
    )
    late_nanousd = NanoUsdField(
        read_only=True,
        allow_null=True,
        help_text="Reserved again by gateway processes that had been taken for dead.",
    )
    late_past_nanousd = NanoUsdField(
        read_only=True, allow_null=True, help_text="What of that went past the amount."
    )
    forecast = BudgetForecastSerializer(read_only=True, allow_null=True)


class BudgetTotalsSerializer(serializers.Serializer[Any]):
    accounts = serializers.IntegerField(read_only=True)
    spent_nanousd = NanoUsdField(read_only=True)
    attempts = serializers.IntegerField(read_only=True)
    unknown_cost = serializers.IntegerField(read_only=True)


class BudgetPastSerializer(serializers.Serializer[Any]):
    """What the last whole period would have meant for the amount of now."""

    accounts = serializers.IntegerField(read_only=True)
    reached = serializers.IntegerField(
        read_only=True, help_text="Accounts that would have used it up."
    )
    first_reached_at = _MomentField(source="first_reached_at_s", read_only=True, allow_null=True)
    spent_nanousd = NanoUsdField(read_only=True)
    most_nanousd = NanoUsdField(read_only=True, help_text="Of the account that spent the most.")


class BudgetWarningSerializer(serializers.Serializer[Any]):
    """An account that is nearly or wholly used up."""

    budget = serializers.CharField(source="budget_id", read_only=True)
    name = serializers.CharField(read_only=True)
    owner = serializers.CharField(read_only=True)
    about = serializers.CharField(read_only=True, help_text="Whom the account counts for.")
    state = serializers.ChoiceField(choices=budget_states(), read_only=True)
    is_acting = serializers.BooleanField(
        read_only=True, help_text="Whether it slows requests down or sends them to cheaper models."
    )
    ends_at = serializers.DateTimeField(
        read_only=True, help_text="When it starts anew; of one that rolls, gives way next."
    )
    spent_nanousd = NanoUsdField(
        source="balance.spent_nanousd",
        default=None,
        read_only=True,
        allow_null=True,
        help_text="Null to roles that don't read all that counts on it.",
    )
    amount_nanousd = NanoUsdField(
        source="balance.amount_nanousd", default=None, read_only=True, allow_null=True
    )
    used_percent = serializers.FloatField(
        source="balance.used_percent", default=None, read_only=True, allow_null=True
    )


class ProofStepSerializer(serializers.Serializer[Any]):
    name = serializers.CharField(read_only=True)
    state = serializers.ChoiceField(choices=choices_of(ProofState), read_only=True)
    words = serializers.CharField(read_only=True)


class BudgetProofSerializer(serializers.Serializer[Any]):
    """What came of putting a budget to the test, step by step."""

    steps = ProofStepSerializer(many=True, read_only=True)


class BudgetFiredSerializer(serializers.Serializer[Any]):
    """A threshold that would have been passed."""

    percent = serializers.IntegerField(read_only=True)
    accounts = serializers.IntegerField(read_only=True)
    first_at = _MomentField(source="first_at_s", read_only=True, allow_null=True)


class BudgetPastPeriodSerializer(serializers.Serializer[Any]):
    """A period that is over, judged by the amount of now."""

    period = BudgetPeriodSerializer(read_only=True)
    past = BudgetPastSerializer(read_only=True)
    fired = BudgetFiredSerializer(many=True, read_only=True)


class BudgetEffectSerializer(serializers.Serializer[Any]):
    """What became of requests because of the budget, in the hours of the present period."""

    effect = serializers.ChoiceField(choices=choices_of(Effect), read_only=True)
    requests = serializers.IntegerField(read_only=True)
    last_at = serializers.DateTimeField(read_only=True)


class BudgetStatusSerializer(serializers.Serializer[Any]):
    period = BudgetPeriodSerializer(read_only=True)
    time_zone = serializers.CharField(read_only=True)
    amount_nanousd = NanoUsdField(
        read_only=True, help_text="What may be spent now: raised, and with its grace."
    )
    is_each = serializers.BooleanField(read_only=True, help_text="Whether it counts several apart.")
    is_counted = serializers.BooleanField(
        read_only=True, help_text="False for some seconds, until the ledger was read for it."
    )
    is_checked = serializers.BooleanField(
        read_only=True, help_text="Whether the store's counters know of the ledger."
    )
    totals = BudgetTotalsSerializer(
        read_only=True, allow_null=True, help_text="Null to roles that don't read all of it."
    )
    accounts = BudgetAccountSerializer(many=True, read_only=True)
    effects = BudgetEffectSerializer(source="effects_told", many=True, read_only=True)
    previous_period = BudgetPeriodSerializer(read_only=True)
    previous = BudgetPastSerializer(read_only=True, allow_null=True)
    past = BudgetPastPeriodSerializer(
        many=True,
        read_only=True,
        help_text="The last whole periods, newest first, as far as they were counted.",
    )
