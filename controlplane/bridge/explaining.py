"""Asks the data plane's decisions about one request, on the fleet as it is now."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from controlplane.bridge.budgets_left import read_budgets_left
from controlplane.bridge.configurations import live_configuration
from controlplane.bridge.described import read_described
from controlplane.decisions.described import Described, without_load
from controlplane.selectors.access import Access
from inference.contract.sealing import key_bucket
from inference.contract.snapshot import ConfigSnapshot, KeyRecord, RouteRecord
from inference.decisions.endpoints import OFFERS
from inference.decisions.explain import Case, Explanation, explain
from inference.decisions.facts import RequestFacts
from inference.decisions.plan import find_route
from inference.decisions.rules import headers_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request: who makes it and what is known of it.

    `drafted` is a route in place of the one there is. `process` is the gateway process to decide
    as; the chances are those of plan and choice.
    """

    identity: KeyRecord
    facts: RequestFacts
    now_s: float
    drafted: Mapping[str, object] | None = None
    process: str | None = None
    plan_u: float = 0.5
    worker_u: float = 0.5


@dataclass(frozen=True, slots=True)
class Answered:
    """An explanation, and what it rests on. `is_load_known`: others' traffic was looked at,
    `is_spending_known`: what is left of budgets as well.

    `facts` are those a gateway would have: of the headers those that a rule looks at.
    """

    explanation: Explanation
    facts: RequestFacts
    snapshot: ConfigSnapshot
    described: Described
    is_load_known: bool
    is_spending_known: bool
    is_draft: bool


def answer(access: Access, question: Question, *, clock_s: float) -> Answered:
    """Explain what a gateway would do with a request; raises Conflict without a configuration.

    `clock_s` is the present, by which the fleet is looked at; the request may be at another time.
    """
    snapshot = live_configuration()
    if question.drafted is not None:
        snapshot = with_route(snapshot, route_of(question.drafted))
    organisation_id = question.identity.organisation_id
    described = read_described(
        snapshot, organisation_id=organisation_id, process=question.process, now_s=clock_s
    )
    is_reader = access.reads_organisation(organisation_id)
    is_load_known = is_reader and described.process is not None
    facts = _as_known(question, snapshot)
    left = None
    if is_reader:
        left = read_budgets_left(snapshot, question.identity, facts, at_s=question.now_s)
    case = Case(
        snapshot=snapshot,
        identity=question.identity,
        facts=facts,
        fleet=(described if is_reader else without_load(described)).fleet,
        now=question.now_s,
        plan_u=question.plan_u,
        worker_u=question.worker_u,
        offers=OFFERS,
        steps=described.steps if is_reader else {},
        budgets_left=left or {},
    )
    is_draft = question.drafted is not None
    return Answered(
        explain(case),
        facts,
        snapshot,
        described,
        is_load_known=is_load_known,
        is_spending_known=left is not None,
        is_draft=is_draft,
    )


def _as_known(question: Question, snapshot: ConfigSnapshot) -> RequestFacts:
    facts = question.facts
    route = find_route(snapshot, question.identity, facts.model)
    tested = () if route is None else snapshot.tested.get(route.id, ())
    looked_at = frozenset() if route is None else headers_of(route, tested)
    headers = tuple(one for one in facts.headers if one[0] in looked_at)
    return replace(facts, headers=headers)


def route_of(drafted: Mapping[str, object]) -> RouteRecord:
    """The record of a route told as plain JSON."""
    return msgspec.convert(drafted, RouteRecord)


def with_route(snapshot: ConfigSnapshot, route: RouteRecord) -> ConfigSnapshot:
    """The configuration with this route in place of the one of its id."""
    routes = {name: one for name, one in snapshot.routes.items() if one.id != route.id}
    aliases = {name: one for name, one in snapshot.aliases.items() if one.id != route.id}
    routes[route.organisation_id, route.name] = route
    for alias in route.aliases:
        aliases[route.organisation_id, alias] = route
    return replace(snapshot, routes=routes, aliases=aliases)


def key_of(snapshot: ConfigSnapshot, key_id: str) -> KeyRecord | None:
    """A key as gateways know it; None if it is revoked."""
    bucket = snapshot.keys.get(key_bucket(key_id), {})
    return bucket.get(key_id)
