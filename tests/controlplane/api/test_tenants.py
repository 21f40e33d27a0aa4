"""A tenant's objects aren't there for anybody else."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.controlplane.conftest import POOL, ROUTE, Caller

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

LIMIT = {"name": "each", "subject": "key", "unit": "parallel", "amount": 8}
BUDGET = {"name": "each", "scopes": [{"subject": "key"}], "amount_nanousd": "1", "period": "day"}
PRICE = {"model": "gpt-x", "input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "2"}
LISTS = (
    *("organisations", "teams", "projects", "models", "prices", "pools", "routes", "keys"),
    *("limits", "budgets", "caches", "switches", "purges", "snapshots", "audit"),
)


@pytest.fixture(scope="module")
def admin(make_standing_caller: Callable[..., Caller]) -> Caller:
    return make_standing_caller("admin")


@pytest.fixture(scope="module")
def theirs(make_standing_caller: Callable[..., Caller]) -> dict[str, Any]:
    """One of everything in another organisation."""
    stranger = make_standing_caller("admin")
    pool = stranger.made("/pools/", POOL)
    return {
        "organisations": stranger.organisation.pk,
        "teams": stranger.organisation.teams.get().pk,
        "projects": stranger.organisation.projects.get().pk,
        "models": pool["model_id"],
        "pools": pool["id"],
        "prices": stranger.made("/prices/", PRICE)["id"],
        "routes": stranger.made("/routes/", ROUTE)["id"],
        "keys": stranger.made("/keys/", {"name": "app"})["id"],
        "limits": stranger.made("/limits/", LIMIT)["id"],
        "budgets": stranger.made("/budgets/", BUDGET)["id"],
        "caches": stranger.made("/caches/", {"name": "mine"})["id"],
        "purges": stranger.made("/purges/", {"kind": "tag", "value": "docs"})["id"],
        "switches": stranger.made("/switches/", {"subject": "organisation"})["id"],
    }


@pytest.mark.parametrize("noun", LISTS)
def test_a_list_holds_nothing_of_another_organisation(
    noun: str, theirs: dict[str, Any], admin: Caller
) -> None:
    results = admin.get(f"/{noun}/").json()["results"]
    owners = {row.get("organisation_id", row.get("id")) for row in results}
    assert owners <= {admin.organisation.pk}
    parameter = {"organisations": "name", "snapshots": "organisation_id"}.get(noun, "organisation")
    if noun == "audit":
        parameter = "organisation_id"
    asked = admin.get(f"/{noun}/?{parameter}={theirs['organisations']}")
    assert (asked.status_code, asked.json()["results"]) == (200, [])


@pytest.mark.parametrize("noun", LISTS[:10])
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_an_object_of_another_organisation_is_not_found(
    method: str, noun: str, theirs: dict[str, Any], admin: Caller
) -> None:
    document = {"name": "mine now"} if method == "PATCH" else None
    response = admin.call(method, f"/{noun}/{theirs[noun]}/", document)
    unsupported = {("DELETE", "organisations"), ("DELETE", "keys")}
    assert response.status_code == (405 if (method, noun) in unsupported else 404)


@pytest.mark.parametrize("action", ["revoke", "rotate"])
def test_a_key_of_another_organisation_cannot_be_ended(
    action: str, theirs: dict[str, Any], admin: Caller
) -> None:
    assert admin.post(f"/keys/{theirs['keys']}/{action}/").status_code == 404


def test_references_to_another_organisations_rows_are_unknown(
    theirs: dict[str, Any], admin: Caller
) -> None:
    admin.made("/pools/", {**POOL, "name": "own"})
    route = {"name": "r", "targets": [{"pool": theirs["pools"], "weight": 1}]}
    assert admin.post("/routes/", route).json()["fields"] == {
        "targets.0.pool": ["There is no pool of this name or id."]
    }
    price = {**PRICE, "model": theirs["models"]}
    assert list(admin.post("/prices/", price).json()["fields"]) == ["model"]
    project = {"name": "p", "team": theirs["teams"]}
    assert list(admin.post("/projects/", project).json()["fields"]) == ["team"]
    key = {"name": "k", "project": theirs["projects"]}
    assert list(admin.post("/keys/", key).json()["fields"]) == ["project"]
    restricted = {"name": "k", "routes": [theirs["routes"]]}
    assert list(admin.post("/keys/", restricted).json()["fields"]) == ["routes"]
    elsewhere = {"name": "k", "organisation": theirs["organisations"]}
    assert list(admin.post("/keys/", elsewhere).json()["fields"]) == ["organisation"]


def test_two_organisations_may_use_the_same_names(theirs: dict[str, Any], admin: Caller) -> None:
    admin.made("/pools/", POOL)
    admin.made("/routes/", ROUTE)
    admin.made("/keys/", {"name": "app"})


def test_a_port_shared_with_a_stranger_is_told_without_naming_the_stranger(
    make_caller: Callable[..., Caller], admin: Caller
) -> None:
    engine = {
        "provisioner": "process",
        "model": "small",
        "model_source": "smollm2-135m-instruct",
        "port_base": 9500,
    }
    stranger = make_caller("admin")
    taken = stranger.made("/pools/", {"name": "theirs", **engine})
    response = admin.post("/pools/", {"name": "ours", **engine})
    assert response.status_code == 400
    assert response.json()["fields"] == {
        "port_base": ["Another pool's workers have some of these ports."]
    }
    assert taken["id"] not in response.content.decode()
