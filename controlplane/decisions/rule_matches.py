"""How many recorded requests each rule would have taken."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from controlplane.decisions.header_rules import LookedAt, known_headers, unjudged_rules
from inference.contract.kinds import PriorityClass, TaskClass
from inference.contract.snapshot import KeyRecord, RouteRecord, RuleRecord
from inference.decisions.facts import RequestFacts, Standing
from inference.decisions.rules import Circumstances, matching_rule

Row = Mapping[str, Any]

COLUMNS = (
    *("received_at", "organisation_id", "team_id", "project_id", "key_id"),
    *("requested_model", "prompt_tokens", "tags", "priority", "task"),
    *("lineage", "version", "route_id"),
)
"""What is read of a recorded request, beside `headers` of its facts."""


@dataclass(frozen=True, slots=True)
class Matches:
    """Requests by the id of the first rule they fit, None for those that fit none.

    `unjudged` are by the ids of rules that may have taken them or not, for want of a header.
    """

    taken: Counter[str | None]
    unjudged: Counter[str]


def count_matches(
    rows: Iterable[Row], rules: Sequence[RuleRecord], time_zone: str, looked_at: LookedAt
) -> Matches:
    """Which rule each request would have fallen under.

    A header that is not known to have been sent counts as not there.
    """
    route = RouteRecord("", "", "", (), rules=tuple(rules))
    found = Matches(Counter(), Counter())
    for row in rows:
        case = _case(row, time_zone)
        rule = matching_rule(route, case)
        found.taken[None if rule is None else rule.id] += 1
        known = known_headers(
            looked_at, lineage=row["lineage"], version=row["version"], route_id=row["route_id"]
        )
        found.unjudged.update(one.id for one in unjudged_rules(route, case, known))
    return found


def _case(row: Row, time_zone: str) -> Circumstances:
    tokens = row["prompt_tokens"] or 0
    at: datetime = row["received_at"]
    return Circumstances(
        RequestFacts(
            model=row["requested_model"],
            prompt_tokens_max=tokens,
            prompt_tokens=tokens,
            headers=tuple((name, value) for name, value in row["headers"] or ()),
        ),
        Standing(
            tuple(row["tags"] or ()),
            PriorityClass(row["priority"] or PriorityClass.DEFAULT),
            TaskClass(row["task"] or TaskClass.DEFAULT),
        ),
        KeyRecord(
            id=row["key_id"],
            organisation_id=row["organisation_id"],
            team_id=row["team_id"],
            project_id=row["project_id"],
            digests=(),
        ),
        at.timestamp(),
        time_zone,
    )
