"""The pages of limits: words for what each counts, and a review that knows what traffic was."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import AuditEntry, Key, Limit, Role, UsageMinute
from controlplane.services.actors import Actor
from controlplane.services.keys import create_key
from controlplane.services.limits import create_limit
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, words_of

pytestmark = pytest.mark.slow

FIELDS = {"subject": "key", "amount": "600", "unit": "requests", "window": "minute"}


@pytest.fixture
def operator(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ola", Role.OPERATOR)


@pytest.fixture
def key(operator: Reader, actor: Actor) -> Key:
    return create_key(actor, organisation=operator.organisation, name="app").key


def limit(reader: Reader, actor: Actor, name: str, **fields: Any) -> Limit:
    told = {"subject": "key", "unit": "requests", "window": "minute", "amount": 600, **fields}
    return create_limit(actor, organisation=reader.organisation, name=name, **told)


def book(reader: Reader, requests: int, minutes_ago: int) -> None:
    """A roll-up of the organisation's default project."""
    at = timezone.now().replace(second=0, microsecond=0) - timedelta(minutes=minutes_ago)
    UsageMinute(
        organisation_id=reader.organisation.pk,
        minute=at,
        route_id="rt_1",
        pool_id="pool_1",
        model_id="mdl_1",
        project_id=reader.organisation.projects.get().pk,
        requests=requests,
        prompt_tokens=10 * requests,
        completion_tokens=requests,
    ).save(force_insert=True)


def test_a_limit_is_made_by_name_reviewed_and_saved(operator: Reader, key: Key) -> None:
    assert "Nothing is limited" in words_of(operator.page("/limits/"))
    flow = Flow(operator.client, "/limits/new/")
    assert '<option value="app">key</option>' in flow.page
    flow.send("review", name="of app", subject_id="app", **FIELDS)
    assert "Allows 600 requests a minute for key app" in flow.words
    assert "For key app" in flow.words
    assert "Nothing kept tells whether traffic of late would have felt it" in flow.words
    assert '"subject_id": "key_' in flow.page.replace("&quot;", '"')
    assert Limit.objects.count() == 0
    assert "Give a reason" in words_of(flow.send("save").content.decode())
    assert flow.send("save", reason="abuse").status_code == 302
    made = Limit.objects.get()
    assert (made.subject_id, made.amount, made.window) == (key.pk, 600, "minute")
    assert AuditEntry.objects.get(noun="limits").reason == "abuse"
    page = words_of(operator.page("/limits/"))
    assert "of app 600 requests a minute key app serves and marks On" in page
    detail = words_of(operator.page(f"/limits/{made.pk}/"))
    assert "Allows 600 requests a minute For key app" in detail
    assert "created" in words_of(operator.page(f"/limits/{made.pk}/?tab=activity")).lower()


def test_what_is_not_there_is_said_at_its_field(operator: Reader) -> None:
    flow = Flow(operator.client, "/limits/new/")
    flow.send("review", name="x", subject_id="none such", **FIELDS)
    assert "There is no key of this name or id." in flow.words
    assert 'value="none such"' in flow.page


def test_requests_at_once_have_no_window_whatever_was_chosen(operator: Reader) -> None:
    flow = Flow(operator.client, "/limits/new/")
    flow.send("review", name="x", **{**FIELDS, "unit": "parallel", "amount": "8"})
    assert "Allows 8 requests at once for each key" in flow.words
    flow.send("save", reason="room")
    assert Limit.objects.get().window is None


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"amount": "0"}, "0 is none: every request is refused that is of each project."),
        ({"amount": "99"}, "would have felt it: 99 requests a minute are allowed."),
        ({"amount": "100"}, "Nobody would have felt it in the last 24 h."),
        ({"window": "hour"}, "Busiest hour, last 24 h 160 requests, of project Default"),
        (
            {"window": "day", "unit": "total_tokens"},
            "The last 24 h 1,760 tokens in and out, of project Default",
        ),
        ({"window": "second"}, "Nothing kept tells"),
        ({"subject": "organisation"}, "Busiest minute, last 24 h 100 requests Checks"),
        ({"subject": "team"}, "Busiest minute, last 24 h 100 requests, of team Default"),
        ({"subject": "model", "subject_id": ""}, "100 requests, of model mdl_1"),
    ],
)
def test_a_review_says_whether_traffic_of_late_would_have_felt_it(
    fields: dict[str, str], said: str, operator: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    noon = timezone.now().replace(minute=30, second=30)
    monkeypatch.setattr(timezone, "now", lambda: noon)
    book(operator, 100, 10)
    book(operator, 60, 20)
    flow = Flow(operator.client, "/limits/new/")
    flow.send("review", name="x", **{**FIELDS, "subject": "project", **fields})
    assert said in flow.words


def test_two_that_count_the_same_are_warned_of(operator: Reader, actor: Actor) -> None:
    limit(operator, actor, "first", amount=5)
    flow = Flow(operator.client, "/limits/new/")
    flow.send("review", name="second", **FIELDS)
    assert "first counts the same (5 requests a minute); the least amount decides" in flow.words
    flow.send("save", reason="both")
    assert words_of(operator.page("/limits/")).count("On, counted twice") == 2


def test_a_change_shows_what_differs_and_can_be_reverted(
    operator: Reader, actor: Actor, key: Key
) -> None:
    row = limit(operator, actor, "each")
    flow = Flow(operator.client, f"/limits/{row.pk}/edit/")
    flow.send("review", subject_id="app", amount="0")
    assert "each key" in flow.words
    assert "key app" in flow.words
    assert "600" in flow.words
    flow.send("save", reason="leaked")
    row.refresh_from_db()
    assert (row.subject_id, row.amount, row.version) == (key.pk, 0, 2)
    shown = Flow(operator.client, f"/limits/{row.pk}/edit/")
    assert 'value="app"' in shown.page
    entry = AuditEntry.objects.filter(noun="limits").latest("id")
    assert "Revert this change" in operator.page(f"/audit/{entry.pk}/")
    back = Flow(operator.client, f"/limits/{row.pk}/edit/?restore={entry.pk}")
    assert 'value="600"' in back.page


def test_a_limit_is_removed_by_its_name(operator: Reader, actor: Actor) -> None:
    row = limit(operator, actor, "each")
    flow = Flow(operator.client, f"/limits/{row.pk}/delete/")
    assert "Then nothing holds each key to it" in flow.words
    flow.send("save", reason="over", confirm="other")
    assert Limit.objects.count() == 1
    flow.send("save", reason="over", confirm="each")
    assert Limit.objects.count() == 0


def test_a_keys_page_has_the_limits_that_bind_it_and_leads_on(
    operator: Reader, actor: Actor, key: Key
) -> None:
    limit(operator, actor, "of app", subject_id="app", amount=1)
    limit(operator, actor, "of all", subject="organisation")
    limit(operator, actor, "of models", subject="model")
    page = operator.page(f"/keys/{key.pk}/")
    words = words_of(page)
    assert "of app 1 request a minute for key app On" in words
    assert "of all 600 requests a minute for the whole organisation On" in words
    assert "of models" not in words
    assert f'href="/limits/?key={key.pk}"' in page
    new = Flow(operator.client, f"/limits/new/?subject=key&subject_id={key.pk}")
    assert 'value="app"' in new.page
    listed = words_of(operator.page(f"/limits/?key={key.pk}"))
    assert "of app" in listed
    assert "of models" not in listed


def test_a_key_is_given_tags_priority_and_task(operator: Reader, key: Key) -> None:
    flow = Flow(operator.client, f"/keys/{key.pk}/edit/")
    fields = {"tags": "gold, team=search gold", "priority": "batch", "default_task": "code"}
    flow.send("review", **fields, reach="every")
    assert "gold, team=search" in flow.words
    flow.send("save", reason="nightly")
    key.refresh_from_db()
    assert (key.tags, key.priority, key.default_task) == (["gold", "team=search"], "batch", "code")
    words = words_of(operator.page(f"/keys/{key.pk}/"))
    assert "Priority batch Task code Tags gold, team=search" in words
    wrong = Flow(operator.client, f"/keys/{key.pk}/edit/")
    wrong.send("review", tags="a,$b", reach="every")
    assert "A tag must match" in wrong.words


def test_a_viewer_reads_limits_and_changes_none(
    make_reader: Callable[..., Reader], actor: Actor
) -> None:
    viewer = make_reader("vera")
    row = limit(viewer, actor, "each")
    assert "600 requests a minute each key" in words_of(viewer.page("/limits/"))
    assert "Edit" not in words_of(viewer.page(f"/limits/{row.pk}/"))
    for path in ("/limits/new/", f"/limits/{row.pk}/edit/", f"/limits/{row.pk}/delete/"):
        assert viewer.get(path).status_code == 403
