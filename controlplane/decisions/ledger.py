"""What the end of a request means for the ledger: the rows to keep.

Fields are named after the columns they go to; None is unknown or not applicable, never zero.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from operator import attrgetter

import msgspec

from inference.contract.codec import CodecError, decode_end
from inference.contract.events import CacheUse, Charge, End, Json, Usage
from inference.contract.kinds import ChargeKind, Endpoint, Outcome, PriorityClass, TaskClass
from inference.contract.values import frozen
from inference.decisions.cost import MAX_NANOUSD

# Longer texts come from callers only; an index row of PostgreSQL has 2,704 bytes.
TEXT_CHARACTERS = 500

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"
_ESCAPED_NUL = b"\\u0000"
_UNSTORABLE = dict.fromkeys([0, *range(0xD800, 0xE000)], _REPLACEMENT)

Names = Mapping[str, str]


@frozen
class RequestRow:
    """One request. Tokens and costs sum its charges; the `pool_…` fields name the last attempt.

    `cost_nanousd` is 0 when nothing went upstream and None when any attempt has no price.
    """

    day: date
    event_id: str
    at: datetime
    received_at: datetime
    recorded_at: datetime
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
    route_id: str | None
    route_name: str | None
    outcome: Outcome
    http_status: int
    error_code: str | None
    total_ms: float
    queued_ms: float | None
    first_token_ms: float | None
    output_tokens_max: int | None
    client_request_id: str | None
    attempts: int
    pool_id: str | None
    pool_name: str | None
    model_id: str | None
    model_name: str | None
    worker_id: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    cost_nanousd: int | None
    cost_max_nanousd: int | None
    decision: Json | None
    journal: str
    seq: int
    end_user: str | None
    tags: list[str] | None
    priority: PriorityClass | None
    task: TaskClass | None
    rule_id: str | None
    cache: CacheUse | None


@frozen
class ChargeRow:
    """One attempt of a request, with the price it was made at."""

    day: date
    event_id: str
    attempt: int
    organisation_id: str
    target_id: str
    pool_id: str
    pool_name: str | None
    model_id: str
    model_name: str | None
    worker_id: str
    kind: ChargeKind
    started_at: datetime
    duration_ms: float
    first_token_ms: float | None
    http_status: int | None
    error_code: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    price_id: str | None
    input_nanousd_per_mtok: int | None
    output_nanousd_per_mtok: int | None
    cached_input_nanousd_per_mtok: int | None
    reasoning_output_nanousd_per_mtok: int | None
    request_nanousd: int | None
    cost_nanousd: int | None
    cost_max_nanousd: int | None


def read_end(data: bytes) -> End:
    """Decode an end, replacing what PostgreSQL cannot store (NUL, lone surrogates) by U+FFFD.

    Raises CodecError when it is no end even so.
    """
    try:
        if _ESCAPED_NUL not in data:
            return decode_end(data)
    except (CodecError, RecursionError):
        pass
    return decode_end(_storable_document(data))


def place_of(data: bytes) -> tuple[str, int] | None:
    """Where an unreadable end stands in its journal, if the bytes still say so."""
    try:
        document = json.loads(_storable_document(data))["d"]
        journal, seq = document["journal"], document["seq"]
    except (CodecError, TypeError, KeyError):
        return None
    is_place = isinstance(journal, str) and isinstance(seq, int) and 0 < seq < 2**63
    return (stored_text(journal), seq) if is_place else None


def day_of(end: End) -> date:
    """The UTC day a request's rows belong to. Raises OverflowError when it is no date."""
    return time_of(end.at_ms).date()


def ids_in(ends: Iterable[End]) -> frozenset[str]:
    """The configuration these ends refer to, whose names are kept with the rows."""
    ids: set[str] = set()
    for end in ends:
        origin = end.origin
        ids.update((origin.key_id, origin.team_id, origin.project_id))
        for charge in end.charges:
            ids.update((charge.pool_id, charge.model_id))
    return frozenset(ids)


def last_charge(end: End) -> Charge | None:
    """The attempt that ended the request; None when nothing went upstream."""
    if len(end.charges) == 1:
        return end.charges[0]
    return max(end.charges, key=attrgetter("attempt"), default=None)


def request_row(end: End, names: Names, *, recorded_at: datetime) -> RequestRow:
    """The request's row. Raises OverflowError when a time is no date."""
    origin = end.origin
    last = last_charge(end)
    usage = _usage_of(end.charges)
    return RequestRow(
        day=day_of(end),
        event_id=stored_text(end.event_id),
        at=time_of(end.at_ms),
        received_at=time_of(end.received_at_ms),
        recorded_at=recorded_at,
        organisation_id=stored_text(origin.organisation_id),
        team_id=stored_text(origin.team_id),
        project_id=stored_text(origin.project_id),
        key_id=stored_text(origin.key_id),
        endpoint=origin.endpoint,
        requested_model=stored_text(origin.requested_model),
        is_stream=origin.is_stream,
        gateway=stored_text(origin.gateway),
        lineage=stored_text(origin.lineage),
        version=origin.version,
        route_id=_stored_text_or_none(origin.route_id),
        route_name=_stored_text_or_none(origin.route_name),
        outcome=end.outcome,
        http_status=end.http_status,
        error_code=_stored_text_or_none(end.error_code),
        total_ms=end.total_ms,
        queued_ms=end.queued_ms,
        first_token_ms=end.first_token_ms,
        output_tokens_max=end.output_tokens_max,
        client_request_id=_stored_text_or_none(end.client_request_id),
        attempts=len(end.charges),
        pool_id=stored_text(last.pool_id) if last else None,
        pool_name=names.get(last.pool_id) if last else None,
        model_id=stored_text(last.model_id) if last else None,
        model_name=names.get(last.model_id) if last else None,
        worker_id=stored_text(last.worker_id) if last else None,
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        cost_nanousd=_sum_if_all_known([one.cost_nanousd for one in end.charges]),
        cost_max_nanousd=_sum_if_all_known([one.cost_max_nanousd for one in end.charges]),
        decision=end.decision,
        journal=stored_text(end.journal),
        seq=end.seq,
        end_user=_stored_text_or_none(origin.end_user),
        tags=[stored_text(tag) for tag in origin.tags] or None,
        priority=origin.priority,
        task=origin.task,
        rule_id=_stored_text_or_none(origin.rule_id),
        cache=end.cache,
    )


def charge_rows(end: End, names: Names) -> tuple[ChargeRow, ...]:
    """One row an attempt, in order. Raises OverflowError when a time is no date."""
    return tuple(_charge_row(end, charge, names) for charge in end.charges)


def _charge_row(end: End, charge: Charge, names: Names) -> ChargeRow:
    usage, price = charge.usage, charge.price
    return ChargeRow(
        day=day_of(end),
        event_id=stored_text(end.event_id),
        attempt=charge.attempt,
        organisation_id=stored_text(end.origin.organisation_id),
        target_id=stored_text(charge.target_id),
        pool_id=stored_text(charge.pool_id),
        pool_name=names.get(charge.pool_id),
        model_id=stored_text(charge.model_id),
        model_name=names.get(charge.model_id),
        worker_id=stored_text(charge.worker_id),
        kind=charge.kind,
        started_at=time_of(charge.started_at_ms),
        duration_ms=charge.duration_ms,
        first_token_ms=charge.first_token_ms,
        http_status=charge.http_status,
        error_code=_stored_text_or_none(charge.error_code),
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        cached_tokens=usage.cached_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        price_id=stored_text(price.price_id) if price else None,
        input_nanousd_per_mtok=price.input_nanousd_per_mtok if price else None,
        output_nanousd_per_mtok=price.output_nanousd_per_mtok if price else None,
        cached_input_nanousd_per_mtok=price.cached_input_nanousd_per_mtok if price else None,
        reasoning_output_nanousd_per_mtok=(
            price.reasoning_output_nanousd_per_mtok if price else None
        ),
        request_nanousd=price.request_nanousd if price else None,
        cost_nanousd=charge.cost_nanousd,
        cost_max_nanousd=charge.cost_max_nanousd,
    )


def _usage_of(charges: Sequence[Charge]) -> Usage:
    """What all attempts used; None is what none of them told."""
    if len(charges) == 1:
        return charges[0].usage
    return Usage(
        prompt_tokens=_sum_of_known(one.usage.prompt_tokens for one in charges),
        completion_tokens=_sum_of_known(one.usage.completion_tokens for one in charges),
        cached_tokens=_sum_of_known(one.usage.cached_tokens for one in charges),
        reasoning_tokens=_sum_of_known(one.usage.reasoning_tokens for one in charges),
    )


def _sum_of_known(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _sum_if_all_known(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return min(total, MAX_NANOUSD)


def time_of(at_ms: int) -> datetime:
    """Milliseconds since the epoch as a time. Raises OverflowError when it is no date."""
    return _EPOCH + timedelta(milliseconds=at_ms)


def stored_text(text: str) -> str:
    """A text as columns hold it: cut to TEXT_CHARACTERS."""
    return text if len(text) <= TEXT_CHARACTERS else text[:TEXT_CHARACTERS]


def _stored_text_or_none(text: str | None) -> str | None:
    return None if text is None else stored_text(text)


def _storable_document(data: bytes) -> bytes:
    try:
        return msgspec.json.encode(_storable(json.loads(data.decode(errors="replace"))))
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from error


def _storable(value: object) -> object:
    if isinstance(value, str):
        return value.translate(_UNSTORABLE)
    if isinstance(value, dict):
        return {key.translate(_UNSTORABLE): _storable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_storable(item) for item in value]
    return value
