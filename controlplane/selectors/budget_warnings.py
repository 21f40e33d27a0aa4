"""The accounts of budgets that are nearly used up and count for somebody."""

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import reduce
from operator import or_

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from controlplane.decisions.budget_warnings import WARNS_AT_PERCENT
from controlplane.decisions.budgets import plain_amount
from controlplane.models import Budget, BudgetAccount, Key, Organisation, Project, Team
from controlplane.selectors.access import Access
from controlplane.selectors.budget_windows import accounts_in, told
from controlplane.selectors.budgets import ledger_id, list_budgets
from controlplane.selectors.keys import list_keys
from controlplane.selectors.projects import list_projects
from inference.contract.kinds import BudgetSubject
from inference.contract.snapshot import BudgetRecord
from inference.decisions.budgets import acts_from, window_of
from inference.decisions.rules import zone_of

Chain = Mapping[str, Collection[str]]
"""Whom requests are counted for, by subject: ids as rows have them."""

MOST_WARNINGS = 5
MOST_KEYS = 1_000
"""Of somebody's own keys so many are asked about."""

_ANY = (BudgetSubject.MODEL.value, BudgetSubject.ROUTE.value)


def chain_of(row: Organisation | Team | Project | Key) -> Chain:
    """Whom the requests of a key, or of all keys of a project, a team or an organisation, count
    for."""
    if isinstance(row, Organisation):
        return {"organisation": [row.pk]}
    if isinstance(row, Project):
        return {**_above(row.organisation_id, row.team_id), "project": [row.pk]}
    if isinstance(row, Key):
        above = _above(row.organisation_id, row.project.team_id)
        return {**above, "project": [row.project_id], "key": [row.pk]}
    return _above(row.organisation_id, row.pk)


def _above(organisation_id: str, team_id: str) -> Chain:
    return {"organisation": [organisation_id], "team": [team_id]}


def chain_of_reader(access: Access, organisation: Organisation) -> Chain:
    """Whom the requests of all keys count for that the reader's roles reach."""
    projects = list(list_projects(access).filter(organisation=organisation))
    keys = list_keys(access).filter(organisation=organisation, revoked_at__isnull=True)
    return {
        "organisation": [organisation.pk],
        "team": sorted({one.team_id for one in projects} | access.team_ids(organisation.pk)),
        "project": [one.pk for one in projects],
        "key": list(keys.order_by("pk").values_list("pk", flat=True)[:MOST_KEYS]),
    }


Warned = tuple[Budget, BudgetRecord, BudgetAccount, datetime]
"""A budget with its record, an account, and when that starts anew or gives way next."""


def list_binding(access: Access, organisation: Organisation) -> Sequence[Budget]:
    """The budgets of an organisation that are on, as far as the reader knows of them."""
    return list(list_budgets(access).filter(organisation=organisation, is_enabled=True))


def list_warned(
    budgets: Sequence[tuple[Budget, BudgetRecord]],
    organisation: Organisation,
    chain: Chain,
    now: datetime,
) -> Sequence[Warned]:
    """The accounts of budgets near their amounts that these requests count on, the fullest first.

    Those of end users and tags are left out, for nobody knows whose requests are of them; of models
    and routes all are told.
    """
    zone, at_s = zone_of(organisation.time_zone), now.timestamp()
    found: list[Warned] = []
    calendar: list[tuple[Budget, BudgetRecord, datetime]] = []
    wanted: list[Q] = []
    for budget, record in budgets:
        places = _places(budget, chain)
        if places is None:
            continue
        window = window_of(record, zone, at_s)
        ends = datetime.fromtimestamp(window.ends_s, UTC)
        least = _least(record, at_s)
        if least == 0:
            found.append((budget, record, BudgetAccount(key="", subjects=[]), ends))
        elif record.is_rolling:
            rows = accounts_in(budget, window).filter(places, spent__gte=least)
            some = rows.order_by("-spent", "key")[:MOST_WARNINGS]
            found += [(budget, record, told(row), ends) for row in some]
        else:
            begin = datetime.fromtimestamp(window.starts_s, UTC)
            mine = Q(budget_id=budget.pk, starts_at=begin, spent_nanousd__gte=least)
            wanted.append(mine & places)
            calendar.append((budget, record, ends))
    return _fullest(found + _of_calendar(calendar, wanted), at_s)


def _of_calendar(
    budgets: Sequence[tuple[Budget, BudgetRecord, datetime]], wanted: Sequence[Q]
) -> list[Warned]:
    if not wanted:
        return []
    # of each budget the fullest: many accounts of a large one would crowd out one of a small one
    place = Window(
        RowNumber(), partition_by=F("budget_id"), order_by=[F("spent_nanousd").desc(), F("key")]
    )
    rows = BudgetAccount.objects.filter(reduce(or_, wanted)).annotate(place=place)
    known = {budget.pk: (budget, record, ends) for budget, record, ends in budgets}
    found = []
    for row in rows.filter(place__lte=MOST_WARNINGS):
        budget, record, ends = known[row.budget_id]
        found.append((budget, record, row, ends))
    return found


def _fullest(found: list[Warned], at_s: float) -> Sequence[Warned]:
    def fullness(one: Warned) -> float:
        amount = plain_amount(one[1], at_s)
        return -(one[2].spent_nanousd / amount if amount else float("inf"))

    return sorted(found, key=lambda one: (fullness(one), one[0].name))


def _least(record: BudgetRecord, at_s: float) -> int:
    """So much is spent of what is warned of."""
    near = -(-plain_amount(record, at_s) * WARNS_AT_PERCENT // 100)
    begins = acts_from(record, at_s)
    return near if begins is None else min(near, begins)


def _places(budget: Budget, chain: Chain) -> Q | None:
    """Which accounts of a budget are of these; None if none can be."""
    found = Q()
    for place, scope in enumerate(budget.scopes):
        subject, subject_id = scope["subject"], scope["subject_id"]
        if subject in _ANY:
            continue
        ids = chain.get(subject)
        if ids is None or (subject_id is not None and subject_id not in ids):
            if not (subject == BudgetSubject.ORGANISATION and ids):
                return None
            continue
        if subject_id is None and subject != BudgetSubject.ORGANISATION:
            own = sorted(ledger_id(subject, one) for one in ids)
            found &= Q(**{f"subjects__{place}__in": own})
    return found
