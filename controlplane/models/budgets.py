"""Budgets: how much a subject may spend in a period; what the ledger has of it; what was mended.

Rows about spending name their budget by id alone: the recorder writes them, and must never fail
because somebody removes a budget meanwhile.
"""

from django.contrib.postgres.fields import ArrayField
from django.db.models import (
    CASCADE,
    BigAutoField,
    BigIntegerField,
    BooleanField,
    CharField,
    CheckConstraint,
    CompositePrimaryKey,
    DateTimeField,
    ForeignKey,
    Index,
    IntegerField,
    JSONField,
    Model,
    Q,
    SmallIntegerField,
    TextField,
    UniqueConstraint,
)
from django.db.models.functions import Lower

from controlplane.models.kinds import (
    budget_actions,
    budget_periods,
    too_long_policies,
    unknown_prices,
)
from controlplane.models.organisations import Organisation
from controlplane.models.rows import (
    LABEL_LENGTH,
    VersionedRow,
    budget_id,
    id_field,
    in_bounds,
    name_is_label,
    printable_name,
)
from inference.contract.kinds import BudgetAction, TooLong, UnknownPrice
from inference.contract.params import BUDGET_BOUNDS


def default_thresholds() -> list[int]:
    """In per cent of the amount."""
    return [50, 80, 100]


class Budget(VersionedRow):
    """One budget; the fields mean what they do in `snapshot.BudgetRecord`.

    `scopes` are objects of `subject` and `subject_id`: the id the row of the subject has here, a
    key's with its prefix, or an end user or a tag as callers write them; null has each one counted
    apart. `thresholds_percent` are of the amount; they are no gateway's business, nor is `owner`:
    whom people who are refused may turn to.
    """

    id = id_field(budget_id)
    organisation = ForeignKey(Organisation, CASCADE, related_name="budgets")
    name = CharField(max_length=LABEL_LENGTH, validators=[printable_name])
    scopes = JSONField()
    amount_nanousd = BigIntegerField()
    period = CharField(max_length=8, choices=budget_periods)
    action = CharField(max_length=8, choices=budget_actions, default=BudgetAction.BLOCK.value)
    unknown_price = CharField(
        max_length=8, choices=unknown_prices, default=UnknownPrice.REFUSE.value
    )
    is_rolling = BooleanField(default=False)
    grace_percent = SmallIntegerField(default=0)
    grace_nanousd = BigIntegerField(default=0)
    too_long = CharField(max_length=8, choices=too_long_policies, default=TooLong.REFUSE.value)
    acts_at_percent = SmallIntegerField(default=100)
    throttle_per_minute = IntegerField(default=60)
    cheaper_model = CharField(max_length=40, null=True, blank=True)
    owner = CharField(max_length=LABEL_LENGTH, blank=True, validators=[printable_name])
    raised_to_nanousd = BigIntegerField(null=True, blank=True)
    raised_until = DateTimeField(null=True, blank=True)
    is_enabled = BooleanField(default=True)
    thresholds_percent = ArrayField(
        SmallIntegerField(), default=default_thresholds, blank=True, size=10
    )

    class Meta:
        constraints = [
            UniqueConstraint(
                "organisation",
                Lower("name"),
                name="budget_name_unique",
                violation_error_message="The organisation has a budget of this name already.",
            ),
            name_is_label("budget"),
            CheckConstraint(
                condition=Q(raised_to_nanousd__isnull=True, raised_until__isnull=True)
                | Q(raised_to_nanousd__isnull=False, raised_until__isnull=False),
                name="budget_raise_has_an_end",
                violation_error_message="A raise has an amount and an end.",
            ),
            *in_bounds("budget", BUDGET_BOUNDS),
        ]

    def __str__(self) -> str:
        return self.name


class BudgetCount(Model):
    """How far the ledger counts a budget; none as long as it isn't counted.

    `definition` is a digest of what the counting depends on: scopes, period and time zone. From
    the moment it is written, `since`, the recorder adds what comes in; `is_filled` tells that what
    was there before is added too. `seeded_epoch` is the life of the state store's counters in which
    they were told of it.
    """

    budget_id = CharField(max_length=40, primary_key=True)
    definition = TextField()
    since = DateTimeField()
    is_filled = BooleanField(default=False)
    seeded_epoch = TextField(default="")

    def __str__(self) -> str:
        return self.budget_id


class BudgetAccount(Model):
    """What the ledger has of one budget, for these subjects, in one period.

    `key` is the name of the counter in the state store. Sums leave unknown costs out and count
    them in `unknown_cost`, by attempt.
    """

    key = TextField(primary_key=True)
    budget_id = CharField(max_length=40)
    organisation_id = TextField()
    subjects = ArrayField(TextField())
    starts_at = DateTimeField()
    ends_at = DateTimeField()
    spent_nanousd = BigIntegerField(default=0)
    attempts = BigIntegerField(default=0)
    unknown_cost = BigIntegerField(default=0)
    updated_at = DateTimeField()

    class Meta:
        indexes = [
            Index(fields=["budget_id", "starts_at", "-spent_nanousd"], name="budget_account_most"),
            Index(fields=["updated_at"], name="budget_account_moved"),
            Index(fields=["ends_at"], name="budget_account_end"),
        ]

    def __str__(self) -> str:
        return self.key


class BudgetBucket(Model):
    """What one account had in one stretch of its period; none for what callers name apart."""

    pk = CompositePrimaryKey("key", "at")
    key = TextField()
    at = DateTimeField()
    ends_at = DateTimeField()
    spent_nanousd = BigIntegerField(default=0)

    class Meta:
        indexes = [Index(fields=["ends_at"], name="budget_bucket_end")]


class BudgetEffect(Model):
    """How many requests that came in one hour a budget had an effect on, and of which kind."""

    pk = CompositePrimaryKey("budget_id", "effect", "at")
    budget_id = CharField(max_length=40)
    effect = CharField(max_length=12)
    at = DateTimeField()
    requests = BigIntegerField(default=0)
    last_at = DateTimeField()

    class Meta:
        indexes = [Index(fields=["at"], name="budget_effect_at")]


class BudgetReading(Model):
    """One account in the comparison of ledger and store that is under way.

    `told_nanousd` is what the ledger had before the store was asked, `settled_nanousd` what the
    store said; null as long as it wasn't asked.
    """

    key = TextField(primary_key=True)
    told_nanousd = BigIntegerField(default=0)
    settled_nanousd = BigIntegerField(null=True)

    def __str__(self) -> str:
        return self.key


class BudgetUpkeep(Model):
    """How far the comparison of ledger and store is; there is one row."""

    id = SmallIntegerField(primary_key=True, default=1)
    phase = CharField(max_length=8, default="idle")
    epoch = TextField(default="")
    since = DateTimeField(null=True)
    marks = JSONField(default=dict)
    looked_at = DateTimeField(null=True)
    compared_at = DateTimeField(null=True)
    is_seeded = BooleanField(default=False)
    waits_for = TextField(default="")

    def __str__(self) -> str:
        return self.phase


class BudgetCorrection(Model):
    """What one comparison changed in the counters of a budget, and why.

    `added_nanousd` is spending the store had missed, `taken_nanousd` what it had counted twice.
    """

    id = BigAutoField(primary_key=True)
    at = DateTimeField()
    organisation_id = TextField()
    budget_id = CharField(max_length=40)
    why = CharField(max_length=8)
    accounts = IntegerField()
    added_nanousd = BigIntegerField(default=0)
    taken_nanousd = BigIntegerField(default=0)

    class Meta:
        indexes = [
            Index(fields=["budget_id", "-at"], name="budget_correction_newest"),
            Index(fields=["at"], name="budget_correction_at"),
        ]

    def __str__(self) -> str:
        return f"{self.budget_id} {self.at}"
