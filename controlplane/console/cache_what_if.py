"""What a cache policy would have done in the last day, in words and rows."""

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils import timezone

from controlplane.console.formats import NO_PRICE, UNKNOWN, about_dollars, count, minute, share
from controlplane.console.reviews import Check, Reach
from controlplane.console.scope import Scope
from controlplane.decisions.cache_what_if import WouldHave
from controlplane.decisions.caches import SCOPE_WORDS, seconds_words
from controlplane.models import CachePolicy
from controlplane.selectors.cache_what_if import MOST, Tried, WhatIf, try_policy

UNKNOWABLE = (
    "Counted are exact repeats that came after the first had ended: no hits by meaning, none of "
    "requests under way at once, and memory is taken to suffice."
)


def reach_of_draft(scope: Scope, row: CachePolicy, values: Mapping[str, Any]) -> Sequence[Reach]:
    """What these values would have served, beside what was served, for a review."""
    if not scope.access.reads_organisation(scope.organisation.pk):
        return ()
    told = try_policy(
        scope.access, row, timezone.now(), ttl_s=values["ttl_s"], scope=values["scope"]
    )
    if not told.now.asked:
        return (Reach("Last 24 h", "nothing that it bore on has an id: nobody knows what repeats"),)
    draft = would_words(told.draft)
    if told.draft is None:
        draft = "not known: ids tell apart who is apart now"
    return (
        Reach("Served, last 24 h", would_words(told.now)),
        Reach("Would have served", draft),
    )


def would_words(one: WouldHave | None) -> str:
    """`34.0 % of 12,300 requests, $1.20`; what has no price is in no sum."""
    if one is None:
        return "not known"
    if not one.asked:
        return "no requests"
    return f"{share(one.served, one.asked)} % of {count(one.asked)} requests, {saved(one)}"


def saved(one: WouldHave) -> str:
    """Dollars; a dash where nothing would be served, "no price" where nobody knows."""
    if not one.served:
        return UNKNOWN
    return NO_PRICE if one.saved_nanousd is None else about_dollars(one.saved_nanousd)


def what_if_context(scope: Scope, row: CachePolicy) -> Mapping[str, Any]:
    """The tab: a row a time, a column a scope; and what it can't know."""
    told = try_policy(scope.access, row, timezone.now())
    scopes = list(dict.fromkeys(one.scope for one in told.tried))
    times = list(dict.fromkeys(one.ttl_s for one in told.tried))
    cells = {(one.ttl_s, one.scope): one for one in told.tried}
    return {
        "has_past": told.now.asked > 0,
        "in_fact": would_words(told.now),
        "heads": [SCOPE_WORDS[one] for one in scopes],
        "lines": [
            {
                "label": "as the policy says" if ttl is None else seconds_words(ttl),
                "cells": [
                    _cell(
                        cells[ttl, one], SCOPE_WORDS[one], is_now=ttl is None and one == row.scope
                    )
                    for one in scopes
                ],
            }
            for ttl in times
        ],
        "notes": [check.words for check in notes_of(scope, told)],
    }


def _cell(one: Tried, label: str, *, is_now: bool) -> Mapping[str, Any]:
    told = one.would_have
    if told is None:
        return {"label": label, "rate": "not known", "more": "", "is_now": False}
    rate = f"{share(told.served, told.asked)} %" if told.asked else UNKNOWN
    kept = f"{count(told.prompt_tokens + told.completion_tokens)} tokens"
    return {"label": label, "rate": rate, "more": f"{saved(told)}, {kept}", "is_now": is_now}


def notes_of(scope: Scope, told: WhatIf) -> Sequence[Check]:
    """What a reader has to know of the figures."""
    found = [Check("info", UNKNOWABLE)]
    if told.is_part:
        since = minute(told.since, scope.zone)
        found.append(
            Check("info", f"Only the newest {count(MOST)} were gone through, since {since}.")
        )
    if told.without_id:
        words = f"{count(told.without_id)} more have no id and can't be judged."
        found.append(Check("info", words))
    if told.now.unknown_saved:
        found.append(Check("info", "What has no price is in no sum."))
    return found
