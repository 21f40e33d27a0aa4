"""Ends of requests as a gateway writes them, for tests of the ledger and its pages."""

from datetime import UTC, datetime
from typing import Any

from redis import Redis

from inference.contract.codec import encode_event
from inference.contract.events import Charge, End, Numbered, Origin, PriceUsed, Usage
from inference.contract.kinds import ChargeKind, Endpoint, Outcome
from inference.contract.wire import USAGE_FIELD, USAGE_STREAM

NOON = datetime(2026, 11, 24, 12, 0, 0, 412_000, tzinfo=UTC)
NOON_MS = int(NOON.timestamp() * 1000)
PRICE = PriceUsed("prc_1", 300_000_000, 900_000_000, 75_000_000)


def make_origin(**changes: Any) -> Origin:
    values: dict[str, Any] = {
        "organisation_id": "org_a",
        "team_id": "team_1",
        "project_id": "proj_1",
        "key_id": "01jdkey00000000000000000a",
        "endpoint": Endpoint.CHAT,
        "requested_model": "chat-default",
        "is_stream": True,
        "gateway": "gw-1",
        "lineage": "01jd",
        "version": 41,
        "route_id": "rt_1",
        "route_name": "chat-default",
    }
    return Origin(**(values | changes))


def make_charge(**changes: Any) -> Charge:
    """A final charge of 1,846 tokens in (1,024 cached) and 182 out, which is 487,200 nano-USD."""
    values: dict[str, Any] = {
        "attempt": 1,
        "target_id": "tgt_1",
        "pool_id": "pool_1",
        "model_id": "mdl_1",
        "worker_id": "pool_1-0",
        "kind": ChargeKind.FINAL,
        "usage": Usage(1_846, 182, 1_024),
        "started_at_ms": NOON_MS - 3_674,
        "duration_ms": 3_654.4,
        "first_token_ms": 232.6,
        "http_status": 200,
        "price": PRICE,
        "cost_nanousd": 487_200,
        "cost_max_nanousd": 487_200,
    }
    return Charge(**(values | changes))


def make_end(number: int = 1, **changes: Any) -> End:
    """An ordinary request that ended well at noon; `number` makes its id and its place."""
    values: dict[str, Any] = {
        "event_id": f"req_{number:026d}",
        "at_ms": NOON_MS,
        "received_at_ms": NOON_MS - 3_692,
        "origin": make_origin(),
        "outcome": Outcome.OK,
        "http_status": 200,
        "charges": (make_charge(),),
        "total_ms": 3_692.2,
        "queued_ms": 18.2,
        "first_token_ms": 250.8,
        "output_tokens_max": 512,
        "decision": {"route": "rt_1", "strategy": "weighted", "u": 0.41, "targets": ["tgt_1"]},
        "journal": "gw-1.1",
        "seq": number,
    }
    return End(**(values | changes))


def feed(store: Redis, *ends: Numbered | bytes) -> None:
    """Put ends and feedback, or raw bytes, into the stream as the gateways' sink does."""
    for end in ends:
        data = end if isinstance(end, bytes) else encode_event(end)
        store.xadd(USAGE_STREAM, {USAGE_FIELD: data})
