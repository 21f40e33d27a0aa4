"""The question of the usage page: what its address says, and the controls to change it."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

from django.core.validators import MaxValueValidator, MinValueValidator
from django.forms import CharField, ChoiceField, DateTimeField, Form, HiddenInput
from django.http import QueryDict

from controlplane.selectors.usage_queries import (
    DAILY_GROUPS,
    GROUPS,
    Bucket,
    Measure,
    Range,
    UsageQuery,
    ends_of,
)

RANGES = {
    Range.HOURS: "24 hours",
    Range.WEEK: "7 days",
    Range.MONTH: "30 days",
    Range.MONTH_TO_DATE: "Month to date",
    Range.LAST_MONTH: "Last month",
}
MEASURES = {Measure.REQUESTS: "Requests", Measure.TOKENS: "Tokens", Measure.COST: "Cost"}
TOPS = (4, 7, 20, 50)
SHOWN = ("group_by", "measure", "bucket", "top", "from", "to")

_HOURS_UP_TO_S = 2 * 86_400
_TIME_BOUNDS = [
    MinValueValidator(datetime(1970, 1, 2, tzinfo=UTC)),
    MaxValueValidator(datetime(2500, 1, 1, tzinfo=UTC)),
]


class UsageForm(Form):
    """One question. Everything has a default, so an address without parameters is one too.

    A range by name and one by its ends exclude each other; the ends win.
    """

    range = ChoiceField(
        choices=[(one.value, words) for one, words in RANGES.items()],
        required=False,
        widget=HiddenInput,
    )
    group_by = ChoiceField(
        label="By",
        choices=[("none", "nothing"), *((one, one.replace("_", " ")) for one in GROUPS)],
        required=False,
    )
    measure = ChoiceField(
        label="Chart and rank by",
        choices=[(one.value, words) for one, words in MEASURES.items()],
        required=False,
    )
    bucket = ChoiceField(
        label="Buckets",
        choices=[("", "to fit the range"), ("hour", "hours"), ("day", "days")],
        required=False,
    )
    top = ChoiceField(
        label="Groups", choices=[(str(one), f"top {one} and Other") for one in TOPS], required=False
    )

    def __init__(self, asked: QueryDict, *, group_by: str, named: Range) -> None:
        usual = {"group_by": group_by, "measure": Measure.REQUESTS.value, "top": str(TOPS[1])}
        super().__init__({**usual, **{name: one for name, one in asked.items() if one}})
        self._named = named
        self.fields["from"] = DateTimeField(label="From", required=False, validators=_TIME_BOUNDS)
        self.fields["to"] = DateTimeField(
            label="To, not included", required=False, validators=_TIME_BOUNDS
        )
        self.fields["organisation"] = CharField(required=False, widget=HiddenInput)

    @property
    def named(self) -> Range | None:
        """The range by its name, None for one by its ends."""
        values = self.cleaned_data
        if values.get("from") or values.get("to"):
            return None
        return Range(values["range"]) if values.get("range") else self._named

    def question(self, now: datetime, zone: ZoneInfo) -> UsageQuery:
        """The valid question with its defaults filled in; `zone` is the organisation's."""
        values = self.cleaned_data
        group_by = None if values["group_by"] == "none" else values["group_by"]
        since, until = self._ends(now, zone)
        return UsageQuery(
            since=since,
            until=until,
            bucket=self._bucket(group_by, (until - since).total_seconds()),
            group_by=group_by,
            top=int(values["top"]),
            measure=Measure(values["measure"]),
        )

    def _ends(self, now: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
        if self.named is not None:
            return ends_of(self.named, now, zone)
        values = self.cleaned_data
        until = (values.get("to") or now).astimezone(UTC)
        since = values.get("from")
        if since is None:
            since = ends_of(Range.WEEK, until, zone)[0]
        return since.astimezone(UTC), until

    def _bucket(self, group_by: str | None, span_s: float) -> Bucket:
        asked = self.cleaned_data["bucket"]
        if asked:
            return Bucket(asked)
        is_short = span_s <= _HOURS_UP_TO_S and group_by not in DAILY_GROUPS
        return Bucket.HOUR if is_short else Bucket.DAY
