"""Banners about budgets on the pages of what they count for."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from controlplane.bridge.budget_warnings import read_warnings
from controlplane.console.formats import minute
from controlplane.console.nouns import BUDGETS
from controlplane.console.scope import Scope
from controlplane.decisions.budget_warnings import BudgetWarning, advice_words, warning_words
from controlplane.selectors.budget_warnings import Chain


@dataclass(frozen=True, slots=True)
class Notice:
    """One banner: `tone` is `crit` where requests are refused, else `warn`."""

    tone: str
    words: str
    advice: str
    url: str


def notices_of(scope: Scope, chain: Chain, now: datetime) -> Sequence[Notice]:
    """The banners of a page about these."""
    told = read_warnings(scope.access, scope.organisation, chain, now)
    may_raise = scope.access.may_write(BUDGETS.key, scope.organisation.pk)
    return [_notice(one, scope, may_raise=may_raise) for one in told]


def _notice(one: BudgetWarning, scope: Scope, *, may_raise: bool) -> Notice:
    return Notice(
        tone="crit" if one.is_grave else "warn",
        words=warning_words(one, minute(one.ends_at, scope.zone)),
        advice=advice_words(one, may_raise=may_raise),
        url=BUDGETS.detail_url(one.budget_id),
    )
