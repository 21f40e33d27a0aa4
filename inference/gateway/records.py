"""An exchange as the books keep it: who asked, what was decided, how it ended."""

from collections.abc import Sequence

from inference.contract.events import Opening, Origin
from inference.contract.kinds import Endpoint
from inference.contract.sealing import without_secrets
from inference.contract.snapshot import ConfigSnapshot, KeyRecord, RouteRecord
from inference.decisions.plan import Plan
from inference.decisions.routing.base import Choice, Score
from inference.fleet.worker import Worker
from inference.gateway.attempts import Attempt
from inference.gateway.schemas import InferenceRequest

MAX_MODEL_CHARS = 128
_SCORE_DIGITS = 6


def origin_record(
    identity: KeyRecord,
    snapshot: ConfigSnapshot,
    *,
    endpoint: Endpoint,
    request: InferenceRequest | None,
    route: RouteRecord | None,
    gateway: str,
) -> Origin:
    """Who asked for what. A request that could not be read asked for the model ""."""
    return Origin(
        organisation_id=identity.organisation_id,
        team_id=identity.team_id,
        project_id=identity.project_id,
        key_id=identity.id,
        endpoint=endpoint,
        requested_model="" if request is None else model_name(request.model),
        is_stream=request is not None and request.is_stream,
        gateway=gateway,
        lineage=snapshot.lineage,
        version=snapshot.version,
        route_id=None if route is None else route.id,
        route_name=None if route is None else route.name,
    )


def opening_record(
    event_id: str,
    *,
    at_ms: int,
    origin: Origin,
    plan: Plan,
    attempt: Attempt,
    client_request_id: str | None,
) -> Opening:
    """What it takes to close an attempt whose gateway died."""
    planned = attempt.planned
    return Opening(
        event_id=event_id,
        at_ms=at_ms,
        origin=origin,
        target_id=planned.target.id,
        pool_id=planned.pool.id,
        model_id=planned.pool.model_id,
        worker_id=attempt.worker_id,
        prompt_tokens_max=plan.prompt_tokens_max,
        output_tokens_max=plan.output_tokens_max,
        price=planned.price,
        cost_max_nanousd=planned.cost_max_nanousd,
        attempt=attempt.number,
        client_request_id=client_request_id,
    )


def decision_record(
    plan: Plan, attempts: Sequence[Attempt], *, is_out_of_retries: bool = False
) -> dict[str, object]:
    """Plan and choices as data: the same in the event, in the debug header and in a test."""
    record: dict[str, object] = {
        "at": plan.at,
        "route": plan.route.id,
        "strategy": plan.route.strategy.value,
        "u": plan.u,
        "targets": [planned.target.id for planned in plan.targets],
        "attempts": [_attempt_record(attempt) for attempt in attempts],
    }
    if is_out_of_retries:
        record["out_of_retries"] = True
    return record


def model_name(model: str) -> str:
    """What a caller wrote as model, fit for any log and database; a key in its place is not."""
    text = without_secrets(model[:MAX_MODEL_CHARS])[:MAX_MODEL_CHARS]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _attempt_record(attempt: Attempt) -> dict[str, object]:
    record: dict[str, object] = {
        "target": attempt.planned.target.id,
        "worker": attempt.worker_id,
        "inflight": attempt.inflight_before,
    }
    if attempt.choice.score is not None:
        record |= _choice_record(attempt.choice, attempt.choice.score)
    if attempt.choice.room.is_panic:
        record["panic"] = True
    if attempt.is_trial:
        record["trial"] = True
    if attempt.placement.set_aside:
        record["set_aside"] = list(attempt.placement.set_aside)
    if attempt.error is not None:
        record["error"] = attempt.error.code.value
    return record


def _choice_record(choice: Choice[Worker], score: Score) -> dict[str, object]:
    """Why this one of several, term by term."""
    record: dict[str, object] = {
        "candidates": choice.candidates,
        "u": choice.u,
        "wait": round(score.wait, _SCORE_DIGITS),
        "wait_prefill": round(score.prefill, _SCORE_DIGITS),
        "wait_requests": round(score.requests, _SCORE_DIGITS),
        "wait_kv": round(score.kv, _SCORE_DIGITS),
        "least_wait": round(choice.least_wait, _SCORE_DIGITS),
    }
    if choice.is_warm:
        record["warm"] = True
    return record
