"""The one set of filters of the ledger: page and API read the same parameters alike."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from django.core.validators import (
    MaxValueValidator,
    MinValueValidator,
    ProhibitNullCharactersValidator,
)
from django.db.models import Q, QuerySet
from django.utils import timezone
from django_filters import CharFilter, ChoiceFilter, FilterSet, IsoDateTimeFilter, NumberFilter

from controlplane.models import Request
from controlplane.models.kinds import choices_of
from controlplane.selectors.requests import within
from inference.contract.kinds import (
    CacheOutcome,
    Endpoint,
    Outcome,
    PriorityClass,
    RefusalReason,
    TaskClass,
)
from inference.decisions.outcomes import FIRST_OF_CALLER, LAST_OF_CALLER, REASONS

SPANS: Mapping[str, timedelta] = {
    "15m": timedelta(minutes=15),
    "1h": timedelta(hours=1),
    "6h": timedelta(hours=6),
    "24h": timedelta(days=1),
    "7d": timedelta(days=7),
    "30d": timedelta(days=30),
}
_SPAN_LABELS = {
    "15m": "Last 15 minutes",
    "1h": "Last hour",
    "6h": "Last 6 hours",
    "24h": "Last 24 hours",
    "7d": "Last 7 days",
    "30d": "Last 30 days",
}
REASON_WORDS: Mapping[RefusalReason, str] = {
    RefusalReason.BUDGET: "a budget",
    RefusalReason.LIMIT: "a limit",
    RefusalReason.SWITCH: "a kill switch",
    RefusalReason.CAPACITY: "want of room",
}
EVER = "ever"
_NANO = 10**9
_MOST_DOLLARS = 9 * 10**9
_TIME_BOUNDS = [
    MinValueValidator(datetime(1970, 1, 1, tzinfo=UTC)),
    MaxValueValidator(datetime(2500, 1, 1, tzinfo=UTC)),
]
# Words of the language can't be attributes; these are what callers write.
_PARAMETERS = {"since": "from", "until": "to"}


class TextFilter(CharFilter):
    """A text of a length that a column can hold; what PostgreSQL can't store is refused."""

    def __init__(self, **options: Any) -> None:
        validators = [ProhibitNullCharactersValidator()]
        super().__init__(max_length=500, validators=validators, **options)


class RequestFilters(FilterSet):
    """Which requests. Times are half-open: `from` is in, `to` is out."""

    last = ChoiceFilter(
        label="Time",
        choices=[*((span, _SPAN_LABELS[span]) for span in SPANS), (EVER, "Any time")],
        empty_label=None,
        method="filter_last",
        help_text="Ended within this long before now; `ever` is the same as none.",
    )
    outcome = ChoiceFilter(
        label="Outcome",
        choices=[(one.value, one.value.replace("_", " ")) for one in Outcome],
        empty_label="Any outcome",
        help_text="How the request ended.",
    )
    failed = ChoiceFilter(
        label="Failed",
        choices=[("true", "failed"), ("false", "not failed")],
        empty_label="Either",
        method="filter_failed",
        help_text="`true`: failed by us or a worker, as error rates count; `false`: all others.",
    )
    reason = ChoiceFilter(
        label="Refused by",
        choices=[(one.value, words) for one, words in REASON_WORDS.items()],
        empty_label="Anything",
        method="filter_reason",
        help_text="Why it was turned away: a budget, a limit, a kill switch, or no room.",
    )
    endpoint = ChoiceFilter(
        label="Endpoint",
        choices=[(one.value, one.value) for one in Endpoint],
        empty_label="Any endpoint",
        help_text="The endpoint it came in by.",
    )
    route = TextFilter(
        label="Route", method="filter_route", help_text="Name or id of the route, exactly."
    )
    pool = TextFilter(
        label="Pool", method="filter_pool", help_text="Name or id of the last attempt's pool."
    )
    model = TextFilter(
        label="Model",
        method="filter_model",
        help_text="Name or id of the model that served, or the name that was asked for.",
    )
    project = TextFilter(label="Project", field_name="project_id", help_text="Id of the project.")
    key = TextFilter(label="Key", method="filter_key", help_text="Id of the key, never its secret.")
    min_cost = NumberFilter(
        label="Cost from, USD",
        method="filter_min_cost",
        decimal_places=9,
        max_value=_MOST_DOLLARS,
        validators=[MinValueValidator(0)],
        help_text="Booked cost of at least so many US dollars; leaves out what has no price.",
    )
    end_user = TextFilter(label="End user", help_text="Whom the caller named, exactly.")
    tag = TextFilter(
        label="Tag", method="filter_tag", help_text="One of the key's or the caller's tags."
    )
    priority = ChoiceFilter(
        label="Class",
        choices=choices_of(PriorityClass),
        empty_label="Any class",
        help_text="The class it had.",
    )
    task = ChoiceFilter(
        label="Task", choices=choices_of(TaskClass), empty_label="Any task", help_text="Its task."
    )
    rule = TextFilter(
        label="Rule", field_name="rule_id", help_text="Id of the route's rule that decided."
    )
    cache = ChoiceFilter(
        label="Cache",
        choices=choices_of(CacheOutcome),
        empty_label="Any",
        field_name="cache__outcome",
        help_text="What a cache did for it.",
    )
    entry = TextFilter(
        label="Cache entry", field_name="cache__entry_id", help_text="Id of an entry of a cache."
    )
    since = IsoDateTimeFilter(
        label="From",
        method="filter_since",
        validators=_TIME_BOUNDS,
        help_text="Ended at or after this time.",
    )
    until = IsoDateTimeFilter(
        label="To",
        method="filter_until",
        validators=_TIME_BOUNDS,
        help_text="Ended before this time.",
    )
    id = TextFilter(
        label="Request id",
        method="filter_id",
        help_text="Our id of the request, or the one its caller gave it.",
    )

    class Meta:
        model = Request
        fields: list[str] = []

    @classmethod
    def get_filters(cls) -> dict[str, Any]:
        """The filters by the names callers write."""
        found = super().get_filters()
        return {_PARAMETERS.get(name, name): one for name, one in found.items()}

    def filter_last(self, requests: QuerySet[Request], name: str, value: str) -> QuerySet[Request]:
        if value == EVER:
            return requests
        return within(requests, since=timezone.now() - SPANS[value])

    def filter_failed(
        self, requests: QuerySet[Request], name: str, value: str
    ) -> QuerySet[Request]:
        by_caller = Q(http_status__range=(FIRST_OF_CALLER, LAST_OF_CALLER))
        failed = Q(outcome__in=(Outcome.ERROR, Outcome.REFUSED)) & ~by_caller
        failed |= Q(outcome=Outcome.LOST_GATEWAY)
        return requests.filter(failed if value == "true" else ~failed)

    def filter_reason(
        self, requests: QuerySet[Request], name: str, value: str
    ) -> QuerySet[Request]:
        codes = sorted(one.value for one in REASONS[RefusalReason(value)])
        return requests.filter(error_code__in=codes)

    def filter_route(self, requests: QuerySet[Request], name: str, value: str) -> QuerySet[Request]:
        return requests.filter(Q(route_id=value) | Q(route_name=value))

    def filter_pool(self, requests: QuerySet[Request], name: str, value: str) -> QuerySet[Request]:
        return requests.filter(Q(pool_id=value) | Q(pool_name=value))

    def filter_model(self, requests: QuerySet[Request], name: str, value: str) -> QuerySet[Request]:
        return requests.filter(Q(model_id=value) | Q(model_name=value) | Q(requested_model=value))

    def filter_key(self, requests: QuerySet[Request], name: str, value: str) -> QuerySet[Request]:
        key_id = value.removeprefix("key_").removeprefix("hw_").partition(".")[0]
        return requests.filter(key_id=key_id)

    def filter_tag(self, requests: QuerySet[Request], name: str, value: str) -> QuerySet[Request]:
        return requests.filter(tags__contains=[value])

    def filter_min_cost(
        self, requests: QuerySet[Request], name: str, value: Decimal
    ) -> QuerySet[Request]:
        return requests.filter(cost_nanousd__gte=int(value * _NANO))

    def filter_since(self, requests: QuerySet[Request], name: str, value: Any) -> QuerySet[Request]:
        return within(requests, since=value)

    def filter_until(self, requests: QuerySet[Request], name: str, value: Any) -> QuerySet[Request]:
        return within(requests, until=value)

    def filter_id(self, requests: QuerySet[Request], name: str, value: str) -> QuerySet[Request]:
        return requests.filter(Q(event_id=value) | Q(client_request_id=value))
