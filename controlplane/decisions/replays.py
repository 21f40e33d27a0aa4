"""Which of the recorded requests a replay takes, and what is told of them.

The ledger's rows come as mappings with the names of their columns; times are datetimes.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from controlplane.decisions.cache_rollups import SERVED
from inference.contract.kinds import Endpoint, PriorityClass, TaskClass
from inference.contract.snapshot import RouteRecord, TargetRecord
from inference.decisions.facts import RequestFacts, facts_from_record
from inference.decisions.fleet_learning import AttemptFact
from inference.decisions.replay import Recorded, Replayed
from inference.decisions.replay_report import Served

MOST_REQUESTS = 50_000
"""More take longer than a job may: they are sampled then."""

SLICES = 24
"""A sample is of whole stretches of time, so many, or fewer if they would be too short."""

LEAST_SLICE = timedelta(minutes=1)

WARM_UP = timedelta(seconds=20)
"""At the beginning of each stretch nobody is at work yet, so what comes then is not counted."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A stretch of time, [since, until)."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class Unreplayable:
    """A row that lacks what a replay needs: `reason` in one word or two."""

    reason: str


def slices_of(
    since: datetime, until: datetime, by_minute: Mapping[datetime, int], *, most: int
) -> tuple[Slice, ...]:
    """All of the time, or as many even stretches of it as hold at most so many requests.

    A sample of single requests would empty the queues that it is to show. `by_minute` counts the
    requests by the minute they arrived in.
    """
    total = sum(by_minute.values())
    if total <= most:
        return (Slice(since, until),)
    span = until - since
    share = most / total
    slices = SLICES
    while slices > 1 and span / slices * share < LEAST_SLICE:
        slices //= 2
    while True:
        chosen = _stretches(since, span, slices, share)
        held = sum(
            count for minute, count in by_minute.items() for one in chosen if _holds(one, minute)
        )
        if held <= most or share * 0.9 * span / slices < LEAST_SLICE / 6:
            return chosen
        share *= 0.9


def _stretches(since: datetime, span: timedelta, slices: int, share: float) -> tuple[Slice, ...]:
    """One at the end of each equal part, for the newest say most of what is to come."""
    part = span / slices
    length = part * share
    return tuple(
        Slice(since + part * (place + 1) - length, since + part * (place + 1))
        for place in range(slices)
    )


def _holds(one: Slice, minute: datetime) -> bool:
    return one.since < minute + timedelta(minutes=1) and minute < one.until


def recorded_of(row: Mapping[str, Any]) -> Recorded | Unreplayable:
    """A request as a replay takes it."""
    if row["outcome"] == "refused":
        return Unreplayable("refused: its answer is not known")
    use = row.get("cache")
    if use is not None and use["outcome"] in SERVED:
        return Unreplayable("answered from a cache: no worker had it")
    if row["prompt_tokens"] is None or row["completion_tokens"] is None:
        return Unreplayable("no count of tokens")
    facts = _facts_of(row)
    if facts is None:
        return Unreplayable("facts of a later release")
    chance = row["plan_u"]
    return Recorded(
        event_id=row["event_id"],
        arrived_s=row["received_at"].timestamp(),
        key_id=row["key_id"],
        facts=facts,
        prompt_tokens=row["prompt_tokens"],
        output_tokens=row["completion_tokens"],
        cached_tokens=row["cached_tokens"] or 0,
        pool_id=row["pool_id"],
        is_timed=row["first_token_ms"] is not None,
        plan_u=chance if isinstance(chance, float | int) and 0 <= chance < 1 else None,
    )


def _facts_of(row: Mapping[str, Any]) -> RequestFacts | None:
    """What the gateway knew; of rows that are older than that, what their columns say."""
    told = row["facts"]
    if isinstance(told, dict):
        try:
            return facts_from_record(told)
        except msgspec.ValidationError:
            return None
    return RequestFacts(
        model=row["requested_model"],
        prompt_tokens_max=row["prompt_tokens"],
        output_tokens_requested=row["output_tokens_max"],
        endpoint=Endpoint(row["endpoint"]),
        prompt_tokens=row["prompt_tokens"],
        end_user=row["end_user"],
        tags=tuple(row["tags"] or ()),
        priority=None if row["priority"] is None else PriorityClass(row["priority"]),
        task=None if row["task"] is None else TaskClass(row["task"]),
    )


def attempt_of(charge: Mapping[str, Any]) -> AttemptFact:
    """What a charge shows of its worker."""
    started_s = charge["started_at"].timestamp()
    first_ms, prompt = charge["first_token_ms"], charge["prompt_tokens"]
    is_whole = charge["error_code"] is None
    return AttemptFact(
        charge["worker_id"],
        charge["pool_id"],
        started_s,
        started_s + charge["duration_ms"] / 1000,
        None if first_ms is None else started_s + first_ms / 1000,
        None if prompt is None else max(prompt - (charge["cached_tokens"] or 0), 0),
        charge["completion_tokens"] if is_whole else None,
    )


def recorded_side(row: Mapping[str, Any]) -> Served:
    """What really became of a request; one that failed got no answer."""
    is_refused = row["outcome"] != "ok"
    return Served(
        row["route_id"],
        row["target_id"],
        row["pool_id"],
        row["model_id"],
        (row["error_code"] or row["outcome"]) if is_refused else None,
        row["queued_ms"] or 0.0,
        row["first_token_ms"],
        row["cost_nanousd"],
    )


def replayed_side(outcome: Replayed, *, is_timed: bool) -> Served:
    """What would have become of it; first tokens are counted where one was recorded."""
    first_s = outcome.first_token_s if is_timed else None
    return Served(
        outcome.route_id,
        outcome.target_id,
        outcome.pool_id,
        outcome.model_id,
        outcome.refused,
        outcome.queued_s * 1000,
        None if first_s is None else first_s * 1000,
        outcome.cost_nanousd,
    )


def is_counted(arrived_s: float, slices: Sequence[Slice], *, is_sample: bool) -> bool:
    """Whether a request arrived late enough in its stretch for the fleet to be at work."""
    if not is_sample:
        return True
    at = datetime.fromtimestamp(arrived_s, UTC)
    return any(one.since + WARM_UP <= at < one.until for one in slices)


def caution_about(workers: Sequence[Mapping[str, Any]], pools: Collection[str]) -> str:
    """What makes the times of a report worth little, in words; "" if speeds were learned.

    `workers` are the report's, `pools` those that serve on either side; without any, all count.
    """
    serving = [one for one in workers if one["pool"] in pools] if pools else workers
    assumed = sum(not one["samples"] for one in serving)
    if not assumed:
        return ""
    if assumed == len(serving):
        return (
            "Default speeds were used: too little traffic is recorded to learn from how fast the "
            "workers are. What is foretold of first tokens and waits is worth little until there "
            "was traffic."
        )
    return (
        f"Default speeds were used for {assumed:,} of the {len(serving):,} workers that serve "
        "here: too little traffic of theirs is recorded. What is foretold of first tokens and "
        "waits is worth little for their part until there was traffic."
    )


def pools_serving(sides: Mapping[str, Mapping[str, Any]]) -> frozenset[str]:
    """The pools that requests went to under either configuration."""
    replayed = (sides["current"], sides["draft"])
    return frozenset(one["pool"] for side in replayed for one in side["split"] if one["pool"])


def is_same_route(one: RouteRecord, other: RouteRecord) -> bool:
    """Whether two routes serve alike.

    A target or rule that a draft would make gets another id when it is made in earnest.
    """
    return _without_ids(one) == _without_ids(other)


def _without_ids(route: RouteRecord) -> RouteRecord:
    rules = tuple(replace(rule, id="", targets=_nameless(rule.targets)) for rule in route.rules)
    return replace(route, targets=_nameless(route.targets), rules=rules)


def _nameless(targets: Sequence[TargetRecord]) -> tuple[TargetRecord, ...]:
    return tuple(replace(one, id="") for one in targets)
