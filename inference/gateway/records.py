"""An exchange as the books keep it: who asked, what was decided, how it ended."""

from functools import lru_cache

from inference.contract.events import Exposure, Opening, Origin
from inference.contract.kinds import Endpoint
from inference.contract.sealing import without_secrets
from inference.contract.snapshot import ConfigSnapshot, KeyRecord, RouteRecord
from inference.decisions.facts import Standing
from inference.decisions.groundwork import Way
from inference.decisions.plan import Plan
from inference.gateway.attempts import Attempt
from inference.gateway.schemas import InferenceRequest

MAX_MODEL_CHARS = 128


def origin_record(
    identity: KeyRecord,
    snapshot: ConfigSnapshot,
    *,
    endpoint: Endpoint,
    request: InferenceRequest | None,
    way: Way | None = None,
    route: RouteRecord | None,
    gateway: str,
    standing: Standing,
    end_user: str | None = None,
    rule_id: str | None = None,
) -> Origin:
    """Who asked for what. A request that could not be read asked for the model "".

    Those that came a way and say no more of themselves are all alike: theirs is kept with the way.
    """
    kept: dict[tuple[Endpoint, bool], Origin] | None = None
    named = (endpoint, request is not None and request.is_stream)
    if way is not None and route is way.route and standing is way.standing:
        if end_user is None and rule_id is None:
            kept = way.origins
            if (origin := kept.get(named)) is not None:
                return origin
    model = ""
    if request is not None:
        model = model_name(request.model) if route is None else _known_name(request.model)
    origin = Origin(
        identity.organisation_id,
        identity.team_id,
        identity.project_id,
        identity.id,
        endpoint,
        model,
        named[1],
        gateway,
        snapshot.lineage,
        snapshot.version,
        None if route is None else route.id,
        None if route is None else route.name,
        end_user,
        standing.tags,
        standing.priority,
        standing.task,
        rule_id,
    )
    if kept is not None:
        kept[named] = origin
    return origin


# Of models that there are; what else callers write may be a secret, which nothing is to keep.
_known_name = lru_cache(maxsize=4_096)(lambda model: model_name(model))


def opening_record(
    event_id: str,
    *,
    at_ms: int,
    origin: Origin,
    plan: Plan,
    attempt: Attempt,
    client_request_id: str | None,
    exposures: tuple[Exposure, ...] = (),
) -> Opening:
    """What it takes to close an attempt whose gateway died."""
    planned = attempt.planned
    pool = planned.pool
    return Opening(
        event_id,
        at_ms,
        origin,
        planned.target.id,
        pool.id,
        pool.model_id,
        attempt.worker_id,
        plan.prompt_tokens_max,
        plan.output_tokens_max,
        planned.price,
        planned.cost_max_nanousd,
        attempt.number,
        client_request_id,
        exposures,
    )


def model_name(model: str) -> str:
    """What a caller wrote as model, fit for any log and database; a key in its place is not."""
    text = without_secrets(model[:MAX_MODEL_CHARS])[:MAX_MODEL_CHARS]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)
