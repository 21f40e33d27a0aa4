"""GET /v1/models: what the caller may write in `model`."""

import msgspec

from inference.contract.snapshot import ConfigSnapshot, KeyRecord
from inference.decisions.plan import is_visible
from inference.errors import NoCapacity
from inference.gateway.auth import identify
from inference.gateway.downstream import Downstream
from inference.gateway.headers import answer_headers
from inference.gateway.identifiers import RANDOM_BITS, event_id
from inference.gateway.refusals import check_caller
from inference.gateway.services import Services

_encode = msgspec.json.Encoder().encode


async def list_models(services: Services, downstream: Downstream) -> None:
    """Answer with the routes the key may use, their aliases too, in OpenAI's shape."""
    snapshot = services.snapshots.current
    if snapshot is None:
        raise NoCapacity("This gateway has no configuration yet.")
    now = services.clock()
    identity = identify(
        snapshot, downstream.headers.authorization, peppers=services.peppers, now=now
    )
    check_caller(snapshot, identity, now=now)
    body = _encode({"object": "list", "data": visible_models(snapshot, identity)})
    request_id = event_id(int(now * 1000), services.random_bits(RANDOM_BITS))
    await downstream.respond(200, answer_headers(request_id, content_length=len(body)), body)


def visible_models(snapshot: ConfigSnapshot, identity: KeyRecord) -> list[dict[str, object]]:
    """The routes a key may use, by each of their names.

    They have no date, so `created` is 0: clients want a number.
    """
    owner = snapshot.organisations[identity.organisation_id].name
    seen = (route for route in snapshot.routes.values() if is_visible(route, identity))
    names = sorted(name for route in seen for name in (route.name, *route.aliases))
    return [{"id": name, "object": "model", "created": 0, "owned_by": owner} for name in names]
