"""GET /v1/models: what the caller may write in `model`."""

import msgspec

from inference.contract.snapshot import ConfigSnapshot, KeyRecord
from inference.decisions.plan import is_visible
from inference.errors import NoCapacity
from inference.gateway.auth import identify
from inference.gateway.downstream import Downstream, respond
from inference.gateway.headers import answer_headers
from inference.gateway.identifiers import RANDOM_BITS, event_id
from inference.gateway.services import Services

_encode = msgspec.json.Encoder().encode


async def list_models(services: Services, downstream: Downstream) -> None:
    """Answer with the routes the key may use, by name, in OpenAI's shape."""
    snapshot = services.snapshots.current
    if snapshot is None:
        raise NoCapacity("This gateway has no configuration yet.")
    now = services.clock()
    identity = identify(
        snapshot, downstream.headers.authorization, peppers=services.peppers, now=now
    )
    body = _encode({"object": "list", "data": visible_models(snapshot, identity)})
    request_id = event_id(int(now * 1000), services.random_bits(RANDOM_BITS))
    await respond(downstream, 200, answer_headers(request_id, content_length=len(body)), body)


def visible_models(snapshot: ConfigSnapshot, identity: KeyRecord) -> list[dict[str, object]]:
    """The routes a key may use. They have no date, so `created` is 0: clients want a number."""
    owner = snapshot.organisations[identity.organisation_id].name
    names = sorted(route.name for route in snapshot.routes.values() if is_visible(route, identity))
    return [{"id": name, "object": "model", "created": 0, "owned_by": owner} for name in names]
