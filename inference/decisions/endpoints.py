"""Which endpoints a route answers: by what its models are for, and by what its pools have.

What a pool doesn't have may be asked for in the words of another endpoint that it has.
"""

from collections.abc import Collection, Iterable, Mapping

from inference.contract.kinds import Backend, Endpoint, Task
from inference.contract.snapshot import ConfigSnapshot, PoolRecord, RouteRecord, TargetRecord

PATHS: Mapping[Endpoint, str] = {
    Endpoint.CHAT: "/v1/chat/completions",
    Endpoint.COMPLETIONS: "/v1/completions",
    Endpoint.RESPONSES: "/v1/responses",
    Endpoint.MESSAGES: "/v1/messages",
    Endpoint.EMBEDDINGS: "/v1/embeddings",
    Endpoint.RERANK: "/v1/rerank",
    Endpoint.SCORE: "/v1/score",
    Endpoint.TOKENIZE: "/tokenize",
    Endpoint.DETOKENIZE: "/detokenize",
    Endpoint.COUNT_TOKENS: "/v1/messages/count_tokens",
}
"""Where a gateway offers each endpoint."""

OTHER_PATHS: Mapping[str, Endpoint] = {
    "/rerank": Endpoint.RERANK,
    "/v2/rerank": Endpoint.RERANK,
    "/score": Endpoint.SCORE,
    "/v1/tokenize": Endpoint.TOKENIZE,
    "/v1/detokenize": Endpoint.DETOKENIZE,
}
"""Where it offers some as well: other servers have them there, or clients know one base URL."""

GENERATING = frozenset((Endpoint.CHAT, Endpoint.COMPLETIONS, Endpoint.RESPONSES, Endpoint.MESSAGES))
"""Those whose answers are generated token by token; their engines keep the prompt's cache."""

READING = frozenset((Endpoint.EMBEDDINGS, Endpoint.RERANK, Endpoint.SCORE))
"""Those whose model reads and writes nothing: no output tokens."""

COUNTING = frozenset((Endpoint.TOKENIZE, Endpoint.DETOKENIZE, Endpoint.COUNT_TOKENS))
"""Those that need a tokenizer alone: no tokens at all."""

_FOR_ALL = frozenset((Endpoint.TOKENIZE, Endpoint.DETOKENIZE))
_BY_TASK: Mapping[Task, frozenset[Endpoint]] = {
    Task.GENERATE: _FOR_ALL | GENERATING | {Endpoint.COUNT_TOKENS},
    Task.EMBED: _FOR_ALL | READING,
}

Offers = Mapping[Backend, Collection[Endpoint]]
"""What each kind of backend can be asked for."""

EVERYTHING: Offers = {kind: frozenset(Endpoint) for kind in Backend}

OFFERS: Offers = {
    Backend.VLLM: frozenset(Endpoint),
    Backend.OPENAI: frozenset(
        (Endpoint.CHAT, Endpoint.COMPLETIONS, Endpoint.RESPONSES, Endpoint.EMBEDDINGS)
    ),
}
"""The same, as their servers are: what a gateway plans with, and so does who asks it why."""


BRIDGES: Mapping[Endpoint, Endpoint] = {
    Endpoint.RESPONSES: Endpoint.CHAT,
    Endpoint.MESSAGES: Endpoint.CHAT,
    Endpoint.COUNT_TOKENS: Endpoint.TOKENIZE,
}
"""What can be said in the words of another endpoint; how is in `decisions.bridging`."""


def asked_as(pool: PoolRecord, endpoint: Endpoint, *, offers: Offers) -> Endpoint | None:
    """The endpoint at which a pool's workers are asked for another, mostly itself.

    None if they can't be. A pool that has the endpoint is asked for that.
    """
    if _has(pool, endpoint, offers):
        return endpoint
    bridge = BRIDGES.get(endpoint)
    return bridge if bridge is not None and _has(pool, bridge, offers) else None


def _has(pool: PoolRecord, endpoint: Endpoint, offers: Offers) -> bool:
    own = pool.endpoints
    return endpoint in offers[pool.backend] and (not own or endpoint in own)


def endpoints_of(
    snapshot: ConfigSnapshot, pool: PoolRecord, *, offers: Offers
) -> frozenset[Endpoint]:
    """What a pool's workers answer; a model that isn't known is taken for one that generates."""
    model = snapshot.models.get(pool.model_id)
    task = Task.GENERATE if model is None else model.task
    return frozenset(
        one for one in _BY_TASK[task] if asked_as(pool, one, offers=offers) is not None
    )


def fitting_targets(
    snapshot: ConfigSnapshot,
    targets: Iterable[TargetRecord],
    endpoint: Endpoint,
    *,
    offers: Offers,
    may_bridge: bool = True,
) -> tuple[TargetRecord, ...]:
    """Those of a route's targets that answer an endpoint, running or not, in their order.

    Unless it `may_bridge`, they must have it themselves. One whose pool isn't there answers
    nothing, which is no matter of the endpoint: it stays.
    """
    return tuple(
        target
        for target in targets
        if (pool := snapshot.pools.get(target.pool_id)) is None
        or _answers(snapshot, pool, endpoint, offers, may_bridge=may_bridge)
    )


def _answers(
    snapshot: ConfigSnapshot,
    pool: PoolRecord,
    endpoint: Endpoint,
    offers: Offers,
    *,
    may_bridge: bool,
) -> bool:
    """Whether it is among `endpoints_of` the pool, which a request needn't list."""
    model = snapshot.models.get(pool.model_id)
    task = Task.GENERATE if model is None else model.task
    if endpoint not in _BY_TASK[task]:
        return False
    asked = asked_as(pool, endpoint, offers=offers)
    return asked is endpoint or (asked is not None and may_bridge)


def misfit(
    snapshot: ConfigSnapshot, route: RouteRecord, endpoint: Endpoint, *, offers: Offers
) -> str:
    """What to tell a caller whose endpoint no target of the route answers."""
    served: set[Endpoint] = set()
    for target in route.targets:
        pool = snapshot.pools.get(target.pool_id)
        if pool is not None:
            served |= endpoints_of(snapshot, pool, offers=offers)
    paths = [path for one, path in PATHS.items() if one in served]
    return f"The model `{route.name}` answers {_listed(paths)}, not {PATHS[endpoint]}."


def _listed(words: list[str]) -> str:
    return " and ".join((*(() if len(words) < 2 else (", ".join(words[:-1]),)), *words[-1:]))
