"""The pages of cache policies and purges: what is reviewed, warned of, saved and told."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from controlplane.models import AuditEntry, CachePolicy, Purge, Role, Route, User
from controlplane.services.actors import Actor
from controlplane.services.caches import create_policy
from controlplane.services.keys import create_key
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from inference.contract.events import CacheUse
from inference.contract.kinds import CacheOutcome, CacheTier
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, words_of
from tests.controlplane.ledger_events import make_end

pytestmark = pytest.mark.slow


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ola", Role.OPERATOR)


@pytest.fixture
def route(operator: Reader, actor: Actor) -> Route:
    home = operator.organisation
    told: dict[str, Any] = {"provisioner": "static", "addresses": ["http://127.0.0.1:9000/v1"]}
    pool = create_pool(actor, organisation=home, name="mine", model="gpt-x", **told)
    return create_route(actor, organisation=home, name="chat", targets=[TargetChoice(pool, 1)])


def test_a_policy_is_made_reviewed_and_given_to_a_route(operator: Reader, route: Route) -> None:
    assert "Nothing is cached" in words_of(operator.page("/caches/"))
    flow = Flow(operator.client, "/caches/new/")
    flow.send("review", name="answers", ttl_code_s="60")
    assert "Keeps answers in each gateway, in the cache store" in flow.words
    assert "code 1 min, factual 24 h, extraction 24 h, creative never, else 5 min" in flow.words
    assert "none has it: nothing is kept until one is given it" in flow.words
    assert '"code": 60' in flow.page.replace("&quot;", '"')
    assert not CachePolicy.objects.exists()
    assert flow.send("save", reason="cheaper").status_code == 302
    policy = CachePolicy.objects.get()
    assert policy.ttl_s["code"] == 60
    assert AuditEntry.objects.get(noun="caches").reason == "cheaper"
    edit = Flow(operator.client, f"/routes/{route.pk}/edit/")
    edit.send("review", cache_policy=policy.pk)
    assert "Cache policy not set answers" in edit.words
    edit.send("save", reason="try it")
    route.refresh_from_db()
    assert route.cache_policy_id == policy.pk
    assert "chat" in words_of(operator.page("/caches/"))
    told = words_of(operator.page(f"/routes/{route.pk}/"))
    assert "Cache policy answers Least similarity 0.92 as its policy says" in told
    assert "Routes chat Keeps answers" in words_of(operator.page(f"/caches/{policy.pk}/"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"stores_sampled": "on"}, "Callers who ask for chance are given the same answer again."),
        ({"stores_tool_calls": "on"}, "A call of a tool that was kept is made again"),
        ({"ttl_creative_s": "60"}, "Creative answers are kept too"),
        ({"tiers": ["local", "semantic"], "similarity_min": "0.7"}, "At 0.7 questions are alike"),
        ({"tiers": ["local", "semantic"], "check_percent": "0"}, "nobody will know how many"),
    ],
)
def test_what_is_bold_is_warned_of(fields: dict[str, Any], said: str, operator: Reader) -> None:
    flow = Flow(operator.client, "/caches/new/")
    flow.send("review", name="x", **fields)
    assert said in flow.words


def test_sharing_with_other_organisations_is_the_platforms(operator: Reader) -> None:
    flow = Flow(operator.client, "/caches/new/")
    flow.send("review", name="x", scope="shared")
    assert "Sharing with other organisations is the platform's to set." in flow.words
    operator.client.get("/")
    user = operator.client.session["_auth_user_id"]
    User.objects.filter(pk=user).update(is_superuser=True)
    flow = Flow(operator.client, f"/caches/new/?organisation={operator.organisation.pk}")
    flow.send("review", name="x", scope="shared")
    assert "An answer one organisation paid for is given to another" in flow.words


def test_conditions_are_added_and_taken_away_by_buttons(operator: Reader, actor: Actor) -> None:
    create_key(actor, organisation=operator.organisation, name="app")
    flow = Flow(operator.client, "/caches/new/")
    flow.send("rule-add", name="answers")
    flow.send("rule-add", **{"rules-0-keys": "app", "rules-0-tasks": ["creative"]})
    assert "Bypass 2" in flow.words
    flow.send("rule-1-remove")
    flow.send("review")
    assert "key is app and task is creative" in flow.words
    flow.send("save", reason="fresh")
    policy = CachePolicy.objects.get()
    detail = words_of(operator.page(f"/caches/{policy.pk}/"))
    assert "Passed over key is app and task is creative" in detail
    edit = Flow(operator.client, f"/caches/{policy.pk}/edit/")
    assert 'value="app"' in edit.page
    edit.send("review", **{"rules-0-keys": "none such"})
    assert "Bypass 1: There is no key of this name or id." in edit.words


def test_an_old_value_comes_back_from_the_trail(operator: Reader, actor: Actor) -> None:
    policy = create_policy(actor, organisation=operator.organisation, name="answers")
    edit = Flow(operator.client, f"/caches/{policy.pk}/edit/")
    edit.send("review", ttl_code_s="60", stores_sampled="on")
    assert "Kept, code 1 h 1 min" in edit.words
    edit.send("save", reason="x")
    entry = AuditEntry.objects.filter(noun="caches", action="update").latest("id")
    back = Flow(operator.client, f"/caches/{policy.pk}/edit/?restore={entry.pk}")
    back.send("review")
    assert "Kept, code 1 min 1 h" in back.words


def test_a_purge_is_reviewed_with_what_it_reaches_and_asks_why(
    operator: Reader, route: Route, actor: Actor
) -> None:
    policy = create_policy(actor, organisation=operator.organisation, name="answers")
    Route.objects.update(cache_policy=policy)
    flow = Flow(operator.client, "/caches/purges/new/")
    assert '<option value="answers">policy</option>' in flow.page
    flow.send("review", kind="policy", value="answers")
    assert "Takes out everything under policy answers" in flow.words
    assert "Routes chat" in flow.words
    assert "It can't be undone" in flow.words
    assert "Give a reason" in words_of(flow.send("save").content.decode())
    assert not Purge.objects.exists()
    assert flow.send("save", reason="they were wrong").status_code == 302
    purge = Purge.objects.get()
    assert (purge.value, purge.reason, purge.made_by) == (policy.pk, "they were wrong", "ola")
    listed = words_of(operator.page("/caches/purges/"))
    assert "everything under policy answers ola they were wrong" in listed
    assert "Purge of everything under policy" in words_of(
        operator.page(f"/caches/purges/{purge.pk}/")
    )


def test_a_policy_in_use_is_not_removed(operator: Reader, route: Route, actor: Actor) -> None:
    policy = create_policy(actor, organisation=operator.organisation, name="answers")
    Route.objects.update(cache_policy=policy)
    flow = Flow(operator.client, f"/caches/{policy.pk}/delete/")
    assert "Cache policy answers is used by routes: chat." in flow.words
    Route.objects.update(cache_policy=None)
    flow = Flow(operator.client, f"/caches/{policy.pk}/delete/")
    assert flow.send("save", confirm="answers", reason="unused").status_code == 302
    assert not CachePolicy.objects.exists()


def test_a_request_says_what_the_cache_did_and_saved(operator: Reader, actor: Actor) -> None:
    policy = create_policy(actor, organisation=operator.organisation, name="answers")
    use = CacheUse(
        policy.pk,
        CacheOutcome.HIT,
        tier=CacheTier.LOCAL,
        entry_id="e_1",
        age_ms=12_000,
        saved_prompt_tokens=1_846,
        saved_completion_tokens=182,
        saved_nanousd=487_200,
        saved_ms=3_692.2,
    )
    end = make_end(1, charges=(), cache=use)
    check = replace(use, outcome=CacheOutcome.CHECKED, similarity=0.93, agreed=False)
    operator.record(end, make_end(2, cache=check), make_end(3))
    listed = words_of(operator.page("/requests/?last=ever"))
    assert "cache served from the cache (local)" in listed
    assert "saved $0.0004872" in listed
    told = words_of(operator.page(f"/requests/{end.event_id}/"))
    assert "Policy answers Entry e_1 Age 12.0 s Saved $0.0004872 at today's price" in told
    assert "Tokens saved, in / out 1,846 / 182 Time saved 3,692 ms" in told
    checked = words_of(operator.page(f"/requests/{make_end(2).event_id}/"))
    assert "said something else: a false hit" in checked
    assert 'id="cache"' not in operator.page(f"/requests/{make_end(3).event_id}/")
    assert make_end(2).event_id[-8:] not in operator.page("/requests/?last=ever&cache=hit")
