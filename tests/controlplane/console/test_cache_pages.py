"""The pages of cache policies and purges: what is reviewed, warned of, saved and told."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import AuditEntry, CachePolicy, Purge, Role, Route
from controlplane.services.actors import Actor
from controlplane.services.caches import create_policy
from controlplane.services.keys import create_key
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from inference.contract.events import CacheUse
from inference.contract.kinds import CacheOutcome, CacheTier
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, words_of
from tests.controlplane.ledger_events import make_end, make_origin

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


def test_sharing_among_routes_is_told_of_and_stays_in_the_organisation(operator: Reader) -> None:
    flow = Flow(operator.client, "/caches/new/")
    flow.send("review", name="x", scope="shared")
    assert "Shared by the whole organisation, all routes of the policy alike" in flow.words
    assert "What was answered on one of its routes is served on every other" in flow.words


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


def test_savings_say_what_to_do_where_there_is_nothing(operator: Reader, actor: Actor) -> None:
    page = words_of(operator.page("/caches/savings/"))
    assert "There is no cache policy. Make one , then give it to a route." in page
    assert "Nothing was looked for by meaning" in page
    assert "No gateway tells of a tier" in page
    create_policy(actor, organisation=operator.organisation, name="answers")
    assert "No route has a cache policy" in words_of(operator.page("/caches/savings/"))
    refused = operator.get("/caches/savings/?range=century")
    assert "The question cannot be answered" in words_of(refused.content.decode())


def test_savings_tell_rates_money_and_false_hits_of_the_range(
    operator: Reader, route: Route, actor: Actor
) -> None:
    policy = create_policy(
        actor, organisation=operator.organisation, name="answers", tiers=["local", "semantic"]
    )
    Route.objects.update(cache_policy=policy)
    now = timezone.now()
    hit = CacheUse(
        policy.pk,
        CacheOutcome.HIT,
        tier=CacheTier.SEMANTIC,
        entry_id="e_1",
        similarity=0.97,
        saved_prompt_tokens=100,
        saved_completion_tokens=10,
        saved_nanousd=2_000_000_000,
        saved_ms=500.0,
    )
    check = replace(hit, outcome=CacheOutcome.CHECKED, similarity=0.93, agreed=False)
    uses = (hit, replace(hit, tier=CacheTier.LOCAL, similarity=None, saved_nanousd=None), check)
    at_ms = int(now.timestamp() * 1000)
    origin = make_origin(route_id=route.pk, route_name="chat")
    ends = [
        make_end(number, at_ms=at_ms, origin=origin, charges=(), cache=use)
        for number, use in enumerate((*uses, CacheUse(policy.pk, CacheOutcome.MISS)))
    ]
    operator.record(*ends, now=now)
    page = words_of(operator.page(f"/caches/savings/?route={route.pk}"))
    assert "2 of 4 requests were served from a cache: 50.0 %." in page
    assert "$2.00 saved, at the prices of the moment; 1 that were served have no price" in page
    assert "local 1 25.0 % 100 / 10 no price 500 ms" in page
    assert "semantic 1 25.0 % 100 / 10 $2.00 500 ms" in page
    assert "chat 4 50.0 % $2.00 0.92 100.0 % (20.7 to 100.0), 1 of 1 checks" in page
    assert "2 had a nearest of at least 0.50; 2 of them at or above the threshold of 0.92" in page
    assert "a check" in page
    told = operator.client.get(f"/api/v1/caches/savings/?route={route.pk}").json()
    assert (told["total"]["served"], told["total"]["hit_rate"]) == (2, 0.5)
    assert (told["total"]["saved_nanousd"], told["total"]["unknown_saved"]) == ("2000000000", 1)
    assert told["outcomes"] == {"hit": 2, "miss": 1, "checked": 1}
    assert [one["tier"] for one in told["tiers"]] == ["local", "semantic"]
    assert told["similarities"] == [
        {"similarity": 0.93, "verdict": "differed", "requests": 1},
        {"similarity": 0.97, "verdict": "served", "requests": 1},
    ]


def test_a_wrong_answer_is_reviewed_with_what_follows(
    operator: Reader, route: Route, actor: Actor
) -> None:
    policy = create_policy(
        actor, organisation=operator.organisation, name="answers", tiers=["local", "semantic"]
    )
    Route.objects.update(cache_policy=policy)
    use = CacheUse(
        policy.pk, CacheOutcome.HIT, tier=CacheTier.SEMANTIC, entry_id="e_1", similarity=0.97
    )
    origin = make_origin(route_id=route.pk, route_name="chat")
    end = make_end(1, origin=origin, charges=(), cache=use)
    operator.record(end)
    path = f"/requests/{end.event_id}/wrong-answer/"
    assert path in operator.page(f"/requests/{end.event_id}/")
    flow = Flow(operator.client, path)
    assert "Takes out the entry e_1" in flow.words
    assert "Raises the route's least similarity to 0.93" in flow.words
    assert "Give a reason" in words_of(flow.send("save").content.decode())
    assert flow.send("save", reason="another city").status_code == 302
    assert Purge.objects.get().reason == "another city"
    again = Flow(operator.client, path)
    assert "Somebody told of this answer already" in again.words
    vectors = make_end(2, origin=origin, charges=(), cache=replace(use, inputs=3, inputs_hit=3))
    operator.record(vectors)
    path = f"/requests/{vectors.event_id}/wrong-answer/"
    assert path not in operator.page(f"/requests/{vectors.event_id}/")
    assert "purge their namespace or the policy" in Flow(operator.client, path).words


def test_what_if_tells_other_times_and_scopes_and_what_it_cannot_know(
    operator: Reader, route: Route, actor: Actor
) -> None:
    policy = create_policy(actor, organisation=operator.organisation, name="watch", tiers=[])
    Route.objects.update(cache_policy=policy)
    path = f"/caches/{policy.pk}/"
    assert "Nothing tells what repeats" in words_of(operator.page(f"{path}?tab=what-if"))
    now = timezone.now()
    use = CacheUse(policy.pk, CacheOutcome.MISS, entry_id="e_1")
    ends = [
        make_end(
            number,
            at_ms=int(now.timestamp() * 1000) - minutes * 60_000,
            received_at_ms=int(now.timestamp() * 1000) - minutes * 60_000 - 1_000,
            cache=use if number < 4 else replace(use, entry_id=None),
        )
        for number, minutes in enumerate((130, 129, 60, 2, 1))
    ]
    operator.record(*ends, now=now)
    page = words_of(operator.page(f"{path}?tab=what-if"))
    assert "in fact 0.0 % of 4 requests" in page
    table = page[page.index("Kept for") :]
    assert "1 min 25.0 % $0.00049, 2,028 tokens" in table, table[:900]
    assert "24 h 75.0 %" in page
    assert "not known" in page
    assert "1 more have no id and can't be judged." in page
    edit = Flow(operator.client, f"{path}edit/")
    edit.send("review", ttl_default_s="86400")
    assert "Would have served 75.0 % of 4 requests" in edit.words
    told = operator.client.get(f"/api/v1{path}what-if/").json()
    assert (told["now"]["served"], told["without_id"], told["is_part"]) == (0, 1, False)
    assert told["draft"]["served"] == 1
    wider = {"scope": "organisation"}
    assert [one["would_have"] for one in told["tried"] if one["scope"] == "team"] == [None] * 5
    csrf = operator.client.post(f"/api/v1{path}what-if/", wider, content_type="application/json")
    assert csrf.json()["draft"] is None
