"""Rules, tiers and aliases on the pages of routes."""

from collections.abc import Callable

import pytest
from django.utils import timezone

from controlplane.decisions.ledger import request_row
from controlplane.models import AuditEntry, Pool, Request, Role, Route
from controlplane.services.actors import Actor
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.teams import create_team
from inference.contract.kinds import PriorityClass, TaskClass
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, words_of
from tests.controlplane.console.test_route_pages import operator, pools, route
from tests.controlplane.ledger_events import make_end, make_origin

pytestmark = pytest.mark.slow


__all__ = ["operator", "pools", "route"]


def test_rules_are_written_moved_reviewed_and_told(
    operator: Reader, route: Route, pools: list[Pool], actor: Actor
) -> None:
    first = Flow(operator.client, f"/routes/{route.pk}/edit/")
    first.send("rule-add")
    first.send("rule-add")
    named = {"rules__0__name": "last", "rules__1__name": "gold"}
    targets = {f"rules__{one}__targets__0__pool": pools[one].pk for one in (0, 1)}
    team = operator.organisation.teams.get().name
    first.send("rule-1-up", **named, **targets, rules__1__tags="gold", rules__1__teams=team)
    # one that nothing was written in is passed over
    first.send("rule-add")
    first.send("review", rules__0__headers="x-tier gold")
    assert "Rule 1: write each header as name: value, one a line." in first.words
    first.send("review", rules__0__headers="", rules__0__tags="not so, gold")
    assert "Rule 1, tags: A tag must match" in first.words
    first.send("review", rules__0__tags="gold", rules__0__keys="nobody")
    assert "Rule 1, keys: There is no key of this name or id." in first.words
    first.send("review", rules__0__keys="", rules__0__is_enabled="on", rules__1__is_enabled="on")
    words = first.words
    assert f"gold: team is {team} and tagged gold, to qwen 1 (100.0 %)" in words
    assert "Rule last has no condition: it takes every request that gets there." in words
    assert "no request in the last hour to judge by" in words
    first.send("save", reason="gold first")
    assert first.response.status_code == 302
    assert [one["name"] for one in Route.objects.get().rules] == ["gold", "last"]
    page = operator.page(f"/routes/{route.pk}/")
    words = words_of(page)
    assert f"gold team is {team} and tagged gold" in words
    assert words.index("tagged gold") < words.index("any request") < words.index("Everything else")
    again = Flow(operator.client, f"/routes/{route.pk}/edit/")
    again.send("review")
    assert "Nothing differs from what is saved." in again.words
    again.send("review", rules__1__targets__0__tier="2", targets__1__tier="1")
    words = again.words
    assert "fallback 2 llama 1 (100.0 %)" in words
    assert "Weight, qwen as fallback 1" in words
    again.send("save", reason="in need")
    assert "llama 100.0 % 1 fallback, 2 rules" in words_of(operator.page("/routes/"))
    again = Flow(operator.client, f"/routes/{route.pk}/edit/")
    again.send("rule-0-remove")
    again.send("review")
    again.send("save", reason="nobody pays")
    assert [one["name"] for one in Route.objects.get().rules] == ["last"]
    entry = AuditEntry.objects.filter(noun="routes").order_by("-id")[0]
    assert "Rule gold" in words_of(operator.page(f"/audit/{entry.pk}/"))
    back = Flow(operator.client, f"/routes/{route.pk}/edit/?restore={entry.pk}")
    back.send("review")
    assert "Rule gold" in back.words


def test_what_a_rule_would_have_taken_is_told_from_the_ledger(
    operator: Reader, route: Route, pools: list[Pool]
) -> None:
    now = timezone.now()
    for number, tags in enumerate((["gold"], [], ["gold", "x"], None)):
        end = make_end(number, at_ms=int(now.timestamp() * 1000))
        row = request_row(end, {}, recorded_at=now)
        values = {name: getattr(row, name) for name in row.__dataclass_fields__}
        mine = {"organisation_id": operator.organisation.pk, "route_id": route.pk, "tags": tags}
        Request(**values | mine).save(force_insert=True)
    flow = Flow(operator.client, f"/routes/{route.pk}/edit/")
    flow.send("rule-add")
    flow.send(
        "review",
        rules__0__name="gold",
        rules__0__tags="gold",
        rules__0__is_enabled="on",
        rules__0__targets__0__pool=pools[1].pk,
    )
    assert "would have taken 50.0 % of 4 requests of the last hour" in flow.words


def test_aliases_waiting_and_steps_are_edited_like_any_field(
    operator: Reader, route: Route
) -> None:
    flow = Flow(operator.client, f"/routes/{route.pk}/edit/")
    flow.send("review", aliases="gpt-4o, best", max_queue_wait_ms="0", hedge_after_ms="500")
    words = flow.words
    assert "Aliases not set gpt-4o, best" in words
    assert "not at all: refused when no worker is free" in words
    flow.send("save", reason="as people call it")
    saved = Route.objects.get()
    assert (saved.aliases, saved.max_queue_wait_ms, saved.hedge_after_ms) == (
        ["gpt-4o", "best"],
        0,
        500,
    )


def test_who_is_removed_says_what_becomes_of_the_rules_that_name_it(
    make_reader: Callable[..., Reader], actor: Actor
) -> None:
    admin = make_reader("ada", Role.ADMIN)
    home = admin.organisation
    pool = create_pool(
        actor,
        organisation=home,
        name="llama",
        model="m",
        provisioner="static",
        addresses=["http://127.0.0.1:9101/v1"],
    )
    team = create_team(actor, organisation=home, name="night shift")
    aims = [TargetChoice(pool, 1)]
    rules = [{"name": "theirs", "when": {"teams": ["night shift"]}, "targets": aims}]
    create_route(actor, organisation=home, name="chat", targets=aims, rules=rules)
    assert "chat by a rule" in words_of(admin.page(f"/pools/{pool.pk}/?tab=config"))
    words = words_of(admin.page(f"/teams/{team.pk}/delete/"))
    assert "Rule theirs of a route names nobody else: it is switched off." in words


def test_what_rules_look_at_is_told_and_filtered_by(
    make_reader: Callable[..., Reader],
) -> None:
    reader = make_reader("ada", Role.VIEWER)
    said = {"tags": ("gold", "team=search"), "end_user": "ann", "rule_id": "rule_1"}
    origin = make_origin(**said, priority=PriorityClass.BATCH, task=TaskClass.CODE)
    end = make_end(1, origin=origin)
    reader.record(end, make_end(2))
    words = words_of(reader.page(f"/requests/{end.event_id}/"))
    for told in ("Rule rule_1 (gone since)", "Class batch, task code", "Tags gold, team=search"):
        assert told in words
    page = reader.page("/requests/?last=ever&tag=gold&rule=rule_1")
    assert (end.event_id in page, make_end(2).event_id in page) == (True, False)
