"""The pages of kill switches: what is off, what turning off stops, and the way back."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import AuditEntry, Role, Route, Switch, UsageMinute
from controlplane.services.actors import Actor
from controlplane.services.keys import create_key
from controlplane.services.pools import create_pool
from controlplane.services.routes import TargetChoice, create_route
from controlplane.services.switches import throw_switch
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, words_of
from tests.controlplane.ledger_events import make_end, make_origin

pytestmark = pytest.mark.slow


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ola", Role.OPERATOR)


@pytest.fixture
def pools(operator: Reader, actor: Actor) -> list[Any]:
    return [
        create_pool(
            actor,
            organisation=operator.organisation,
            name=name,
            model=f"model-of-{name}",
            provisioner="static",
            addresses=["http://127.0.0.1:9000/v1"],
        )
        for name in ("big", "small")
    ]


@pytest.fixture
def routes(operator: Reader, actor: Actor, pools: list[Any]) -> list[Route]:
    """`chat` over one pool, `both` over two."""
    return [
        create_route(
            actor,
            organisation=operator.organisation,
            name=name,
            targets=[TargetChoice(pool, 1) for pool in chosen],
        )
        for name, chosen in (("chat", pools[:1]), ("both", pools))
    ]


def book(reader: Reader, *, requests: int, route: Any, pool: Any) -> None:
    """A roll-up of ten minutes ago."""
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=10)
    UsageMinute(
        organisation_id=reader.organisation.pk,
        minute=at,
        route_id=route.pk,
        pool_id=pool.pk,
        model_id=pool.model_id,
        project_id=reader.organisation.projects.get().pk,
        requests=requests,
    ).save(force_insert=True)


def page_of(subject: str, pk: str = "") -> str:
    return f"/switches/new/?subject={subject}&subject_id={pk}"


def test_a_route_is_turned_off_with_its_name_and_a_reason_and_put_back(
    operator: Reader, routes: list[Route], pools: list[Any], actor: Actor
) -> None:
    chat = routes[0]
    create_key(actor, organisation=operator.organisation, name="app")
    create_key(actor, organisation=operator.organisation, name="other", routes=["both"])
    book(operator, requests=300, route=chat, pool=pools[0])
    book(operator, requests=100, route=routes[1], pool=pools[1])
    assert "Nothing is off" in words_of(operator.page("/switches/"))
    flow = Flow(operator.client, page_of("route", chat.pk))
    assert "Turn off route chat" in flow.words
    assert "Requests that are served 400 100 ▼ 75.0 % of all" in flow.words
    assert "Keys that may ask it 1" in flow.words
    assert "Projects, last hour Default" in flow.words
    assert "Route chat on off" in flow.words
    flow.send("save", confirm="chat")
    assert "Give a reason" in flow.words
    flow.send("save", reason="It tells secrets", confirm="both")
    assert "Type chat to confirm" in flow.words
    assert Switch.objects.count() == 0
    sent = flow.send("save", confirm="chat", told="Mended soon.", ends="3600")
    assert (sent.status_code, sent["Location"].partition("=")[0]) == (302, "/switches/?applied")
    switch = Switch.objects.get()
    assert (switch.subject_id, switch.reason) == (chat.pk, "Mended soon.")
    assert switch.expires_at is not None
    assert 3_500 < (switch.expires_at - timezone.now()).total_seconds() <= 3_600
    page = operator.page(sent["Location"])
    words = words_of(page)
    assert "1 thing off" in words
    assert "Route chat Off Since" in words
    assert "thrown by ola : It tells secrets" in words
    assert "callers are told “Mended soon.”" in words
    assert f"/propagation/{sent['Location'].partition('=')[2]}/" in page
    assert "A kill switch turns it off" in words_of(operator.page(f"/routes/{chat.pk}/"))
    back = Flow(operator.client, f"/switches/{switch.pk}/delete/")
    assert "Put back route chat" in back.words
    back.send("save", reason="mended", confirm="chat")
    assert Switch.objects.count() == 0
    told = AuditEntry.objects.filter(noun="switches").order_by("id")
    assert [(one.action, one.reason) for one in told] == [
        ("throw", "It tells secrets"),
        ("put_back", "mended"),
    ]
    assert "Thrown switch route chat" in words_of(operator.page(f"/audit/{told[0].pk}/"))


def test_turning_a_pool_off_says_which_routes_are_left_without_and_which_go_on(
    operator: Reader, routes: list[Route], pools: list[Any], actor: Actor
) -> None:
    big, small = pools
    flow = Flow(operator.client, page_of("pool", big.pk))
    assert "Routes left without chat" in flow.words
    assert "Routes with fewer both" in flow.words
    assert "All targets of chat are off then" in flow.words
    throw_switch(actor, organisation=operator.organisation, subject="pool", subject_id="small")
    later = Flow(operator.client, page_of("model", big.model_id))
    assert "Routes left without both, chat" in later.words
    spare = Flow(operator.client, page_of("pool", small.pk))
    assert "This is switched off already" in spare.words
    assert "Type small to confirm" not in spare.words


def test_a_key_is_weighed_by_its_share_of_the_last_hour(operator: Reader, actor: Actor) -> None:
    key = create_key(actor, organisation=operator.organisation, name="app").key
    now = timezone.now()
    origin = make_origin(organisation_id=operator.organisation.pk, key_id=key.public_id)
    ends = [make_end(number, origin=origin, at_ms=int(now.timestamp() * 1000)) for number in (1, 2)]
    operator.record(*ends, now=now)
    flow = Flow(operator.client, page_of("key", key.pk))
    assert "Requests that are served 2 0 ▼ 100.0 % of all" in flow.words
    flow.send("save", reason="leaked", confirm="app")
    assert Switch.objects.get().subject_id == key.pk
    assert "app Off" in words_of(operator.page("/switches/?subject=key"))


def test_everything_is_turned_off_by_the_organisations_name(operator: Reader) -> None:
    flow = Flow(operator.client, page_of("organisation"))
    assert "Turn off the whole organisation" in flow.words
    assert "Every request of the organisation is refused" in flow.words
    flow.send("save", reason="all of it", confirm=operator.organisation.name)
    page = words_of(operator.page("/switches/"))
    assert "Everything is off" in page
    assert "Turn everything off" not in page


def test_a_switch_is_given_another_end_and_its_activity_tells_so(
    operator: Reader, routes: list[Route], actor: Actor
) -> None:
    home = operator.organisation
    switch = throw_switch(actor, organisation=home, subject="route", subject_id="chat")
    path = f"/switches/{switch.pk}/"
    assert "Served again when somebody puts it back" in words_of(operator.page(path))
    flow = Flow(operator.client, f"{path}edit/")
    flow.send("review", expires_at="2099-01-01T10:00", told="Mended soon.")
    assert "Served again when somebody puts it back" in flow.words
    assert '"reason": "Mended soon."' in flow.page.replace("&quot;", '"')
    flow.send("save", reason="a date")
    switch.refresh_from_db()
    assert (switch.version, switch.reason) == (2, "Mended soon.")
    activity = words_of(operator.page(f"{path}?tab=activity"))
    assert "Thrown by tests" in activity
    assert "Changed by ola" in activity


def test_kinds_are_searched_and_paged(operator: Reader, routes: list[Route]) -> None:
    page = words_of(operator.page("/switches/?subject=pool&search=bi"))
    assert "big On" in page
    assert "small" not in page
    assert "No pool has this in its name" in words_of(
        operator.page("/switches/?subject=pool&search=zzz")
    )
    assert "There is no key yet" in words_of(operator.page("/switches/?subject=key"))
    assert operator.get(page_of("route", "rt_none")).status_code == 404
    assert operator.get("/switches/new/").status_code == 302


def test_one_whose_time_is_over_shows_no_more(
    operator: Reader, routes: list[Route], actor: Actor
) -> None:
    home = operator.organisation
    switch = throw_switch(actor, organisation=home, subject="route", subject_id="chat")
    Switch.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert "Nothing is off" in words_of(operator.page("/switches/"))
    assert operator.get(f"/switches/{switch.pk}/").status_code == 404
    assert "A kill switch" not in words_of(operator.page(f"/routes/{routes[0].pk}/"))


def test_a_viewer_sees_what_is_off_and_turns_nothing_off(
    make_reader: Callable[..., Reader], actor: Actor
) -> None:
    viewer = make_reader("vera")
    switch = throw_switch(actor, organisation=viewer.organisation, subject="organisation")
    words = words_of(viewer.page("/switches/"))
    assert "Everything is off" in words
    assert "Put back" not in words
    for path in (page_of("organisation"), f"/switches/{switch.pk}/delete/"):
        assert viewer.get(path).status_code == 403
