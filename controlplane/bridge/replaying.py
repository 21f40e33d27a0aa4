"""Runs a replay: rows of the ledger through the decisions, on a model of the fleet of now."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import compress
from typing import Any

from django.utils import timezone

from controlplane.bridge.described import read_described
from controlplane.bridge.explaining import route_of, with_route
from controlplane.bridge.unjudged import count_unjudged
from controlplane.decisions.described import ready_workers
from controlplane.decisions.replays import (
    Slice,
    Unreplayable,
    attempt_of,
    is_counted,
    recorded_of,
    recorded_side,
    replayed_side,
    slices_of,
)
from controlplane.models import Replay
from controlplane.selectors.replays import count_by_minute, list_arrived, list_attempts
from controlplane.selectors.snapshots import get_configuration, get_revision_of
from controlplane.services.replays import note_alive, note_progress
from inference.contract.snapshot import ConfigSnapshot
from inference.decisions.endpoints import OFFERS
from inference.decisions.fleet_learning import Learned, learn
from inference.decisions.fleetmodel import SimulatedWorker, WorkerModel
from inference.decisions.replay import Recorded, Replayed
from inference.decisions.replay import Replay as Replaying
from inference.decisions.replay_report import Served, errors_of, is_good, side_of
from inference.decisions.roster import concurrency_of, slots_said

CHUNK = 500
"""So many requests between two signs of life."""

LIMITS_OF_IT = (
    "Failures, breakers, retries, limits and degradation are left out: every worker answers that "
    "is ready now.",
    "All gateways count as one that knows of everything under way.",
    "Answers are as long as they were, whatever model gives them.",
    "What was cached of a prompt counts in the pool where it was; elsewhere nothing is cached.",
    "Of headers those alone are known that a rule of the route looked at in their time.",
    "Of one class, who comes first is next: fairness between tenants is left out.",
)


@dataclass(frozen=True, slots=True)
class _Past:
    """What was recorded, ready to be replayed: requests beside their rows."""

    requests: Sequence[Recorded]
    rows: Sequence[Mapping[str, Any]]
    counted: Sequence[bool]
    slices: Sequence[Slice]
    total: int
    lacking: Mapping[str, int]
    learned: Learned
    seen: Mapping[str, Sequence[str]]

    def of_those_counted(self) -> tuple[list[Recorded], list[Mapping[str, Any]]]:
        """The requests that figures are of, and their rows."""
        return [*compress(self.requests, self.counted)], [*compress(self.rows, self.counted)]


def run_replay(replay: Replay) -> dict[str, object]:
    """Replay the requests under the configuration as it was and as drafted; the report."""
    snapshot = get_configuration(get_revision_of(replay.version))
    drafted = with_route(snapshot, route_of(replay.drafted))
    past = _past(replay, snapshot)
    workers = _workers(replay, snapshot, past)
    configurations = {"current": snapshot, "draft": drafted}
    sides = {}
    for place, (name, configuration) in enumerate(configurations.items()):
        begun = place * len(past.requests)
        sides[name] = _replayed(replay, configuration, workers, past, begun)
    unjudged = count_unjudged(configurations, replay.route_id, *past.of_those_counted())
    return {**_report(replay, past, sides, workers), "unjudged": unjudged}


def _past(replay: Replay, snapshot: ConfigSnapshot) -> _Past:
    organisation_id = replay.organisation_id
    by_minute = count_by_minute(organisation_id, replay.since, replay.until)
    slices = slices_of(replay.since, replay.until, by_minute, most=replay.most_requests)
    is_sample = slices != (Slice(replay.since, replay.until),)
    known = {one for bucket in snapshot.keys.values() for one in bucket}
    requests, rows, counted, facts = [], [], [], []
    lacking: Counter[str] = Counter()
    for one in slices:
        last: dict[str, str] = {}
        note_alive(replay)
        for charge in list_attempts(organisation_id, one.since, one.until):
            last[charge["event_id"]] = charge["target_id"]
            facts.append(attempt_of(charge))
        note_alive(replay)
        for row in list_arrived(organisation_id, one.since, one.until):
            found = recorded_of(row)
            if isinstance(found, Recorded) and found.key_id not in known:
                found = Unreplayable("its key is gone")
            if isinstance(found, Unreplayable):
                lacking[found.reason] += 1
                continue
            requests.append(found)
            rows.append({**row, "target_id": last.get(row["event_id"])})
            counted.append(is_counted(found.arrived_s, slices, is_sample=is_sample))
    concurrency = {pool.id: concurrency_of(pool) for pool in snapshot.pools.values()}
    seen: dict[str, set[str]] = {}
    for fact in facts:
        seen.setdefault(fact.pool_id, set()).add(fact.worker_id)
    return _Past(
        requests,
        rows,
        counted,
        slices,
        sum(by_minute.values()),
        lacking,
        learn(facts, concurrency=concurrency),
        {pool_id: sorted(names) for pool_id, names in seen.items()},
    )


def _workers(
    replay: Replay, snapshot: ConfigSnapshot, past: _Past
) -> Mapping[str, Sequence[tuple[str, int, WorkerModel]]]:
    """The workers that are ready now, by pool; of pools the fleet says nothing of, the recorded."""
    described = read_described(
        snapshot,
        organisation_id=replay.organisation_id,
        process=None,
        now_s=timezone.now().timestamp(),
    )
    ready = ready_workers(described)
    by_model = {
        pool.model_id: past.learned.pools[pool.id]
        for pool in snapshot.pools.values()
        if pool.id in past.learned.pools
    }
    found: dict[str, list[tuple[str, int, WorkerModel]]] = {}
    for pool in snapshot.pools.values():
        if pool.organisation_id != replay.organisation_id:
            continue
        usual = past.learned.pools.get(pool.id) or by_model.get(pool.model_id) or WorkerModel()
        names = [one.id for one in ready[pool.id]] if pool.id in ready else past.seen.get(pool.id)
        found[pool.id] = [
            (name, concurrency_of(pool), past.learned.workers.get(name, usual))
            for name in names or ()
        ]
    return found


def _replayed(
    replay: Replay,
    snapshot: ConfigSnapshot,
    workers: Mapping[str, Sequence[tuple[str, int, WorkerModel]]],
    past: _Past,
    begun: int,
) -> Sequence[Replayed]:
    fleet = {
        pool_id: [
            SimulatedWorker(
                id=name,
                pool_id=pool_id,
                model=model,
                concurrency=concurrency,
                slots=slots_said(snapshot.pools[pool_id]),
            )
            for name, concurrency, model in found
        ]
        for pool_id, found in workers.items()
        if found
    }
    replaying = Replaying(snapshot, fleet, offers=OFFERS, priced_at_s=replay.created_at.timestamp())
    for place in range(0, len(past.requests), CHUNK):
        replaying.feed(past.requests[place : place + CHUNK])
        note_progress(
            replay,
            done=begun + min(place + CHUNK, len(past.requests)),
            total=2 * len(past.requests),
        )
    replaying.finish()
    return replaying.outcomes


def _report(
    replay: Replay,
    past: _Past,
    sides: Mapping[str, Sequence[Replayed]],
    workers: Mapping[str, Sequence[tuple[str, int, WorkerModel]]],
) -> dict[str, object]:
    recorded = [recorded_side(row) for row in past.rows]
    served: dict[str, list[Served]] = {"recorded": recorded}
    for name, outcomes in sides.items():
        served[name] = [
            replayed_side(outcome, is_timed=request.is_timed)
            for outcome, request in zip(outcomes, past.requests, strict=True)
        ]
    # a request is the route's if it is on any side: a draft may take up a name or lose one
    is_route = [
        any(one.route_id == replay.route_id for one in told)
        for told in zip(*served.values(), strict=True)
    ]
    scopes = {
        "route": [a and b for a, b in zip(is_route, past.counted, strict=True)],
        "all": list(past.counted),
    }
    told = {
        scope: {
            name: side_of([one for one, wanted in zip(side, kept, strict=True) if wanted])
            for name, side in served.items()
        }
        for scope, kept in scopes.items()
    }
    return {
        "requests": past.total,
        "replayed": len(past.requests),
        "counted": sum(past.counted),
        "lacking": dict(sorted(past.lacking.items())),
        "is_sample": past.slices != (Slice(replay.since, replay.until),),
        "slices": len(past.slices),
        "slice_s": round((past.slices[0].until - past.slices[0].since).total_seconds(), 3),
        **told,
        "model_errors": _model_errors(told["route"]),
        "workers": [_worker(*one, pool_id) for pool_id, found in workers.items() for one in found],
        "left_out": list(LIMITS_OF_IT),
    }


def _model_errors(told: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    """How far the model is off where the truth is known: under the configuration as it was."""
    errors = errors_of(told["current"]["first_token_ms"], told["recorded"]["first_token_ms"])
    return {**errors, "is_good": is_good(errors)}


def _worker(name: str, concurrency: int, model: WorkerModel, pool_id: str) -> dict[str, object]:
    return {
        "id": name,
        "pool": pool_id,
        "concurrency": concurrency,
        "samples": model.samples,
        "prefill_tokens_per_s": round(model.prefill_rate, 1),
        "is_serial": model.is_serial,
        "first_token_ms": round(model.first_token_s * 1000, 3),
        "step_ms": round(model.step_s * 1000, 3),
        "step_request_ms": round(model.step_batch_s * 1000, 4),
    }


def observe(replay: Replay, since: datetime, until: datetime) -> dict[str, object]:
    """What came of the draft in this time after it was published, beside what was foretold."""
    slices = slices_of(
        since,
        until,
        count_by_minute(replay.organisation_id, since, until),
        most=replay.most_requests,
    )
    served = []
    for one in slices:
        last: dict[str, str] = {
            charge["event_id"]: charge["target_id"]
            for charge in list_attempts(replay.organisation_id, one.since, one.until)
        }
        served += [
            recorded_side({**row, "target_id": last.get(row["event_id"])})
            for row in list_arrived(replay.organisation_id, one.since, one.until)
            if row["route_id"] == replay.route_id and not isinstance(recorded_of(row), Unreplayable)
        ]
    observed = side_of(served)
    report: Mapping[str, Any] = replay.report or {}
    errors = errors_of(
        report["route"]["draft"]["first_token_ms"],
        observed["first_token_ms"],  # type: ignore[arg-type]
    )
    return {
        "since": since.isoformat(),
        "until": until.isoformat(),
        "is_whole": until - since >= replay.until - replay.since,
        "side": observed,
        "errors": {**errors, "is_good": is_good(errors)},
    }
