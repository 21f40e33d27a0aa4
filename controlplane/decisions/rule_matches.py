"""How many recorded requests each rule would have taken."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from inference.contract.kinds import PriorityClass, TaskClass
from inference.contract.snapshot import KeyRecord, RouteRecord, RuleRecord
from inference.decisions.facts import RequestFacts, Standing
from inference.decisions.rules import Circumstances, matching_rule

Row = Mapping[str, Any]

COLUMNS = (
    *("received_at", "organisation_id", "team_id", "project_id", "key_id"),
    *("requested_model", "prompt_tokens", "tags", "priority", "task"),
)
"""What is read of a recorded request."""


def count_matches(
    rows: Iterable[Row], rules: Sequence[RuleRecord], time_zone: str
) -> Counter[str | None]:
    """Requests by the id of the first rule they fit, None for those that fit none.

    Headers aren't recorded, so a rule that asks for one takes none here.
    """
    route = RouteRecord("", "", "", (), rules=tuple(rules))
    found: Counter[str | None] = Counter()
    for row in rows:
        rule = matching_rule(route, _case(row, time_zone))
        found[None if rule is None else rule.id] += 1
    return found


def _case(row: Row, time_zone: str) -> Circumstances:
    tokens = row["prompt_tokens"] or 0
    at: datetime = row["received_at"]
    return Circumstances(
        RequestFacts(model=row["requested_model"], prompt_tokens_max=tokens, prompt_tokens=tokens),
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
