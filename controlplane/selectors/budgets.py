"""Budgets as a caller may see them, and what the ledger has of their accounts."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db.models import Count, OuterRef, Q, QuerySet, Sum
from django.db.models.fields.json import KT

from controlplane.decisions.budgets import Bucket
from controlplane.models import (
    Budget,
    BudgetAccount,
    BudgetBucket,
    BudgetCorrection,
    BudgetCount,
    BudgetUpkeep,
    Key,
    Project,
)
from controlplane.models.keys import key_pk
from controlplane.selectors.access import Access
from controlplane.selectors.budget_windows import accounts_in, told
from controlplane.selectors.names import list_names
from inference.contract.kinds import BudgetAction, BudgetSubject
from inference.contract.params import MAX_BUDGET_SCOPES
from inference.decisions.budgets import Period

_SHARED = (
    BudgetSubject.ORGANISATION.value,
    BudgetSubject.MODEL.value,
    BudgetSubject.ROUTE.value,
)
OF_CALLERS = (BudgetSubject.END_USER.value, BudgetSubject.TAG.value)


def list_budgets(access: Access) -> QuerySet[Budget]:
    """Budgets the caller reads all of, or that bind what his roles reach, as limits do."""
    rows = Budget.objects.all()
    if access.is_platform_admin:
        return rows
    reached = Q()
    for place in range(MAX_BUDGET_SCOPES):
        rows = rows.alias(
            **{
                f"subject_{place}": KT(f"scopes__{place}__subject"),
                f"id_{place}": KT(f"scopes__{place}__subject_id"),
            }
        )
        reached &= _reaches(access, f"subject_{place}", f"id_{place}")
    whole = Q(organisation_id__in=sorted(access.roles))
    return access.visible(rows).filter(whole | reached)


def _reaches(access: Access, subject: str, subject_id: str) -> Q:
    """Whether the scope at this place is shared, one of each, or about what the roles reach."""
    found = Q(**{f"{subject}__isnull": True}) | Q(**{f"{subject}__in": _SHARED})
    found |= Q(**{f"{subject_id}__isnull": True})
    projects, teams = sorted(access.project_ids()), sorted(access.team_ids())
    if projects:
        above = Project.objects.filter(pk__in=projects).values("team_id")
        keys = Key.objects.filter(project_id__in=projects).values("pk")
        for kind, ids in (("project", projects), ("team", above), ("key", keys)):
            found |= Q(**{subject: kind, f"{subject_id}__in": ids})
    if teams:
        found |= Q(**{subject: "team", f"{subject_id}__in": teams})
    return found


def about_key(rows: QuerySet[Budget], key: str) -> QuerySet[Budget]:
    """Budgets that may bear on requests of a key, by its id or name: no scope leaves it out.

    Those of end users, tags, models and routes bear on requests that are of them. A key that isn't
    there is bound by what is about each, so nothing tells whether it is.
    """
    keys = Key.objects.filter(Q(pk=key) | Q(name=key), organisation_id=OuterRef("organisation_id"))
    places = {"key": "pk", "project": "project_id", "team": "project__team_id"}
    fits = Q()
    for place in range(MAX_BUDGET_SCOPES):
        subject, subject_id = f"asked_{place}", f"asked_id_{place}"
        rows = rows.alias(
            **{
                subject: KT(f"scopes__{place}__subject"),
                subject_id: KT(f"scopes__{place}__subject_id"),
            }
        )
        wanted = Q(**{f"{subject}__isnull": True}) | Q(**{f"{subject_id}__isnull": True})
        wanted |= Q(**{f"{subject}__in": (*_SHARED, *OF_CALLERS)})
        for kind, field in places.items():
            wanted |= Q(**{subject: kind, f"{subject_id}__in": keys.values(field)})
        fits &= wanted
    return rows.filter(fits)


def list_scope_names(access: Access, rows: Iterable[Any]) -> Mapping[str, str]:
    """The names of what these budgets are about, by id; one of callers' is its own."""
    ids: set[str] = set()
    own: set[str] = set()
    for row in rows:
        for one in row.scopes:
            if one["subject_id"] is not None:
                (own if one["subject"] in OF_CALLERS else ids).add(one["subject_id"])
    return {**list_names(access, ids), **{name: name for name in own}}


def ledger_id(subject: str, subject_id: str) -> str:
    """A subject as gateways and ledger know it, by the id its row has here: keys have no prefix."""
    return subject_id.partition("_")[2] if subject == BudgetSubject.KEY else subject_id


def row_id(subject: str, ledgers: str) -> str:
    """The id the row of a subject has here, by the one in the ledger."""
    return key_pk(ledgers) if subject == BudgetSubject.KEY else ledgers


@dataclass(frozen=True, slots=True)
class Totals:
    """All accounts of a budget in one period."""

    accounts: int
    spent_nanousd: int
    attempts: int
    unknown_cost: int


def get_totals(budget: Budget, period: Period) -> Totals:
    """What all accounts of a budget had in a period, or have in a window; of one that rolls, the
    attempts are all that were counted.
    """
    found = accounts_in(budget, period).aggregate(
        accounts=Count("key"),
        total=Sum("spent"),
        tried=Sum("attempts"),
        unknown=Sum("unknown_cost"),
    )
    return Totals(
        found["accounts"],
        int(found["total"] or 0),
        int(found["tried"] or 0),
        int(found["unknown"] or 0),
    )


def list_accounts(
    access: Access, budget: Budget, period: Period, *, top: int
) -> Sequence[BudgetAccount]:
    """The accounts that spent the most, as far as the reader may know what they spent.

    Whoever reads the whole organisation knows all. Others know of those that are of a project or
    key their roles reach, or of a team they have a role in.
    """
    rows = accounts_in(budget, period).order_by("-spent", "key")
    if access.reads_organisation(budget.organisation_id):
        return list(map(told, rows[:top]))
    known = Q()
    for place, scope in enumerate(budget.scopes):
        ids = reached_ids(access, budget.organisation_id, scope["subject"])
        if ids:
            known |= Q(**{f"subjects__{place}__in": sorted(ids)})
    return list(map(told, rows.filter(known)[:top])) if known else []


def reached_ids(access: Access, organisation_id: str, subject: str) -> Collection[str]:
    """The projects, teams or keys the caller's roles reach, as gateways and ledger know them."""
    projects = access.project_ids(organisation_id)
    if subject == BudgetSubject.PROJECT:
        return projects
    if subject == BudgetSubject.TEAM:
        return access.team_ids(organisation_id)
    if subject == BudgetSubject.KEY:
        keys = Key.objects.filter(project_id__in=projects).values_list("pk", flat=True)
        return [ledger_id(subject, pk) for pk in keys]
    return ()


def list_buckets(
    keys: Collection[str], window: Period | None = None
) -> Mapping[str, Sequence[Bucket]]:
    """What accounts had by stretch, in order of time; in a window, or ever."""
    found: dict[str, list[Bucket]] = {key: [] for key in keys}
    rows = BudgetBucket.objects.filter(key__in=list(keys)).order_by("key", "at")
    if window is not None:
        ends = (datetime.fromtimestamp(one, UTC) for one in (window.starts_s, window.ends_s))
        rows = rows.filter(at__gte=next(ends), at__lt=next(ends))
    for key, at, spent in rows.values_list("key", "at", "spent_nanousd"):
        found[key].append((int(at.timestamp()), spent))
    return found


def list_past(
    budget: Budget, period: Period, *, most: int, least_nanousd: int
) -> Sequence[tuple[int, Sequence[Bucket]]]:
    """What each account had in a period, in all and by stretch; those that spent the most.

    One that had less than `least_nanousd` is told without its stretches: of a month they are
    hundreds, and when it reached an amount is nothing to ask of it.
    """
    rows = accounts_in(budget, period).order_by("-spent")[:most]
    spent = {row.key: row.spent_nanousd for row in map(told, rows)}
    large = [key for key, amount in spent.items() if amount >= least_nanousd]
    buckets = list_buckets(large, period if budget.is_rolling else None)
    return [(amount, buckets.get(key, ())) for key, amount in spent.items()]


def list_most_spent(
    budgets: Iterable[Budget], periods: Mapping[str, Period]
) -> Mapping[str, BudgetAccount]:
    """Of each budget the account that spent the most in its period; by one query, and one each
    for those that roll.
    """
    wanted = Q()
    rolling: dict[str, BudgetAccount] = {}
    for row in budgets:
        if row.is_rolling:
            first = accounts_in(row, periods[row.pk]).order_by("-spent", "key").first()
            rolling |= {} if first is None else {row.pk: told(first)}
            continue
        begin = datetime.fromtimestamp(periods[row.pk].starts_s, UTC)
        wanted |= Q(budget_id=row.pk, starts_at=begin)
    if not wanted:
        return rolling
    rows = BudgetAccount.objects.filter(wanted).order_by("budget_id", "-spent_nanousd")
    return {**rolling, **{row.budget_id: row for row in rows.distinct("budget_id")}}


def get_counts(budget_ids: Collection[str]) -> Mapping[str, BudgetCount]:
    """How far budgets are counted, by id."""
    return BudgetCount.objects.in_bulk(list(budget_ids))


def count_budgets(*, is_blocking: bool = False) -> int:
    """How many budgets there are; or how many are on and refuse requests."""
    rows = Budget.objects.all()
    if is_blocking:
        rows = rows.filter(is_enabled=True, action=BudgetAction.BLOCK.value)
    return rows.count()


def get_upkeep() -> BudgetUpkeep | None:
    """How far the comparison of ledger and store is; None before the first."""
    return BudgetUpkeep.objects.filter(pk=1).first()


def list_corrections(budget: Budget, *, most: int) -> Sequence[BudgetCorrection]:
    """What was corrected in the counters of a budget, newest first."""
    return list(BudgetCorrection.objects.filter(budget_id=budget.pk).order_by("-at")[:most])


@dataclass(frozen=True, slots=True)
class Corrected:
    """What was corrected since a time, over all budgets."""

    corrections: int
    added_nanousd: int
    taken_nanousd: int
    last_at: datetime | None


def get_corrected(since: datetime) -> Corrected:
    """Sums of what was corrected since then; the last time is of ever.

    What new counters were told at first is no correction.
    """
    rows = BudgetCorrection.objects.exclude(why="seeded")
    found = rows.filter(at__gte=since).aggregate(
        n=Count("pk"), added=Sum("added_nanousd"), taken=Sum("taken_nanousd")
    )
    last = rows.order_by("-at").values_list("at", flat=True).first()
    return Corrected(found["n"], int(found["added"] or 0), int(found["taken"] or 0), last)
