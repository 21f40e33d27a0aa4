"""Embeddings kept by input: only what is missing is asked for, each once, and all come in order."""

from typing import TYPE_CHECKING

import msgspec

from inference.caches.base import Entry, Found
from inference.contract.events import CacheUse, Usage
from inference.contract.kinds import CacheOutcome, CacheTier, Endpoint
from inference.contract.values import changed
from inference.decisions.caching import entry_id_of, input_key_of, ttl_of
from inference.decisions.cost import cost_of
from inference.decisions.plan import Plan, PlannedTarget
from inference.errors import UpstreamBadAnswer
from inference.gateway.attempts import Attempt
from inference.gateway.cached import Caching
from inference.gateway.schemas import InferenceRequest

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange

_encode = msgspec.json.Encoder().encode


class _Item(msgspec.Struct):
    embedding: msgspec.Raw
    index: int = 0


class _Answer(msgspec.Struct):
    data: list[_Item]


_decode = msgspec.json.Decoder(_Answer).decode
_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class Vectors:
    """The inputs of one request: `keys` in its order, those `found`, those `missing`, each once."""

    __slots__ = ("_inputs", "_is_single", "found", "keys", "missing", "sent")

    def __init__(self, caching: Caching, secret: bytes) -> None:
        given = caching.said["input"]
        self._is_single = not is_list_of_inputs(given)
        inputs = [given] if self._is_single else given
        assert isinstance(inputs, list)
        rest = {name: one for name, one in caching.said.items() if name != "input"}
        self.keys = [input_key_of(secret, caching.place, rest, one) for one in inputs]
        self._inputs = dict(zip(self.keys, inputs, strict=True))
        self.found: dict[bytes, Found] = {}
        self.missing: list[bytes] = list(self._inputs)
        self.sent = self.keys  # until it is known what is kept, all is asked for

    @property
    def unique(self) -> list[bytes]:
        """The keys, each once."""
        return list(self._inputs)

    def take(self, found: dict[bytes, Found]) -> None:
        """Take note of those that are kept."""
        self.found = found
        self.missing = self.sent = [key for key in self._inputs if key not in found]

    def give_up(self) -> None:
        """Take note that nothing of what is kept is served, since another model has answered."""
        self.found = {}
        self.missing, self.sent = self.unique, self.keys

    @property
    def is_reduced(self) -> bool:
        """Whether less is asked for than the caller did."""
        return len(self.sent) < len(self.keys)

    def input_to_send(self) -> bytes:
        """The inputs that are asked for, as a list."""
        return _encode([self._inputs[key] for key in self.sent])

    def weights(self) -> list[int]:
        """How long the inputs that were sent are, to share out what they used together."""
        return [len(_encode(self._inputs[key])) for key in self.sent]

    def told(self, use: CacheUse, plan: Plan) -> CacheUse:
        """What the books say of it."""
        hits = [self.found[key].entry for key in self.keys if key in self.found]
        use = changed(use, inputs=len(self.keys), inputs_hit=len(hits))
        if not hits:
            return use
        tokens = sum(one.usage.prompt_tokens or 0 for one in hits)
        price = plan.targets[0].price
        return changed(
            use,
            tier=_nearest_tier(list(self.found.values())),
            age_ms=None,
            saved_prompt_tokens=tokens,
            saved_completion_tokens=0,
            saved_nanousd=cost_of(Usage(tokens, 0), price),
            saved_ms=max(one.took_ms for one in hits) if not self.missing else None,
        )


async def look_up_vectors(exchange: "Exchange", caching: Caching) -> bytes | None:
    """The whole answer if every input is kept; else the request asks for those that aren't."""
    caching.vectors = vectors = Vectors(caching, caching.caches.secret)
    if caching.may_read:
        now_s = exchange.services.clock()
        most_s = caching.wishes.max_age_s

        def is_fit(entry: Entry) -> bool:
            is_new = most_s is None or now_s - entry.stored_at <= most_s
            is_fresh = now_s < entry.expires_at
            return is_new and is_fresh and caching.is_alive(entry, now_s)

        found = await caching.caches.find_vectors(caching.asked, vectors.unique, is_fit)
        vectors.take(dict(found))
    else:
        caching.outcome = CacheOutcome.BYPASS
        return None
    if not vectors.missing:
        caching.outcome = CacheOutcome.HIT
        return _answer_of(exchange, caching, {}, {})
    if vectors.is_reduced:
        request = exchange.request
        assert request is not None
        replaced = {**request.replaced, "input": vectors.input_to_send()}
        exchange.request = changed(request, replaced=replaced)
    return None


def request_for(
    caching: Caching, planned: PlannedTarget, request: InferenceRequest
) -> InferenceRequest:
    """The request as a target is to get it: whole, unless it answers as the intended one does."""
    if caching.vectors is None or not caching.vectors.is_reduced or caching.is_of(planned):
        return request
    replaced = {name: one for name, one in request.replaced.items() if name != "input"}
    return changed(request, replaced=replaced)


def complete_vectors(
    exchange: "Exchange", caching: Caching, attempt: Attempt, body: bytes
) -> bytes:
    """Keep what a worker gave, and put it together with what was kept: all in the caller's order.

    What another than the intended target gave is passed on as it came: vectors of two models can't
    be compared. Raises UpstreamBadAnswer if it isn't one vector for each input that was sent.
    """
    vectors = caching.vectors
    assert vectors is not None
    if not caching.is_of(attempt.planned):
        vectors.give_up()
        return body
    try:
        items = sorted(_decode(body).data, key=lambda one: one.index)
    except msgspec.DecodeError as error:
        if vectors.is_reduced:
            raise UpstreamBadAnswer from error
        return body
    if not vectors.is_reduced and len(items) != len(vectors.keys):
        return body  # it is passed on as it came, and nothing of it is kept
    if len(items) != len(vectors.sent):
        raise UpstreamBadAnswer
    fresh = {key: bytes(one.embedding) for key, one in zip(vectors.sent, items, strict=True)}
    tokens = _shared_out(attempt, vectors)
    if caching.may_keep:
        for key, vector in fresh.items():
            if len(vector) <= caching.policy.max_entry_bytes:
                entry = _entry(exchange, caching, attempt, (key, vector, tokens[key]))
                caching.caches.keep_vector(caching.asked, key, entry)
    if not vectors.is_reduced:
        return body
    return _answer_of(exchange, caching, fresh, tokens, like=body)


def is_list_of_inputs(given: object) -> bool:
    """Whether it is several: a text is one, and so is a list of tokens."""
    return isinstance(given, list) and not (given and isinstance(given[0], int))


def _entry(
    exchange: "Exchange", caching: Caching, attempt: Attempt, vector: tuple[bytes, bytes, int]
) -> Entry:
    key, body, tokens = vector
    now_s, wishes = exchange.services.clock(), caching.wishes
    expires_at = now_s + ttl_of(caching.policy, caching.plan.standing.task)
    entry_id = entry_id_of(caching.caches.secret, key)
    return Entry(
        body=body,
        endpoint=Endpoint.EMBEDDINGS,
        stored_at=now_s,
        expires_at=expires_at,
        stale_until=expires_at,
        entry_id=entry_id,
        policy_id=caching.policy.id,
        route_id=caching.plan.route.id,
        usage=Usage(tokens, 0),
        took_ms=exchange.arrived.ms_until(exchange.services.stopwatch()),
        mark=caching.mark_of(wishes.namespace, wishes.tags, entry_id),
        namespace=wishes.namespace,
        tags=wishes.tags,
        cost_nanousd=cost_of(Usage(tokens, 0), attempt.planned.price),
    )


def _answer_of(
    exchange: "Exchange",
    caching: Caching,
    fresh: dict[bytes, bytes],
    tokens: dict[bytes, int],
    *,
    like: bytes = b"{}",
) -> bytes:
    """An answer with all vectors in order; what else a worker's answer said stays as it is.

    Its usage is what all of them take, those that were kept included: what is billed is less.
    """
    vectors = caching.vectors
    assert vectors is not None
    kept = {key: found.entry for key, found in vectors.found.items()}
    data = [
        {
            "object": "embedding",
            "index": place,
            "embedding": msgspec.Raw(fresh[key] if key in fresh else kept[key].body),
        }
        for place, key in enumerate(vectors.keys)
    ]
    used = sum(
        tokens[key] if key in tokens else kept[key].usage.prompt_tokens or 0 for key in vectors.keys
    )
    head: dict[str, object] = {
        "id": f"embd-{exchange.event_id.rpartition('_')[2]}",
        "object": "list",
        "created": exchange.arrived.at_ms // 1000,
        "model": caching.plan.targets[0].pool.served_model_name,
    }
    head |= _split(like)
    return _encode({**head, "data": data, "usage": {"prompt_tokens": used, "total_tokens": used}})


def _shared_out(attempt: Attempt, vectors: Vectors) -> dict[bytes, int]:
    """The tokens of each input that was sent: a worker tells them of all together.

    They are shared out by length, so that they add up to what was told.
    """
    used = None if attempt.usage is None else attempt.usage.prompt_tokens
    weights = vectors.weights()
    total, told, upto = sum(weights), used or 0, 0
    shares: dict[bytes, int] = {}
    given = 0
    for key, weight in zip(vectors.sent, weights, strict=True):
        upto += weight
        share = told * upto // total - given
        shares[key] = share
        given += share
    return shares


def _nearest_tier(found: list[Found]) -> CacheTier:
    """Where the vectors were; of several the one that is further away."""
    tiers = {one.tier for one in found}
    return CacheTier.SHARED if CacheTier.SHARED in tiers else CacheTier.EMBEDDING
