"""Rules, tiers and aliases of routes by REST: what is kept, what is refused and where."""

from typing import Any

import pytest

from controlplane.models import AuditEntry, Route
from inference.contract.kinds import Weekday
from tests.controlplane.conftest import POOL, ROUTE, Caller
from tests.controlplane.snapshots import newest_revision, staged_snapshot

pytestmark = pytest.mark.slow


WHEN = {
    "teams": ["Default"],
    "projects": ["Default"],
    "tags": ["gold", "team=search"],
    "headers": [{"name": "X-Tier", "value": "Gold"}],
    "aliases": ["gpt-4o"],
    "tasks": ["code"],
    "priorities": ["interactive"],
    "prompt_tokens_min": 10,
    "prompt_tokens_max": 8_000,
    "schedule": {"days": ["sunday", "monday"], "from": "22:00", "to": "06:30"},
}


@pytest.fixture(scope="module")
def pools(admin: Caller) -> list[str]:
    """The ids of two pools, `mine` and `other`; they stand in every test of the module."""
    return [admin.made("/pools/", {**POOL, "name": name})["id"] for name in ("mine", "other")]


@pytest.fixture(scope="module")
def key(admin: Caller) -> str:
    return str(admin.made("/keys/", {"name": "bot"})["id"])


@pytest.fixture
def route(admin: Caller, pools: list[str], key: str) -> Any:
    rule = {
        "name": "night",
        "when": {"keys": ["bot"], **WHEN},
        "targets": [{"pool": "other", "weight": 1}, {"pool": "mine", "weight": 1, "tier": 1}],
    }
    return admin.made("/routes/", {**ROUTE, "aliases": ["gpt-4o"], "rules": [rule]})


def fields_of(response: Any) -> dict[str, list[str]]:
    assert response.status_code == 400, response.content
    found: dict[str, list[str]] = response.json()["fields"]
    return found


def the_rule(route: Any) -> Any:
    return staged_snapshot().routes[route["organisation_id"], route["name"]].rules[0]


def test_a_rule_reaches_the_gateways_and_comes_back_with_ids(
    admin: Caller, route: Any, pools: list[str], key: str
) -> None:
    (told,) = route["rules"]
    home = admin.organisation
    team, project = home.teams.get().pk, home.projects.get().pk
    assert told["when"] == {
        **WHEN,
        "keys": [key],
        "teams": [team],
        "projects": [project],
        "headers": [{"name": "x-tier", "value": "Gold"}],
        "schedule": {"days": ["monday", "sunday"], "from": "22:00", "to": "06:30"},
    }
    assert [(one["pool"], one["tier"]) for one in told["targets"]] == [(pools[1], 0), (pools[0], 1)]
    record = the_rule(route)
    assert (f"key_{record.when.key_ids[0]}", record.when.team_ids) == (key, (team,))
    assert record.when.headers == (("x-tier", "Gold"),)
    schedule = record.when.schedule
    assert schedule.days == (Weekday.MONDAY, Weekday.SUNDAY)
    assert (schedule.from_minute, schedule.to_minute) == (22 * 60, 6 * 60 + 30)
    again = admin.patch(f"/routes/{route['id']}/", {"rules": route["rules"]})
    assert (again.status_code, again.json()["version"]) == (200, route["version"])


def test_what_is_not_named_is_kept_and_identities_with_it(admin: Caller, route: Any) -> None:
    path = f"/routes/{route['id']}/"
    told = admin.patch(path, {"max_attempts": 3}).json()
    assert (told["rules"], told["aliases"]) == (route["rules"], ["gpt-4o"])
    # by its name a rule is the same one, and by their pools so are its targets
    again = {"name": "night", "targets": [{"pool": "mine", "weight": 9}]}
    (after,) = admin.patch(path, {"rules": [again]}).json()["rules"]
    (before,) = route["rules"]
    assert (after["id"], after["targets"][0]["id"]) == (before["id"], before["targets"][1]["id"])
    assert (after["targets"][0]["tier"], after["when"]["tags"]) == (1, [])
    assert admin.patch(path, {"rules": []}).json()["rules"] == []


def test_a_pool_stands_once_in_a_tier_and_in_as_many_tiers_and_rules_as_asked(
    admin: Caller, route: Any
) -> None:
    path = f"/routes/{route['id']}/"
    twice = [{"pool": "mine", "weight": 1}, {"pool": "mine", "weight": 2, "tier": 2}]
    rules = [{"name": name, "targets": twice} for name in ("a", "b")]
    told = admin.patch(path, {"targets": twice, "rules": rules}).json()
    assert [one["tier"] for one in told["targets"]] == [0, 2]
    assert told["targets"][0]["id"] == route["targets"][0]["id"]
    ids = [one["id"] for rule in told["rules"] for one in rule["targets"]]
    assert len(set(ids)) == 4
    same = [{"pool": "mine", "weight": 1, "tier": 2}, {"pool": "mine", "weight": 2, "tier": 2}]
    assert list(fields_of(admin.patch(path, {"targets": same}))) == ["targets.1.pool"]
    rules[1]["targets"] = same
    assert list(fields_of(admin.patch(path, {"rules": rules}))) == ["rules.1.targets.1.pool"]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"name": ""}, "rules.0.name"),
        ({"id": "rule_gone"}, "rules.0.id"),
        ({"colour": "red"}, "rules.0.colour"),
        ({"targets": []}, "rules.0.targets"),
        ({"targets": [{"pool": "mine", "weight": 0}]}, "rules.0.targets"),
        ({"targets": [{"pool": "nowhere", "weight": 1}]}, "rules.0.targets.0.pool"),
        ({"targets": [{"pool": "mine", "weight": 1, "tier": 8}]}, "rules.0.targets.0.tier"),
        ({"when": {"tags": ["fine", "not fine"]}}, "rules.0.when.tags.1"),
        ({"when": {"colour": []}}, "rules.0.when.colour"),
        ({"when": {"keys": ["bot", "nobody"]}}, "rules.0.when.keys.1"),
        ({"when": {"teams": ["team_other"]}}, "rules.0.when.teams.0"),
        ({"when": {"tasks": ["poetry"]}}, "rules.0.when.tasks.0"),
        ({"when": {"keys": None}}, "rules.0.when.keys"),
        (
            {"when": {"headers": [{"name": "Cookie", "value": "x"}]}},
            "rules.0.when.headers.0.name",
        ),
        (
            {"when": {"prompt_tokens_min": 9, "prompt_tokens_max": 8}},
            "rules.0.when.prompt_tokens_max",
        ),
        ({"when": {"schedule": {"from": "25:00"}}}, "rules.0.when.schedule.from"),
        ({"when": {"schedule": {"days": ["someday"]}}}, "rules.0.when.schedule.days.0"),
    ],
)
def test_what_is_wrong_is_told_at_its_place(
    change: dict[str, Any], place: str, admin: Caller, route: Any
) -> None:
    rule = {"name": "new", "targets": [{"pool": "mine", "weight": 1}], **change}
    response = admin.patch(f"/routes/{route['id']}/", {"rules": [rule]})
    assert list(fields_of(response)) == [place]


def test_aliases_and_steps_are_names_of_their_own(admin: Caller, route: Any) -> None:
    path = f"/routes/{route['id']}/"
    for change, place in (
        ({"aliases": ["fine", "no good"]}, "aliases.1"),
        ({"aliases": ["chat"]}, "aliases.0"),
        ({"degradation": ["trim_batch", "pray"]}, "degradation.1"),
        ({"degradation": ["trim_batch", "trim_batch"]}, "degradation"),
    ):
        assert list(fields_of(admin.patch(path, change))) == [place]
    steps = {"degradation": ["shed_batch"], "default_task": "creative"}
    told = admin.patch(path, steps).json()
    assert {name: told[name] for name in steps} == steps


def test_a_pool_that_a_rule_sends_to_is_not_removed(
    admin: Caller, route: Any, pools: list[str]
) -> None:
    response = admin.delete(f"/pools/{pools[1]}/")
    assert response.status_code == 409
    assert route["name"] in response.content.decode()


def test_who_goes_leaves_a_rule_that_matches_no_more_than_before(
    admin: Caller, route: Any, key: str
) -> None:
    path = f"/routes/{route['id']}/"
    second = admin.made("/keys/", {"name": "second"})["id"]
    rule = {"name": "theirs", "when": {"keys": [key, second]}, "targets": ROUTE["targets"]}
    admin.patch(path, {"rules": [rule]})
    assert admin.post(f"/keys/{second}/revoke/", {}).status_code == 200
    (told,) = admin.get(path).json()["rules"]
    assert (told["when"]["keys"], told["is_enabled"]) == ([key], True)
    assert admin.post(f"/keys/{key}/revoke/", {}).status_code == 200
    (told,) = admin.get(path).json()["rules"]
    assert (told["when"]["keys"], told["is_enabled"]) == ([key], False)
    assert the_rule(route).is_enabled is False
    entry = AuditEntry.objects.filter(noun="routes").order_by("-id")[0]
    assert [one["rules"][0]["is_enabled"] for one in (entry.before, entry.after)] == [True, False]
    assert entry.after["rules"][0]["when"] == {"keys": [key]}
    # as it is it can be kept, but not switched on
    assert admin.patch(path, {"rules": [told]}).status_code == 200
    told["is_enabled"] = True
    assert list(fields_of(admin.patch(path, {"rules": [told]}))) == ["rules.0.when.keys.0"]


def test_a_team_that_goes_switches_its_rule_off(admin: Caller, route: Any) -> None:
    team = admin.made("/teams/", {"name": "night shift"})["id"]
    rule = {"name": "theirs", "when": {"teams": ["night shift"]}, "targets": ROUTE["targets"]}
    admin.patch(f"/routes/{route['id']}/", {"rules": [rule]})
    assert admin.delete(f"/teams/{team}/").status_code == 204
    assert the_rule(route).is_enabled is False


def test_a_roll_back_brings_rules_tiers_and_aliases_back(admin: Caller, route: Any) -> None:
    path = f"/routes/{route['id']}/"
    version = newest_revision().version
    plain = {"aliases": [], "rules": [], "targets": [{"pool": "other", "weight": 1, "tier": 3}]}
    assert admin.patch(path, plain).status_code == 200
    document = {"nouns": ["routes"], "reason": "as before"}
    assert admin.post(f"/snapshots/{version}/restore/", document).status_code == 200
    told = admin.get(path).json()
    for name in ("aliases", "rules", "targets"):
        assert told[name] == route[name], name
    entry = AuditEntry.objects.filter(noun="routes", action="restore").order_by("-id")[0]
    assert entry.after["rules"][0]["when"]["tags"] == ["gold", "team=search"]
    assert Route.objects.get(pk=route["id"]).rules[0]["when"]["schedule"]["to_minute"] == 390
