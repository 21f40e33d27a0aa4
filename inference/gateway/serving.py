"""A request that is answered from a cache: it counts as one, takes no tokens and no money."""

from typing import TYPE_CHECKING, Any

import msgspec

from inference.contract.kinds import CacheOutcome, Outcome
from inference.decisions.plan import Plan
from inference.decisions.replaying.base import Shown
from inference.decisions.replaying.registry import FORMS
from inference.errors import NotCached
from inference.gateway.cache_start import wants_vectors
from inference.gateway.cached import Caching
from inference.gateway.disclosures import disclosed
from inference.gateway.flying import joined
from inference.gateway.headers import stream_headers
from inference.gateway.keepalive import KeepAlive
from inference.gateway.recording import frames_of
from inference.gateway.schemas import InferenceRequest
from inference.gateway.vectors import look_up_vectors

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange

_OK = 200
_A_WRITE_BYTES = 64 * 1024

_decode: Any = msgspec.json.Decoder().decode


async def answered_from_cache(exchange: "Exchange", caching: Caching) -> bool:
    """Answer a request from what is kept, if it may be; False if a worker is to be asked.

    Raises NotCached if the caller wants nothing else, and what limits on requests raise.
    """
    body: bytes | None = None
    if wants_vectors(caching) and caching.obstacle is None:
        body = await look_up_vectors(exchange, caching)
        is_found = body is not None
    else:
        found = await caching.look_up(exchange)
        is_found = found is not None
        body = None if found is None else found.entry.body
    if not is_found and not caching.wishes.only_cached:
        return False
    await _admit(exchange, caching)
    if body is None:
        raise NotCached
    request = exchange.request
    assert request is not None
    await serve(exchange, caching, request, body)
    return True


async def has_joined(exchange: "Exchange", caching: Caching, alive: KeepAlive | None) -> bool:
    """Answer with what an identical request that is under way gets; False if there is none."""
    request = exchange.request
    assert request is not None
    entry = await joined(exchange, caching, alive if request.is_stream else None)
    if entry is None:
        return False
    caching.answered_with(entry)
    await serve(exchange, caching, request, entry.body, alive)
    return True


async def serve(
    exchange: "Exchange",
    caching: Caching,
    request: InferenceRequest,
    body: bytes,
    alive: KeepAlive | None = None,
) -> None:
    """Tell a kept answer as it was asked for now: whole, or as a stream.

    `alive` may have begun a stream, if its caller had to wait.
    """
    downstream = exchange.downstream
    if not request.is_stream:
        await exchange.close(Outcome.OK, http_status=_OK)
        headers = disclosed(exchange)
        await downstream.answer(exchange.event_id, exchange.dialect, headers, body)
        return
    shown = Shown(request.shows_usage, request.shows_continuous_usage)
    frames = frames_of(FORMS[caching.place.endpoint], _decode(body), shown)
    await exchange.close(Outcome.OK, http_status=_OK)
    if alive is not None:
        await alive.begin()
    else:
        headers = stream_headers(exchange.event_id, exchange.dialect)
        await downstream.start(_OK, headers + disclosed(exchange))
    for start in range(0, len(frames) - _A_WRITE_BYTES, _A_WRITE_BYTES):
        await downstream.write(frames[start : start + _A_WRITE_BYTES])
    await downstream.end(frames[_last_write(len(frames)) :])


def _last_write(size: int) -> int:
    """Where what is written last begins."""
    writes = range(0, size - _A_WRITE_BYTES, _A_WRITE_BYTES)
    return writes[-1] + _A_WRITE_BYTES if writes else 0


async def _admit(exchange: "Exchange", caching: Caching) -> None:
    """Take what limits on requests and on parallel ones want, or raise; budgets if the policy says
    that a hit is not for those who have none left.
    """
    plan: Plan = caching.plan
    admission = exchange.limit(plan)
    if admission is None:
        return
    if caching.policy.serves_out_of_budget or caching.outcome is CacheOutcome.BYPASS:
        exchange.admission = admission = admission.of_kept_answer(plan.targets[0].pool.model_id)
    if admission is not None:
        await admission.take()
