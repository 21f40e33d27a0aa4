"""The facts of a request: an opening before anything goes upstream, an end, and its charges.

Times are milliseconds since the epoch (UTC), durations milliseconds, money nano-USD. None means
not known or not applicable and is never the same as zero.
"""

from collections.abc import Mapping

from inference.contract.kinds import (
    CacheOutcome,
    CacheTier,
    ChargeKind,
    Endpoint,
    ExperimentUnit,
    Outcome,
    PriorityClass,
    TaskClass,
)
from inference.contract.values import terse

Json = Mapping[str, object]


@terse
class Usage:
    """Tokens as the engine reported them; reasoning tokens are part of the completion's."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None


@terse
class PriceUsed:
    """The price a charge was made at, kept with it so that later edits change no history.

    `price_id` is the version's. Input is that of embeddings where they were asked for.
    """

    price_id: str
    input_nanousd_per_mtok: int
    output_nanousd_per_mtok: int
    cached_input_nanousd_per_mtok: int | None = None
    reasoning_output_nanousd_per_mtok: int | None = None
    request_nanousd: int = 0


@terse
class Charge:
    """One attempt on one worker and what it cost.

    `cost_nanousd` is what is booked: exact when `kind` is final, else the lower bound;
    `cost_max_nanousd` is the upper bound. Both are None when the model has no price.
    """

    attempt: int
    target_id: str
    pool_id: str
    model_id: str
    worker_id: str
    kind: ChargeKind
    usage: Usage
    started_at_ms: int
    duration_ms: float
    first_token_ms: float | None = None
    http_status: int | None = None
    error_code: str | None = None
    price: PriceUsed | None = None
    cost_nanousd: int | None = None
    cost_max_nanousd: int | None = None


@terse
class Origin:
    """Who asked for what, of which configuration, through which process.

    `end_user` is what the caller names its own user, `tags` the key's and the caller's. `rule_id`
    is the rule of the route that matched, None if none did.
    """

    organisation_id: str
    team_id: str
    project_id: str
    key_id: str
    endpoint: Endpoint
    requested_model: str
    is_stream: bool
    gateway: str
    lineage: str
    version: int
    route_id: str | None = None
    route_name: str | None = None
    end_user: str | None = None
    tags: tuple[str, ...] = ()
    priority: PriorityClass | None = None
    task: TaskClass | None = None
    rule_id: str | None = None


@terse
class Exposure:
    """That a request took part in an experiment.

    `variant_id` is the one it was assigned, with `probability` among all that take part. `unit_id`
    is a digest of 16 hexadecimal digits: the same unit of an organisation has the same one in all
    experiments. `served_variant_id` is by whose targets it was answered, which is the assigned one
    unless those failed; None is by nobody's.
    """

    experiment_id: str
    phase: int
    variant_id: str
    unit: ExperimentUnit
    unit_id: str
    probability: float
    served_variant_id: str | None = None


@terse
class Opening:
    """Written before an attempt goes upstream: enough to close it if this process dies.

    `prompt_tokens_max` and `output_tokens_max` bound what it can use; `cost_max_nanousd` is the
    most the attempt can cost, None when its target has no price. `at_ms` is the request's arrival.
    `exposures` are as nobody has served the request yet.
    """

    event_id: str
    at_ms: int
    origin: Origin
    target_id: str
    pool_id: str
    model_id: str
    worker_id: str
    prompt_tokens_max: int
    output_tokens_max: int
    price: PriceUsed | None = None
    cost_max_nanousd: int | None = None
    attempt: int = 1
    client_request_id: str | None = None
    exposures: tuple[Exposure, ...] = ()


@terse
class CacheUse:
    """What a cache policy did for a request.

    `tier` is where the answer was found, `entry_id` names it without telling its key, and `age_ms`
    is its age. `similarity` is of the nearest that was found, also where `refused_by` (a guard's
    name, or `threshold`) kept it from being used. `agreed` is of a check: whether the fresh answer
    said the same.

    What was saved is the tokens of the answer that was kept, their cost at today's price of the
    intended target, and the time it had taken. Of embeddings, `inputs_hit` of `inputs` were kept.
    """

    policy_id: str
    outcome: CacheOutcome
    tier: CacheTier | None = None
    entry_id: str | None = None
    age_ms: int | None = None
    similarity: float | None = None
    refused_by: str | None = None
    agreed: bool | None = None
    saved_prompt_tokens: int | None = None
    saved_completion_tokens: int | None = None
    saved_nanousd: int | None = None
    saved_ms: float | None = None
    inputs: int | None = None
    inputs_hit: int | None = None


@terse
class End:
    """How a request ended; exactly one an event id. `decision` is the record Explain shows too.

    One that a cache answered had no opening, has no charges and ended well. `cache` is None where
    no policy bore on the request. `exposures` are of the experiments that it took part in.

    `journal` and `seq` say where it stands: `seq` counts the ends of one journal from 1 without a
    gap, so that the recorder can say up to where it has committed all of it.
    """

    event_id: str
    at_ms: int
    received_at_ms: int
    origin: Origin
    outcome: Outcome
    http_status: int
    charges: tuple[Charge, ...]
    total_ms: float
    error_code: str | None = None
    queued_ms: float | None = None
    first_token_ms: float | None = None
    output_tokens_max: int | None = None
    client_request_id: str | None = None
    decision: Json | None = None
    journal: str = ""
    seq: int = 0
    cache: CacheUse | None = None
    exposures: tuple[Exposure, ...] = ()


@terse
class Feedback:
    """What somebody says of the answer to a request; it goes the way of an end, and is one of those
    that `seq` counts.

    `event_id` is the same for all that one `rater` (whom the caller names; None is the caller) says
    of one request: of several the newest counts. `score` is from -1 to 1, `is_completed` whether
    the task was. Whether there was such a request of this organisation is for the ledger to know.
    """

    event_id: str
    at_ms: int
    organisation_id: str
    project_id: str
    key_id: str
    gateway: str
    request_id: str
    rater: str | None = None
    score: float | None = None
    label: str | None = None
    comment: str | None = None
    is_completed: bool | None = None
    journal: str = ""
    seq: int = 0


Fact = Opening | End | Feedback
Numbered = End | Feedback
"""What journals count, the stream carries and the recorder writes down."""
