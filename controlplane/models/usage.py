"""Roll-ups of the ledger, and how far its sources have been committed.

Sums leave unknowns out and count them: `unknown_usage` attempts, `unknown_cost` requests.
"""

from django.db.models import (
    BigAutoField,
    BigIntegerField,
    BinaryField,
    CompositePrimaryKey,
    DateField,
    DateTimeField,
    Index,
    JSONField,
    Model,
    TextField,
)
from django.db.models.functions import Now


class UsageSums(Model):
    """What every roll-up adds up: requests are counted once, all else per attempt."""

    requests = BigIntegerField(default=0)
    errors = BigIntegerField(default=0)
    attempts = BigIntegerField(default=0)
    prompt_tokens = BigIntegerField(default=0)
    completion_tokens = BigIntegerField(default=0)
    cached_tokens = BigIntegerField(default=0)
    cost_nanousd = BigIntegerField(default=0)
    unknown_usage = BigIntegerField(default=0)
    unknown_cost = BigIntegerField(default=0)

    class Meta:
        abstract = True


class UsageMinute(UsageSums):
    """Usage of one minute (UTC) by route, pool, model and project; an empty id stands for none."""

    pk = CompositePrimaryKey(
        "organisation_id", "minute", "route_id", "pool_id", "model_id", "project_id"
    )
    organisation_id = TextField()
    minute = DateTimeField()
    route_id = TextField()
    pool_id = TextField()
    model_id = TextField()
    project_id = TextField()


class UsageHour(UsageSums):
    """Usage of one hour of the organisation's clock by one dimension's value and project.

    `hour` is when it began.
    """

    pk = CompositePrimaryKey("organisation_id", "hour", "dimension", "value", "project_id")
    organisation_id = TextField()
    hour = DateTimeField()
    dimension = TextField()
    value = TextField()
    project_id = TextField(default="")

    class Meta:
        indexes = [
            Index(fields=["organisation_id", "dimension", "hour"], name="usage_hour_dimension")
        ]


class UsageDay(UsageSums):
    """Usage of one day of the organisation's zone by one dimension's value and project.

    `label` is the value's name when last seen that day. `changed_at` is when anything was last
    added, by the database's clock, at the beginning of the statement that did.
    """

    pk = CompositePrimaryKey("organisation_id", "day", "dimension", "value", "project_id")
    organisation_id = TextField()
    day = DateField()
    dimension = TextField()
    value = TextField()
    project_id = TextField(default="")
    label = TextField(default="")
    changed_at = DateTimeField(db_default=Now())

    class Meta:
        indexes = [
            Index(fields=["organisation_id", "dimension", "day"], name="usage_day_dimension")
        ]


class UsageNamed(UsageSums):
    """Usage of one day of the organisation's zone by a key and what its callers named.

    `kind` is a `NamedKind`: one tag or end user, those beyond the cap, or what several tags of a
    request count more than once, which is negative. What had no name has no row.
    """

    pk = CompositePrimaryKey(
        "organisation_id", "day", "dimension", "key_id", "kind", "value", "project_id"
    )
    organisation_id = TextField()
    day = DateField()
    dimension = TextField()
    key_id = TextField()
    kind = TextField()
    value = TextField()
    project_id = TextField()

    class Meta:
        indexes = [
            Index(fields=["organisation_id", "dimension", "day"], name="usage_named_dimension")
        ]


class UsagePriced(Model):
    """Attempts of one day of the organisation's zone by the version they were priced at.

    What a version asks of customers never changes, so revenue follows from the tokens. An empty
    `version_id` is of attempts without a price, and of corrections: those are cost alone.
    `unpriced` counts attempts of unknown cost, `unknown_usage` those of unknown tokens.
    """

    pk = CompositePrimaryKey(
        *("organisation_id", "day", "version_id", "team_id", "project_id", "model_id", "pool_id")
    )
    organisation_id = TextField()
    day = DateField()
    version_id = TextField()
    team_id = TextField()
    project_id = TextField()
    model_id = TextField()
    pool_id = TextField()
    attempts = BigIntegerField(default=0)
    prompt_tokens = BigIntegerField(default=0)
    completion_tokens = BigIntegerField(default=0)
    cost_nanousd = BigIntegerField(default=0)
    unpriced = BigIntegerField(default=0)
    unknown_usage = BigIntegerField(default=0)


class RuleMinute(Model):
    """How many requests a rule of a route took in one minute (UTC); what no rule took has no row.

    As many rows a minute at most as there are rules that took anything; kept for a week.
    """

    pk = CompositePrimaryKey("organisation_id", "minute", "route_id", "rule_id")
    organisation_id = TextField()
    minute = DateTimeField()
    route_id = TextField()
    rule_id = TextField()
    requests = BigIntegerField(default=0)

    class Meta:
        indexes = [Index(fields=["minute"], name="rule_minute_at")]


class JournalMark(Model):
    """All ends 1..`mark` of a journal are in the ledger, and so are the ranges `ahead` of it.

    If this ledger was put back to an older copy, `reached` is how far the one before had the
    journal and `missing` how many of those ends this one lacks. What the journal has let go of
    stays missing; the mark passes over it. `recorded` counts the rows this ledger has of it,
    `set_aside` what could not be recorded, `skipped` what the journal let go of: what is committed
    is one of these.
    """

    journal = TextField(primary_key=True)
    mark = BigIntegerField(default=0)
    ahead = JSONField(default=list)
    reached = BigIntegerField(default=0)
    missing = BigIntegerField(default=0)
    recorded = BigIntegerField(default=0)
    set_aside = BigIntegerField(default=0)
    skipped = BigIntegerField(default=0)
    updated_at = DateTimeField()

    def __str__(self) -> str:
        return f"{self.journal}:{self.mark}"


class LedgerCheck(Model):
    """The last comparison of one pair of books.

    `since` and `until` bound what was compared. Each of `differences` names the books, where they
    differ, and the two figures. `detail` says why nothing could be compared, "" if it could.
    """

    name = TextField(primary_key=True)
    checked_at = DateTimeField()
    since = DateTimeField(null=True)
    until = DateTimeField(null=True)
    differences = JSONField(default=list)
    detail = TextField(default="")

    def __str__(self) -> str:
        return self.name


class PoisonRecord(Model):
    """A stream entry that could not be recorded, set aside whole for a person to look at."""

    id = BigAutoField(primary_key=True)
    digest = TextField(unique=True)
    stream_id = TextField()
    raw = BinaryField()
    error = TextField()
    at = DateTimeField()

    def __str__(self) -> str:
        return self.stream_id
