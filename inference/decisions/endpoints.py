"""Which endpoints a route answers: by what its models are for, and by what its backends offer."""

from collections.abc import Collection, Mapping

from inference.contract.kinds import Backend, Endpoint, Task
from inference.contract.snapshot import ConfigSnapshot, PoolRecord, RouteRecord, TargetRecord

PATHS: Mapping[Endpoint, str] = {
    Endpoint.CHAT: "/v1/chat/completions",
    Endpoint.COMPLETIONS: "/v1/completions",
    Endpoint.EMBEDDINGS: "/v1/embeddings",
    Endpoint.TOKENIZE: "/tokenize",
    Endpoint.DETOKENIZE: "/detokenize",
}
"""Where a gateway offers each endpoint."""

_FOR_ALL = frozenset((Endpoint.TOKENIZE, Endpoint.DETOKENIZE))
_BY_TASK: Mapping[Task, frozenset[Endpoint]] = {
    Task.GENERATE: _FOR_ALL | {Endpoint.CHAT, Endpoint.COMPLETIONS},
    Task.EMBED: _FOR_ALL | {Endpoint.EMBEDDINGS},
}

Offers = Mapping[Backend, Collection[Endpoint]]
"""What each kind of backend can be asked for."""

EVERYTHING: Offers = {kind: frozenset(Endpoint) for kind in Backend}


def endpoints_of(
    snapshot: ConfigSnapshot, pool: PoolRecord, *, offers: Offers
) -> frozenset[Endpoint]:
    """What a pool's workers answer; a model that isn't known is taken for one that generates."""
    model = snapshot.models.get(pool.model_id)
    task = Task.GENERATE if model is None else model.task
    return _BY_TASK[task].intersection(offers[pool.backend])


def fitting_targets(
    snapshot: ConfigSnapshot, route: RouteRecord, endpoint: Endpoint, *, offers: Offers
) -> tuple[TargetRecord, ...]:
    """The targets of a route that answer an endpoint, running or not, in the route's order.

    One whose pool isn't there answers nothing, which is no matter of the endpoint: it stays.
    """
    return tuple(
        target
        for target in route.targets
        if (pool := snapshot.pools.get(target.pool_id)) is None
        or endpoint in endpoints_of(snapshot, pool, offers=offers)
    )


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
