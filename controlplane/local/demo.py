"""The demonstration's configuration: rows such as a user would write, and never traffic.

Runs inside Django, as `manage.py seed_demo`; everything goes through the services. Safe to repeat:
what is there stays as it was edited, and what this start needs is added.
"""

import json
import secrets
import socket
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass
from random import SystemRandom

from django.conf import settings

from controlplane.local.access import ADMIN_PASSWORD, ADMIN_USER, API_KEY, API_TOKEN, DEMO_MODEL
from controlplane.models import (
    CatalogueModel,
    Organisation,
    Pool,
    Role,
    Route,
    ServiceAccount,
    User,
)
from controlplane.services import keys, models, organisations, pools, prices, routes, users
from controlplane.services.actors import Actor, Via, system_actor
from controlplane.services.routes import TargetChoice
from inference.contract.kinds import PoolPower, Provisioner, Scope, Task
from inference.contract.sealing import worker_key

ORGANISATION = "Demo"
USER = "admin"
ACCOUNT = "demo-automation"
KEY = "demo"
ENGINE_POOL = "smollm2"
DIRECT_POOL = "smollm2-direct"
UPSTREAM_POOL = "upstream"
EMBEDDING_POOL = "all-minilm-l6-v2"
EMBEDDING_ROUTE = "embed"
ENGINE_MODEL = "smollm2-135m-instruct"
EMBEDDING_MODEL = "all-minilm-l6-v2"
ENGINE_ARGUMENTS = {
    "dtype": "bfloat16",
    "enforce_eager": True,
    "max_model_len": 2048,
    "max_num_seqs": 64,
}
# $0.02 and $0.08 for a million tokens: what hosts ask for models of this size, so that the ledger
# has a price to show.
ENGINE_PRICE = {
    "input_nanousd_per_mtok": 20_000_000,
    "output_nanousd_per_mtok": 80_000_000,
    "cached_input_nanousd_per_mtok": 10_000_000,
}
EMBEDDING_ARGUMENTS = {"dtype": "bfloat16", "enforce_eager": True, "max_model_len": 256}
EMBEDDING_PRICE = {"input_nanousd_per_mtok": 10_000_000, "output_nanousd_per_mtok": 0}
# Below the range from which systems lend ports to outgoing connections.
ENGINE_PORTS = range(18_000, 28_000)
UPSTREAM_TIMEOUT_S = 10


class DemoProblem(Exception):
    """The demonstration cannot be set up as asked; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """A server of the user's own to put behind the demo route."""

    url: str
    key: str | None


def seed(*, has_engine: bool, upstream: Upstream | None, known: frozenset[str]) -> dict[str, str]:
    """Set the demonstration up; return the secrets made now, by their names in demo.env.

    A secret that isn't in `known` is made anew: whoever lost the file gets in again.
    """
    actor = system_actor("seed_demo", via=Via.COMMAND, reason="demonstration")
    organisation = Organisation.objects.filter(name=ORGANISATION).first()
    if organisation is None:
        organisation = organisations.create_organisation(actor, name=ORGANISATION)
    wanted: list[Pool] = []
    if has_engine:
        wanted += _engine_pools(actor, organisation)
        _embedding(actor, organisation)
    if upstream is not None:
        wanted.append(_upstream_pool(actor, organisation, upstream))
    _power_engine(actor, organisation, is_on=has_engine)
    if wanted:
        _route(actor, organisation, wanted)
    return _secrets(actor, organisation, known)


def _pool(organisation: Organisation, name: str) -> Pool | None:
    return Pool.objects.filter(organisation=organisation, name=name).first()


def _engine_pools(actor: Actor, organisation: Organisation) -> list[Pool]:
    """The pool whose worker we start, and a static one at the same worker with its key."""
    engine = _pool(organisation, ENGINE_POOL) or _make_engine_pool(actor, organisation)
    direct = _pool(organisation, DIRECT_POOL)
    if direct is None:
        direct = pools.create_pool(
            actor,
            organisation=organisation,
            name=DIRECT_POOL,
            model=ENGINE_MODEL,
            provisioner=Provisioner.STATIC.value,
            backend=engine.backend,
            addresses=[f"http://127.0.0.1:{engine.port_base}/v1"],
            credential=worker_key(settings.HEADWORKS.data_key_bytes, f"{engine.pk}-0"),
        )
    return [engine, direct]


def _make_engine_pool(actor: Actor, organisation: Organisation) -> Pool:
    pool = pools.create_pool(
        actor,
        organisation=organisation,
        name=ENGINE_POOL,
        model=ENGINE_MODEL,
        provisioner=Provisioner.PROCESS.value,
        model_source=ENGINE_MODEL,
        engine_arguments=ENGINE_ARGUMENTS,
        port_base=_free_port(),
    )
    model: CatalogueModel = pool.model
    if model.price is None:
        prices.create_price(actor, model=model, **ENGINE_PRICE)
    return pool


def _embedding(actor: Actor, organisation: Organisation) -> None:
    """A route to a second engine, which is stopped: two take more memory than a laptop has idle."""
    if _pool(organisation, EMBEDDING_POOL) is not None:
        return
    model = CatalogueModel.objects.filter(organisation=organisation, name=EMBEDDING_MODEL).first()
    if model is None:
        model = models.create_model(
            actor, organisation=organisation, name=EMBEDDING_MODEL, task=Task.EMBED.value
        )
        prices.create_price(actor, model=model, **EMBEDDING_PRICE)
    pool = pools.create_pool(
        actor,
        organisation=organisation,
        name=EMBEDDING_POOL,
        model=EMBEDDING_MODEL,
        provisioner=Provisioner.PROCESS.value,
        model_source=EMBEDDING_MODEL,
        engine_arguments=EMBEDDING_ARGUMENTS,
        port_base=_free_port(),
        power=PoolPower.STOPPED.value,
    )
    if not Route.objects.filter(organisation=organisation, name=EMBEDDING_ROUTE).exists():
        targets = [TargetChoice(pool=pool, weight=1)]
        routes.create_route(actor, organisation=organisation, name=EMBEDDING_ROUTE, targets=targets)


def _free_port() -> int:
    """A port for an engine that nothing listens on now; it stays the pool's from then on."""
    taken = set(Pool.objects.exclude(port_base=None).values_list("port_base", flat=True))
    for _ in range(100):
        port = SystemRandom().choice(ENGINE_PORTS)
        if port in taken:
            continue
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise DemoProblem(f"no free port between {ENGINE_PORTS.start} and {ENGINE_PORTS.stop}")


def _upstream_pool(actor: Actor, organisation: Organisation, upstream: Upstream) -> Pool:
    pool = _pool(organisation, UPSTREAM_POOL)
    addresses = [upstream.url.rstrip("/")]
    if pool is not None:
        # a key that isn't given stays as it is: missing is not "none"
        given = {} if upstream.key is None else {"credential": upstream.key}
        changes = {"addresses": addresses, **given}
        return pools.update_pool(actor, pool_id=pool.pk, changes=changes)
    return pools.create_pool(
        actor,
        organisation=organisation,
        name=UPSTREAM_POOL,
        model=_first_model(upstream),
        provisioner=Provisioner.STATIC.value,
        addresses=addresses,
        credential=upstream.key,
    )


def _first_model(upstream: Upstream) -> str:
    """The name of a model the upstream says it serves."""
    headers = {"Authorization": f"Bearer {upstream.key}"} if upstream.key else {}
    request = urllib.request.Request(f"{upstream.url.rstrip('/')}/models", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=UPSTREAM_TIMEOUT_S) as answer:
            return str(json.load(answer)["data"][0]["id"])
    except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
        raise DemoProblem(
            f"HEADWORKS_DEMO_UPSTREAM_URL: {upstream.url}/models does not list a model ({error})"
        ) from error


def _power_engine(actor: Actor, organisation: Organisation, *, is_on: bool) -> None:
    """Have the engines' pools run only where an engine can; embedding waits to be started."""
    wanted = {ENGINE_POOL: (PoolPower.RUNNING if is_on else PoolPower.STOPPED).value}
    if not is_on:
        wanted[EMBEDDING_POOL] = PoolPower.STOPPED.value
    for name, power in wanted.items():
        pool = _pool(organisation, name)
        if pool is not None and pool.power != power:
            pools.update_pool(actor, pool_id=pool.pk, changes={"power": power})


def _route(actor: Actor, organisation: Organisation, wanted: Sequence[Pool]) -> None:
    """A route over the pools of this start; one that reaches any of them stays as it was edited."""
    targets = [TargetChoice(pool=pool, weight=1) for pool in wanted]
    route = Route.objects.filter(organisation=organisation, name=DEMO_MODEL).first()
    if route is None:
        routes.create_route(actor, organisation=organisation, name=DEMO_MODEL, targets=targets)
        return
    held = list(route.targets.select_related("pool"))
    if any(target.weight and target.pool in wanted for target in held):
        return
    idle = [
        TargetChoice(pool=target.pool, weight=0) for target in held if target.pool not in wanted
    ]
    routes.update_route(actor, route_id=route.pk, changes={"targets": [*targets, *idle]})


def _secrets(actor: Actor, organisation: Organisation, known: frozenset[str]) -> dict[str, str]:
    """Make what isn't known, and end what it replaces."""
    made: dict[str, str] = {}
    user = User.objects.filter(username=USER).first()
    if user is None or ADMIN_PASSWORD not in known:
        made |= {ADMIN_USER: USER, ADMIN_PASSWORD: secrets.token_urlsafe(12)}
        _user(actor, organisation, user, made[ADMIN_PASSWORD])
    if API_TOKEN not in known:
        made[API_TOKEN] = _token(actor, _account(actor, organisation))
    if API_KEY not in known:
        made[API_KEY] = _key(actor, organisation)
    return made


def _token(actor: Actor, account: ServiceAccount) -> str:
    for old in account.tokens.filter(revoked_at=None):
        users.revoke_token(actor, token_id=old.pk)
    return users.issue_token(actor, service_account=account).text


def _key(actor: Actor, organisation: Organisation) -> str:
    for old in organisation.keys.filter(revoked_at=None, name__regex=rf"^{KEY}-[0-9a-f]{{6}}$"):
        keys.revoke_key(actor, key_id=old.pk)
    scopes = [Scope.INFERENCE.value, Scope.DEBUG.value]
    name = f"{KEY}-{secrets.token_hex(3)}"
    return keys.create_key(actor, organisation=organisation, name=name, scopes=scopes).text


def _user(actor: Actor, organisation: Organisation, user: User | None, password: str) -> User:
    if user is not None:
        return users.set_password(actor, user_id=user.pk, password=password)
    made = users.create_user(actor, username=USER, password=password, is_platform_admin=True)
    users.grant_role(actor, subject=made, organisation=organisation, role=Role.ADMIN)
    return made


def _account(actor: Actor, organisation: Organisation) -> ServiceAccount:
    account = ServiceAccount.objects.filter(organisation=organisation, name=ACCOUNT).first()
    if account is None:
        account = users.create_service_account(actor, organisation=organisation, name=ACCOUNT)
        users.grant_role(actor, subject=account, organisation=organisation, role=Role.ADMIN)
    return account
