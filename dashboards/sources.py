"""Where the figures of live pages come from: the addresses their tiles lead to."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse

from controlplane.selectors.live import WINDOWS
from controlplane.selectors.request_filters import SPANS
from controlplane.selectors.usage_queries import Measure, Range
from dashboards.kinds import Page, Source

_LEADS_TO = {
    Source.REQUESTS: "Open requests",
    Source.FAILURES: "Open failed requests",
    Source.TOKENS: "Open usage in tokens",
    Source.COST: "Open usage by cost",
    Source.MONTH: "Open the month's usage by cost",
    Source.WORKERS: "Open workers",
    Source.CACHES: "Open savings of caches",
}


@dataclass(frozen=True, slots=True)
class Link:
    """An address, and what it opens."""

    url: str
    words: str


@dataclass(frozen=True, slots=True)
class Origin:
    """What a live page is about; `subject_id` is the pool or route it is of, "" on the overview,
    `until` None while it is live."""

    page: Page
    organisation_id: str
    subject_id: str
    window: str
    until: datetime | None

    def link(self, source: Source) -> Link:
        """Where a figure comes from, in the page's organisation, subject and window."""
        path, asked = self._address(source)
        query = urlencode({**asked, "organisation": self.organisation_id})
        return Link(f"{path}?{query}", _LEADS_TO[source])

    def _address(self, source: Source) -> tuple[str, Mapping[str, str]]:
        match source:
            case Source.REQUESTS:
                return reverse("requests"), {**self._subject(), **self._time()}
            case Source.FAILURES:
                failed = {"failed": "true"}
                return reverse("requests"), {**failed, **self._subject(), **self._time()}
            case Source.TOKENS:
                return self._usage(Measure.TOKENS, Range.HOURS)
            case Source.COST:
                return self._usage(Measure.COST, Range.HOURS)
            case Source.MONTH:
                return self._usage(Measure.COST, Range.MONTH_TO_DATE)
            case Source.CACHES:
                return reverse("cache-savings"), {}
            case Source.WORKERS if self.page is Page.POOL:
                return reverse("pool", args=[self.subject_id]), {"tab": "replicas"}
            case Source.WORKERS:
                return reverse("pools"), {}

    def _usage(self, measure: Measure, named: Range) -> tuple[str, Mapping[str, str]]:
        by = {"group_by": self.page.value} if self.subject_id else {}
        return reverse("usage"), {"measure": measure.value, "range": named.value, **by}

    def _subject(self) -> Mapping[str, str]:
        return {self.page.value: self.subject_id} if self.subject_id else {}

    def _time(self) -> Mapping[str, str]:
        """The page's window, or the shortest span requests are offered that holds it."""
        length = timedelta(seconds=WINDOWS[self.window][0])
        if self.until is not None:
            return {
                "from": (self.until - length).isoformat(),
                "to": self.until.isoformat(),
            }
        return {"last": next(name for name, span in SPANS.items() if span >= length)}
