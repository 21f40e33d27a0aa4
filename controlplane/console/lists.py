"""Lists: one noun's rows, filtered as the API filters them, sorted and paged by the database."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, ClassVar

from django.core.paginator import EmptyPage, PageNotAnInteger, Paginator
from django.db.models import QuerySet
from django.forms import Form
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django_filters import FilterSet
from django_tables2 import Column, Table

from controlplane.console.api_calls import reading
from controlplane.console.filtering import address, asked_of, chips_of, dress
from controlplane.console.formats import UNKNOWN, count
from controlplane.console.nouns import NOUNS, Noun
from controlplane.console.pages import Action, Crumb, Page
from controlplane.console.propagation import applied_context
from controlplane.console.scope import PARAMETER, Scope
from controlplane.selectors.access import Access

PAGE_SIZE = 50
COUNTED = 10_000
"""Counting further takes as long as reading it, and nobody pages so far: a filter is the way."""

SHOWN_FILTERS = 6
"""One row of controls; a list with more of them folds the rest."""

SORT, PAGE = "sort", "page"
ORDERING = "ordering"
"""What the API calls `sort`."""

NUMBER = {"th": {"class": "num"}, "td": {"class": "num"}}


class CappedPaginator(Paginator):
    """Counts up to COUNTED and no further."""

    @cached_property
    def count(self) -> int:
        rows = getattr(self.object_list.data, "data", self.object_list)
        if isinstance(rows, QuerySet):
            return int(rows.order_by()[: COUNTED + 1].count())
        return len(rows)


class NameColumn(Column):
    """The first column: the object's name, leading to its page."""

    def __init__(self, noun: Noun, label: str = "Name", **options: Any) -> None:
        options.setdefault("attrs", {"td": {"class": "nw mono"}})
        super().__init__(label, **options)
        self._noun = noun

    def render(self, value: Any, record: Any) -> SafeString:
        url = self._noun.detail_url(record.pk)
        return format_html('<a href="{}">{}</a>', url, value)


class WhenColumn(Column):
    """A time in the organisation's zone: hour and minute today, else its day."""

    def __init__(self, label: str, **options: Any) -> None:
        options.setdefault("attrs", {"td": {"class": "nw", "data-l": label}})
        super().__init__(label, **options)

    def render(self, value: datetime, table: "NounTable") -> SafeString:
        return when(value, table.scope, table.now)


def when(at: datetime, scope: Scope, now: datetime) -> SafeString:
    """A time as lists tell it, with the exact UTC time for machines."""
    local = at.astimezone(scope.zone)
    is_today = local.date() == now.astimezone(scope.zone).date()
    day = "" if is_today else f"{local.day} {local:%b %Y} "
    words = f"{day}{local:%H:%M}"
    return format_html('<time datetime="{}">{}</time>', at.isoformat(timespec="seconds"), words)


class NounTable(Table):
    """Base of the tables: sortable columns, one look, a card a row on phones.

    Give cells that shall keep their name on a card `attrs={"td": {"data-l": "Label"}}`, and class
    `opt` to what a card leaves out.
    """

    caption: ClassVar[str] = ""

    def __init__(self, data: Any, *, scope: Scope, now: datetime, **options: Any) -> None:
        options.setdefault("template_name", "components/table.html")
        options.setdefault("attrs", {"class": "tbl cards"})
        options.setdefault("default", UNKNOWN)
        options.setdefault("order_by_field", SORT)
        self.scope = scope
        self.now = now
        super().__init__(data, **options)
        rows = self.data.data
        if isinstance(rows, QuerySet):
            # ties in a fixed order, or a row shows on two pages and another on none
            self.data.data = rows.order_by(*rows.query.order_by, "pk")


@dataclass(frozen=True, slots=True)
class Empty:
    """What a list says before its first row: what these are, in a title and a sentence."""

    title: str
    words: str


class ListPage(Page):
    """The list of one noun. A subclass names noun, selector, filters, table and empty state."""

    template_name = "console/list.html"
    noun: ClassVar[Noun]
    selector: ClassVar[Callable[[Access], QuerySet[Any]]]
    filters: ClassVar[type[FilterSet]]
    table: ClassVar[type[NounTable]]
    order: ClassVar[str] = "name"
    empty: ClassVar[Empty]
    intro: ClassVar[str] = ""
    is_created_here: ClassVar[bool] = True
    hidden_filters: ClassVar[frozenset[str]] = frozenset({"organisation", "organisation_id"})
    api_place: ClassVar[str] = PARAMETER
    api_orders: ClassVar[Mapping[str, str]] = {"name": "name"}
    """Columns the API orders by too, with its words for them."""

    def rows(self) -> QuerySet[Any]:
        """All rows of the list: what the reader may see in the page's organisation."""
        found = type(self).selector(self.scope.access)
        return found.filter(organisation_id=self.scope.organisation.pk)

    def crumbs(self) -> Sequence[Crumb]:
        return (Crumb(self.noun.group), Crumb(self.noun.title))

    def actions(self) -> Sequence[Action]:
        """Buttons of the header: making one, if the reader may."""
        if not self.is_created_here or not self.may_write(self.noun.key):
            return ()
        return (Action(f"New {self.noun.one}", self.noun.create_url(), "primary", "plus"),)

    def make_table(self, rows: QuerySet[Any], now: datetime) -> NounTable:
        """The table of the filtered rows."""
        asked = self.request.GET.get(SORT, self.order)
        return self.table(rows, scope=self.scope, now=now, order_by=asked)

    def fit(self, form: Form) -> None:
        """Give filters other controls than their fields would have."""

    def extra(self, table: NounTable) -> dict[str, Any]:
        """What a template of the noun's own needs besides."""
        return {}

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show the rows of the address's filters, sort and page."""
        asked = asked_of(request.GET, self.filters)
        for name in self.hidden_filters:
            asked.pop(name, None)
        everything = self.rows()
        filters = self.filters(asked, queryset=everything)
        self.fit(filters.form)
        dress(filters.form, self.scope.zone.key)
        is_valid = filters.is_valid()
        rows = filters.qs if is_valid else everything.none()
        table = self.make_table(rows, timezone.now())
        page = _page(table, request.GET.get(PAGE, "1"))
        path = self.noun.list_url()
        context = {
            "noun": self.noun,
            "title": self.noun.title,
            "intro": self.intro,
            "table": table,
            "page": page,
            "counted": _counted(page.paginator.count, self.noun),
            "is_valid": is_valid,
            "is_unused": not asked and page.paginator.count == 0,
            "empty": self.empty,
            "actions": self.actions(),
            **self._fields(filters, asked),
            "chips": chips_of(filters, asked, path, request.GET),
            "clear": address(path, request.GET, **dict.fromkeys(asked), page=None),
            "sort": request.GET.get(SORT, ""),
            "previous": _neighbour(page, -1, path, request),
            "next": _neighbour(page, 1, path, request),
            "api": self.api_call(asked, filters.form.cleaned_data),
            **applied_context(request),
        }
        return self.render({**context, **self.extra(table)})

    def _fields(self, filters: FilterSet, asked: Any) -> dict[str, Any]:
        """The controls: the first few, and the rest folded away until one is in force."""
        shown = [one for one in filters.form if one.name not in self.hidden_filters]
        folded = shown[SHOWN_FILTERS:]
        return {
            "fields": shown[:SHOWN_FILTERS],
            "folded": folded,
            "is_more_open": any(one.name in asked for one in folded),
        }

    def api_call(self, asked: QueryDict, values: Mapping[str, Any]) -> str:
        """The REST call that lists the same: times with their offset, in the page's order."""
        told = asked.copy()
        for name, value in values.items():
            if isinstance(value, datetime) and name in told:
                told[name] = value.isoformat()
        sort = self.request.GET.get(SORT) or self.order
        ordering = self.api_orders.get(sort.removeprefix("-"))
        if ordering is not None:
            told[ORDERING] = f"-{ordering}" if sort.startswith("-") else ordering
        return reading(self.request, self.scope, self.noun.api_path(), told, place=self.api_place)


def _page(table: NounTable, number: str) -> Any:
    try:
        table.paginate(page=number, per_page=PAGE_SIZE, paginator_class=CappedPaginator)
    except (EmptyPage, PageNotAnInteger):
        table.paginate(page=1, per_page=PAGE_SIZE, paginator_class=CappedPaginator)
    return table.page


def _counted(rows: int, noun: Noun) -> str:
    """How many there are: exact, or "10,000+"."""
    if rows > COUNTED:
        return f"{count(COUNTED)}+ {noun.many}"
    return f"{count(rows)} {noun.one if rows == 1 else noun.many}"


def _neighbour(page: Any, step: int, path: str, request: HttpRequest) -> str:
    has_one = page.has_next() if step > 0 else page.has_previous()
    return address(path, request.GET, page=str(page.number + step)) if has_one else ""


def noun_of(key: str) -> Noun | None:
    """The noun of this name, if the console has pages of it."""
    return NOUNS.get(key)
