"""An exchange as the books keep it: who asked, what was decided, how it ended."""

from collections.abc import Sequence

from inference.contract.events import Opening, Origin
from inference.contract.kinds import Endpoint
from inference.contract.sealing import without_secrets
from inference.contract.snapshot import ConfigSnapshot, KeyRecord, RouteRecord
from inference.decisions.facts import Standing
from inference.decisions.plan import Plan
from inference.decisions.record import Step
from inference.decisions.record import decision_record as record_of
from inference.gateway.attempts import Attempt
from inference.gateway.schemas import InferenceRequest

MAX_MODEL_CHARS = 128


def origin_record(
    identity: KeyRecord,
    snapshot: ConfigSnapshot,
    *,
    endpoint: Endpoint,
    request: InferenceRequest | None,
    route: RouteRecord | None,
    gateway: str,
    standing: Standing,
    end_user: str | None = None,
    rule_id: str | None = None,
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
        end_user=end_user,
        tags=standing.tags,
        priority=standing.priority,
        task=standing.task,
        rule_id=rule_id,
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
    """Plan and choices as data: the same in the event, in the debug header and in Explain."""
    steps = [_step_of(attempt) for attempt in attempts]
    return record_of(plan, steps, is_out_of_retries=is_out_of_retries)


def model_name(model: str) -> str:
    """What a caller wrote as model, fit for any log and database; a key in its place is not."""
    text = without_secrets(model[:MAX_MODEL_CHARS])[:MAX_MODEL_CHARS]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _step_of(attempt: Attempt) -> Step:
    return Step(
        attempt.planned,
        attempt.worker_id,
        attempt.inflight_before,
        attempt.choice,
        is_trial=attempt.is_trial,
        set_aside=attempt.placement.set_aside,
        error_code=None if attempt.error is None else attempt.error.code.value,
        is_hedge=attempt.is_hedge,
    )
