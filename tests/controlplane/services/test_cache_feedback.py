"""What follows from false hits: entries go, thresholds rise, as people or the system did it."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.alerting.base import Facts, Grid, Question
from controlplane.alerting.measures.cache_false_hits import measure
from controlplane.errors import Conflict
from controlplane.models import AuditEntry, CacheSimilarity, FalseHit, Purge, Request, Route
from controlplane.services.actors import Actor
from controlplane.services.cache_feedback import calibrate, tell_wrong_answer
from controlplane.services.usage import record_usage
from inference.contract.events import CacheUse
from inference.contract.kinds import CacheOutcome, CacheTier
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import NOON, make_end, make_origin
from tests.controlplane.snapshots import staged_snapshot

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

HIT = CacheUse("cpol_1", CacheOutcome.HIT, tier=CacheTier.SEMANTIC, entry_id="e_1", similarity=0.97)


@pytest.fixture
def meant(admin: Caller, route: Any) -> Any:
    """A route whose policy answers by meaning."""
    policy = {"name": "by meaning", "tiers": ["local", "semantic"]}
    admin.made("/caches/", policy)
    return admin.patch(f"/routes/{route['id']}/", {"cache_policy": "by meaning"}).json()


def served(admin: Caller, route: Any, number: int = 1, **changes: Any) -> Request:
    """A request that was served from a cache, as the ledger has it."""
    origin = make_origin(organisation_id=admin.organisation.pk, route_id=route["id"])
    end = make_end(number, origin=origin, charges=(), cache=replace(HIT, **changes))
    record_usage([end], now=NOON)
    return Request.objects.get(event_id=end.event_id)


def checked(admin: Caller, route: Any, agreed: int, differed: int, step: int = 93) -> None:
    """Checks of the last hour, as the roll-up has them."""
    for verdict, requests in (("agreed", agreed), ("differed", differed)):
        CacheSimilarity.objects.create(
            organisation_id=admin.organisation.pk,
            hour=timezone.now() - timedelta(hours=1),
            route_id=route["id"],
            step=step,
            verdict=verdict,
            requests=requests,
        )


def test_a_wrong_answer_takes_its_entry_out_and_raises_by_one_step(
    admin: Caller, meant: Any
) -> None:
    row = served(admin, meant)
    path = f"/requests/{row.event_id}/wrong-answer/"
    answer = admin.post(path, {"reason": "it named another city"})
    assert answer.status_code == 201, answer.content
    assert (answer.json()["source"], answer.json()["entry_id"]) == ("person", "e_1")
    purge = Purge.objects.get()
    assert (purge.kind, purge.value, purge.reason) == ("entry", "e_1", "it named another city")
    assert Route.objects.get(pk=meant["id"]).similarity_min == 0.93
    assert list(staged_snapshot().purges) == [purge.pk]
    actions = AuditEntry.objects.filter(reason="it named another city").order_by("id")
    assert [(one.action, one.noun) for one in actions] == [
        ("wrong_answer", "requests"),
        ("create", "purges"),
        ("update", "routes"),
    ]
    assert admin.post(path).status_code == 409
    (told,) = admin.get("/caches/false-hits/").json()
    assert (told["request_id"], told["reason"]) == (row.event_id, "it named another city")
    assert FalseHit.objects.count() == 1


def test_a_hit_on_the_very_same_is_purged_and_raises_nothing(
    admin: Caller, meant: Any, actor: Actor
) -> None:
    row = served(admin, meant, tier=CacheTier.LOCAL, similarity=None)
    tell_wrong_answer(actor, request=row)
    assert Purge.objects.get().value == "e_1"
    assert Route.objects.get(pk=meant["id"]).similarity_min is None


def test_what_came_from_no_cache_can_not_be_told_of(
    admin: Caller, meant: Any, actor: Actor, make_caller: Callable[..., Caller]
) -> None:
    row = served(admin, meant, outcome=CacheOutcome.MISS)
    with pytest.raises(Conflict):
        tell_wrong_answer(actor, request=row)
    vectors = served(admin, meant, number=3, tier=CacheTier.LOCAL, inputs=3, inputs_hit=3)
    with pytest.raises(Conflict, match="purge their namespace or the policy"):
        tell_wrong_answer(actor, request=vectors)
    hit = served(admin, meant, number=2)
    viewer = make_caller("viewer", admin.organisation)
    assert viewer.post(f"/requests/{hit.event_id}/wrong-answer/").status_code == 403
    stranger = make_caller("admin")
    assert stranger.post(f"/requests/{hit.event_id}/wrong-answer/").status_code == 404
    assert not Purge.objects.exists()


def test_a_threshold_is_raised_by_the_system_once_too_many_checks_differed(
    admin: Caller, meant: Any
) -> None:
    checked(admin, meant, agreed=200, differed=20)
    assert calibrate(timezone.now()) == 1
    assert Route.objects.get(pk=meant["id"]).similarity_min == 0.94
    (record,) = staged_snapshot().routes.values()
    assert record.similarity_min == 0.94
    entry = AuditEntry.objects.filter(noun="routes").latest("id")
    assert (entry.actor_kind, entry.actor_label) == ("system", "calibration of caches")
    assert "20 of 220 checked hits at 0.92 or more were false" in entry.reason
    assert "policy by meaning allows 1 %" in entry.reason
    # what was checked below the new threshold says nothing of it
    assert calibrate(timezone.now()) == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"false_hits_max_percent": None},
        {"false_hits_max_percent": 20},
        {"is_enabled": False},
        {"tiers": ["local"]},
    ],
)
def test_it_stays_where_the_policy_doesnt_ask_for_it(
    changes: dict[str, Any], admin: Caller, meant: Any
) -> None:
    admin.patch(f"/caches/{meant['cache_policy_id']}/", changes)
    checked(admin, meant, agreed=200, differed=20)
    assert calibrate(timezone.now()) == 0
    assert Route.objects.get(pk=meant["id"]).similarity_min is None


def test_what_was_checked_before_a_person_set_the_threshold_doesnt_raise_it_again(
    admin: Caller, meant: Any
) -> None:
    checked(admin, meant, agreed=200, differed=20)
    assert calibrate(timezone.now()) == 1
    path = f"/routes/{meant['id']}/"
    assert admin.patch(path, {"similarity_min": 0.92}).status_code == 200
    assert calibrate(timezone.now()) == 0
    CacheSimilarity.objects.update(hour=timezone.now())
    assert calibrate(timezone.now()) == 1


def test_an_alert_tells_the_share_and_nothing_where_too_few_were_checked(
    admin: Caller, meant: Any
) -> None:
    question = Question("cache_false_hits", admin.organisation.pk, "route", None, 86_400)
    places = question.places()
    checked(admin, meant, agreed=10, differed=9)
    grid = Grid(timezone.now())
    assert measure(question, places, grid, Facts()) == {meant["id"]: (None,)}
    checked(admin, meant, agreed=80, differed=1, step=95)
    facts = Facts()
    assert measure(question, places, grid, facts) == {meant["id"]: (10.0,)}
    assert "10 of 100 checked hits were false" in facts.said()[meant["id"]]
