"""The past that a cache policy is tried out on: requests it bore on, by ids of what was asked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from django.db.models import QuerySet

from controlplane.decisions.cache_rollups import SERVED
from controlplane.decisions.cache_what_if import SCOPES, Seen, Ttl, WouldHave, is_known, would_have
from controlplane.models import CachePolicy, Request
from controlplane.selectors.access import Access
from controlplane.selectors.requests import within
from inference.contract.kinds import Outcome

LOOKED_BACK = timedelta(days=1)
MOST = 50_000
"""So many requests are gone through in about a second; of more the newest are taken."""

TTLS_S = (60, 300, 3_600, 86_400)
"""Times that are tried for all classes of task alike."""

_COLUMNS = (
    *("received_at", "at", "key_id", "project_id", "team_id", "task", "outcome", "total_ms"),
    *("prompt_tokens", "completion_tokens", "cost_nanousd", "cache"),
)


@dataclass(frozen=True, slots=True)
class Tried:
    """A time and a scope, and what they would have done; None where ids can't tell."""

    ttl_s: int | None
    scope: str
    would_have: WouldHave | None


@dataclass(frozen=True, slots=True)
class WhatIf:
    """What came of it. `without_id` asked for what gateways gave no id: it can't be judged.

    `since` is when the oldest request came that was gone through; `is_part` tells that there were
    more. `now` is what was served in fact, `draft` what the values that were asked about would do.
    """

    since: datetime
    is_part: bool
    without_id: int
    now: WouldHave
    draft: WouldHave | None
    tried: Sequence[Tried]


def try_policy(
    access: Access,
    policy: CachePolicy,
    now: datetime,
    *,
    ttl_s: Ttl | None = None,
    scope: str | None = None,
) -> WhatIf:
    """Try a policy's times and scope, or these, on what it bore on in the last day.

    It is everybody's traffic, so it is for roles of the whole organisation.
    """
    rows = list(_rows(access, policy, now)[: MOST + 1])
    is_part = len(rows) > MOST
    rows = rows[:MOST]
    seen = [one for row in rows if (one := _seen(row)) is not None]
    wanted, times = scope or policy.scope, ttl_s or policy.ttl_s
    found: dict[tuple[int | None, str], WouldHave | None] = {}
    for one in SCOPES[:-1]:
        for ttl in (None, *TTLS_S):
            asked = policy.ttl_s if ttl is None else {"default": ttl}
            is_told = is_known(policy.scope, one.value)
            found[ttl, one.value] = would_have(seen, asked, one.value) if is_told else None
    return WhatIf(
        since=rows[-1]["received_at"] if is_part else now - LOOKED_BACK,
        is_part=is_part,
        without_id=len(rows) - len(seen),
        now=_in_fact(seen),
        draft=would_have(seen, times, wanted) if is_known(policy.scope, wanted) else None,
        tried=[Tried(ttl, one, told) for (ttl, one), told in found.items()],
    )


def _rows(access: Access, policy: CachePolicy, now: datetime) -> QuerySet[Request, Any]:
    rows = Request.objects.filter(
        organisation_id=policy.organisation_id, cache__policy_id=policy.pk
    )
    rows = within(access.visible_organisation_wide(rows), since=now - LOOKED_BACK)
    return rows.order_by("-at", "-event_id").values(*_COLUMNS)


def _seen(row: Mapping[str, Any]) -> Seen | None:
    use = row["cache"]
    if not use.get("entry_id"):
        return None
    was_served = use["outcome"] in SERVED
    saved = {
        "nanousd": use.get("saved_nanousd"),
        "prompt_tokens": use.get("saved_prompt_tokens") or 0,
        "completion_tokens": use.get("saved_completion_tokens") or 0,
        "ms": use.get("saved_ms") or 0.0,
    }
    told = Seen(
        received_s=row["received_at"].timestamp(),
        ended_s=row["at"].timestamp(),
        entry_id=use["entry_id"],
        key_id=row["key_id"],
        project_id=row["project_id"],
        team_id=row["team_id"],
        task=row["task"],
        is_ok=row["outcome"] == Outcome.OK,
        was_served=was_served,
        nanousd=row["cost_nanousd"],
        prompt_tokens=row["prompt_tokens"] or 0,
        completion_tokens=row["completion_tokens"] or 0,
        ms=row["total_ms"],
    )
    return replace(told, **saved) if was_served else told


def _in_fact(seen: Sequence[Seen]) -> WouldHave:
    served = [one for one in seen if one.was_served]
    return WouldHave(
        asked=len(seen),
        served=len(served),
        prompt_tokens=sum(one.prompt_tokens for one in served),
        completion_tokens=sum(one.completion_tokens for one in served),
        nanousd=sum(one.nanousd or 0 for one in served),
        unknown_saved=sum(one.nanousd is None for one in served),
        ms=sum(one.ms for one in served),
    )
