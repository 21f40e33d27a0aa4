"""Every path of the console and the API, as the resolver has them, by role and tenant.

A path whose noun nobody has placed in the tables of url_places.py fails, so none is added
unguarded. Of roles that include each other those are asked between which the answer changes; that
they do is a test of its own. Writes are tried on rows of organisation A and rolled back. What is
A's is called canary: nobody who has no role there may read that word, whatever he asks.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from controlplane.models import AuditEntry, ConfigRevision, Organisation, ReportExport, Role
from controlplane.selectors.access import Access, Grant
from controlplane.services.actors import Actor
from controlplane.services.bindings import grant_role
from controlplane.services.gateways import update_gateway
from controlplane.services.keys import create_key
from controlplane.services.organisations import create_organisation
from controlplane.services.projects import create_project
from controlplane.services.teams import create_team
from controlplane.services.usage import record_usage
from controlplane.services.users import create_service_account, create_user, issue_token
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.ledger_events import NOON, make_end, make_origin
from tests.controlplane.url_paths import Path, paths
from tests.controlplane.url_places import (
    ANYBODY,
    CALLERS,
    NOUNS,
    OF_A,
    PLACES,
    ROOT,
    WHOLE,
    WITH_A_ROLE,
    WRITERS,
    is_implied,
)
from tests.controlplane.url_rows import alert_rows, cache_rows, money_rows

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

CANARY = re.compile("canary", re.IGNORECASE)

ACTS = {"POST": "create", "PATCH": "edit", "PUT": "edit", "DELETE": "delete"}
SAFE_FORMS = {"create", "edit", "delete"}
PARAMETER = re.compile(r"\(\?P<(?P<name>\w+)>(?:\[[^\]]*\]|\\.|[^()])*\)|<(?:\w+:)?(?P<kind>\w+)>")
SHOWING = {"list", "detail", "log", "entry", "export", "history"}


_PLURALS = {"switch": "switches", "delivery": "deliveries", "cache-policy": "caches"}
_NOUN = re.compile(
    "|".join(
        f"{_PLURALS.get(one, one + 's')}|{one}" for one in sorted(NOUNS, key=len, reverse=True)
    )
)


def place_of(path: Path) -> frozenset[str] | None:
    """Who may go to a path that isn't a noun's; None for nouns."""
    words = path.name.split("-")
    for length in range(len(words), 0, -1):
        name = "-".join(words[:length])
        if name in PLACES:
            return PLACES[name]
    return None


def noun_of(path: Path) -> tuple[str, str]:
    """The noun of a path and what is done to it: `list`, `detail`, `create`, `edit`, …"""
    name = path.name.replace("_", "-").removeprefix("api-")
    match = _NOUN.match(name)
    if match is None:
        raise LookupError(f"{path.name} ({path.template}) is in no table of this test")
    noun, act = match[0].removesuffix("s"), name[match.end() :].strip("-")
    noun = next((one for one, many in _PLURALS.items() if many == match[0]), noun)
    noun = noun if noun in NOUNS else match[0]
    is_one = PARAMETER.search(path.template) is not None
    return noun, act or ("detail" if is_one else "list")


def expected(path: Path, method: str) -> frozenset[str]:
    """Who isn't refused. Lists aren't refused to anybody with a role, and show what is his."""
    place = place_of(path)
    if place is not None:
        return place
    noun, act = noun_of(path)
    if method == "GET" and act not in SAFE_FORMS and not _is_form(path):
        return _readers(path, noun, act)
    done = ACTS[method] if _is_api(path) and act in ("list", "detail") else act
    done = "create" if done == "bulk" else done
    writers = WRITERS.get((noun, done), NOUNS[noun].writers)
    if (noun, done) in (("key", "create"), ("project", "create")) and not _is_api(path):
        # the page is a form before its place is named, so it is theirs who may make one somewhere
        writers = NOUNS[noun].writers
    # whoever administers another organisation makes rows there, but none below a row of this one
    is_free = done == "create" and writers != ROOT and PARAMETER.search(path.template) is None
    return writers | {"admin of b"} if is_free else writers


def _readers(path: Path, noun: str, act: str) -> frozenset[str]:
    if act in ("log", "logs", "split"):
        # what a worker prints is of everybody who uses the pool; what rules take is all traffic
        return WHOLE
    if act not in ("list", "history"):
        return NOUNS[noun].readers
    # an administrator of a team sees the roles inside, so the page of roles is everybody's
    is_for_whole = NOUNS[noun].readers == WHOLE and noun != "binding"
    return WHOLE | {"admin of b"} if is_for_whole else WITH_A_ROLE


def _is_api(path: Path) -> bool:
    return path.name.startswith("api-")


def _is_form(path: Path) -> bool:
    """Whether a page of this path only exists to write, so that readers have no business there."""
    return not _is_api(path) and noun_of(path)[1] not in SHOWING


@dataclass(frozen=True)
class World:
    """Organisation A with one of everything, and organisation B."""

    a: Organisation
    b: Organisation
    ids: Mapping[str, str]


@pytest.fixture(scope="module")
def world(actor: Actor, make_standing_caller: Callable[..., Caller]) -> World:
    a = create_organisation(actor, name="Canary A")
    b = create_organisation(actor, name="B")
    admin = make_standing_caller("admin", a)
    team = create_team(actor, organisation=a, name="Canary team")
    project = create_project(actor, organisation=a, team=team, name="Canary project")
    key = create_key(actor, organisation=a, project=project, name="canary-key").key
    pool = admin.made("/pools/", {**POOL, "name": "canary-pool", "model": "canary-model"})
    price = {"model": "canary-model", "input_nanousd_per_mtok": "1"}
    targets = [{"pool": "canary-pool", "weight": 1}]
    route = {**ROUTE, "name": "canary-route", "targets": targets}
    limit = {"name": "canary-limit", "subject": "project", "subject_id": project.pk}
    limit |= {"unit": "requests", "window": "minute", "amount": 1}
    switch = {"subject": "key", "subject_id": key.pk, "reason": "canary"}
    scopes = [{"subject": "project", "subject_id": project.pk}]
    budget = {"name": "canary-budget", "scopes": scopes, "amount_nanousd": "1", "period": "day"}
    user = create_user(actor, username="canary-user", password="a long pass 1")
    binding = grant_role(actor, subject=user, organisation=a, role=Role.VIEWER)
    account = create_service_account(actor, organisation=a, name="canary-account")
    origin = make_origin(
        organisation_id=a.pk, team_id=team.pk, project_id=project.pk, route_name="canary-route"
    )
    end = replace(make_end(1), origin=origin)
    record_usage([end], now=NOON)
    update_gateway(actor, name="gw-1", changes={"is_drained": True})
    draft = {"route": "canary-route", "changes": {"max_attempts": 1}}
    ids = {
        "organisation": a.pk,
        "team": team.pk,
        "project": project.pk,
        "key": key.pk,
        "pool": pool["id"],
        "model": pool["model_id"],
        "route": admin.made("/routes/", route)["id"],
        "replay": admin.made("/replays/", draft)["id"],
        "limit": admin.made("/limits/", limit)["id"],
        **cache_rows(admin),
        **alert_rows(admin),
        "service-level": admin.get("/routes/").json()["results"][0]["id"],
        "budget": admin.made("/budgets/", budget)["id"],
        "switch": admin.made("/switches/", switch)["id"],
        "price": admin.made("/prices/", {**price, "output_nanousd_per_mtok": "2"})["id"],
        **money_rows(admin),
        **_reports(admin),
        "request": end.event_id,
        "snapshot": str(_newest_version(a)),
        "audit": str(_newest_entry(a)),
        "user": str(user.pk),
        "binding": binding.pk,
        "service-account": account.pk,
        "gateway": "gw-1",
        "token": issue_token(actor, service_account=account).token.pk,
    }
    return World(a, b, ids)


def _reports(admin: Caller) -> dict[str, str]:
    """The ids of a month that is closed, of a file that is there, and of a scheduled report."""
    asked = {"since": "2026-10-01", "until": "2026-11-01"}
    schedule = {"name": "canary-report", "group_by": "team", "cadence": "daily"}
    made = {
        "statement": admin.made("/statements/", {"month": "2026-10"})["id"],
        "report-export": admin.made("/report-exports/", asked)["id"],
        "report-schedule": admin.made(
            "/report-schedules/", {**schedule, "channel": "canary-channel"}
        )["id"],
    }
    ReportExport.objects.update(state="done", content=b"canary")
    return made


def _newest_version(organisation: Organisation) -> int:
    return ConfigRevision.objects.latest("version").version


def _newest_entry(organisation: Organisation) -> int:
    return AuditEntry.objects.filter(organisation_id=organisation.pk).latest("id").pk


@pytest.fixture
def visit(
    world: World, actor: Actor, state_store: Any, collected_files: None
) -> Callable[[str], Client]:
    """A browser signed in as one of the callers."""
    places: Mapping[str, Mapping[str, Any]] = {
        "team operator": {"role": Role.OPERATOR, "team": world.a.teams.get(pk=world.ids["team"])},
        "project viewer": {
            "role": Role.VIEWER,
            "project": world.a.projects.get(pk=world.ids["project"]),
        },
    }

    def make(caller: str) -> Client:
        client = Client(raise_request_exception=False)
        if caller == "nobody":
            return client
        is_root = caller == "platform admin"
        name = caller.replace(" ", "-")
        user = create_user(
            actor, username=name, password="a long pass 1", is_platform_admin=is_root
        )
        if caller == "admin of b":
            grant_role(actor, subject=user, organisation=world.b, role=Role.ADMIN)
        elif caller in places:
            grant_role(actor, subject=user, organisation=world.a, **places[caller])
        elif caller not in ("none", "platform admin"):
            grant_role(actor, subject=user, organisation=world.a, role=Role(caller))
        client.force_login(user)
        return client

    return make


def address(path: Path, world: World) -> str:
    """The path of organisation A's rows."""
    own = world.ids[noun_of(path)[0]] if place_of(path) is None else world.ids["snapshot"]
    parts = {**world.ids, "page": "overview", "number": "0", "pk": own}
    if "service-accounts/" in path.template and not _is_api(path):
        parts["pk"] = world.ids["service-account"]

    def filled(match: re.Match[str]) -> str:
        return parts.get(match["name"] or match["kind"], own)

    return PARAMETER.sub(filled, path.template).replace("\\", "")


def query_of(path: Path, world: World, caller: str) -> str:
    """Say which organisation, where it must be said; the platform's administrator has several."""
    name = path.name.removeprefix("api-")
    needs = name.startswith(
        (
            *("attention", "request", "usage", "live", "home", "overview", "my-usage"),
            *("spend", "report-list", "reports"),
        )
    )
    is_choice = caller == "platform admin" and not _is_api(path) and place_of(path) != ANYBODY
    return f"?organisation={world.a.pk}" if needs or is_choice else ""


def body_of(path: Path, world: World, *, is_root: bool) -> Mapping[str, Any]:
    """The least a write says: too little to be done, enough to be judged."""
    if path.name == "api-snapshot-restore":
        return {"nouns": ["routes"], "reason": "to see who may"}
    new = {"organisation": world.a.pk} if is_root else {}
    is_bulk = path.name.endswith("-bulk")
    return {"operations": [{"action": "create", "data": new}]} if is_bulk else new


def is_refused(status: int) -> bool:
    return status in (401, 403, 404, 405)


def wrongs(client: Client, caller: str, world: World) -> Iterator[str]:
    for path in paths():
        for method in path.methods:
            if is_implied(caller, expected(path, method)):
                continue
            where = address(path, world)
            asks_for_a = caller in OF_A
            told = where + (query_of(path, world, caller) if asks_for_a else "")
            body = json.dumps(body_of(path, world, is_root=caller == "platform admin"))
            is_api = where.startswith("/api/")
            with transaction.atomic():
                response = client.generic(
                    method,
                    told,
                    body if is_api and method != "GET" else "",
                    content_type="application/json" if is_api else "text/plain",
                    headers={"accept": "*/*"},
                )
                transaction.set_rollback(True)
            answer = response.status_code
            may = caller in expected(path, method)
            to_sign_in = answer == 302 and "/accounts/login/" in response["Location"]
            if answer >= 500:
                yield f"{method} {told}: {answer}"
            elif may and (is_refused(answer) or to_sign_in):
                yield f"{method} {told}: refused with {answer}"
            elif not may and not (is_refused(answer) or to_sign_in):
                yield f"{method} {told}: allowed with {answer}"
            elif caller not in OF_A and CANARY.search(response.getvalue().decode()):
                yield f"{method} {told}: tells of A"


def test_every_path_is_in_a_table() -> None:
    unknown = []
    for path in paths():
        if place_of(path) is None:
            try:
                noun_of(path)
            except LookupError as error:
                unknown.append(str(error))
    assert unknown == []
    assert len(paths()) > 40


def test_who_administers_may_what_any_role_may_and_who_views_writes_nothing() -> None:
    writes = {
        role: set(Access((Grant("bnd_1", role, "org_1"),)).writable_nouns("org_1")) for role in Role
    }
    assert writes[Role.VIEWER] == set()
    assert writes[Role.ADMIN] >= writes[Role.OPERATOR] | writes[Role.FINANCE]
    assert writes[Role.ADMIN] == set(Access(is_platform_admin=True).writable_nouns("org_1"))


@pytest.mark.parametrize("caller", CALLERS)
def test_every_path_by_role_and_tenant(
    caller: str, visit: Callable[[str], Client], world: World
) -> None:
    assert "\n".join(wrongs(visit(caller), caller, world)) == ""
