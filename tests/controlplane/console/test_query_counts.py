"""More rows of a list take no more queries."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from controlplane.models import Role
from controlplane.selectors.alerts import Place
from controlplane.services.actors import Actor
from controlplane.services.alert_rules import create_alert_rule
from controlplane.services.budgets import create_budget
from controlplane.services.channels import create_channel
from controlplane.services.deliveries import send_test
from controlplane.services.episodes import note_looks
from controlplane.services.limits import create_limit
from controlplane.services.models import create_model
from controlplane.services.prices import create_price
from controlplane.services.projects import create_project
from controlplane.services.silences import create_silence
from controlplane.services.switches import throw_switch
from controlplane.services.teams import create_team
from controlplane.services.users import create_service_account, create_user, grant_role, issue_token
from tests.controlplane.console.conftest import PASSWORD, Reader

pytestmark = pytest.mark.slow

LISTS = (
    *("/prices/", "/teams/", "/projects/", "/users/service-accounts/", "/users/bindings/"),
    *("/limits/", "/budgets/", "/switches/?subject=model", "/switches/?subject=project"),
    *("/alerts/", "/alerts/rules/", "/alerts/silences/", "/alerts/channels/"),
    "/alerts/deliveries/",
)


@pytest.fixture
def admin(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("ada", Role.ADMIN)


def test_more_rows_of_a_list_take_no_more_queries(admin: Reader, actor: Actor) -> None:
    home = admin.organisation

    def more(name: str) -> None:
        model = create_model(actor, organisation=home, name=name)
        create_price(actor, model=model, input_nanousd_per_mtok=1, output_nanousd_per_mtok=1)
        team = create_team(actor, organisation=home, name=name)
        project = create_project(actor, organisation=home, team=team, name=name)
        of_project = {"subject": "project", "subject_id": name, "unit": "parallel"}
        create_limit(actor, organisation=home, name=name, amount=1, **of_project)
        scopes = [{"subject": "project", "subject_id": name}, {"subject": "end_user"}]
        budget = {"scopes": scopes, "amount_nanousd": 1, "period": "day"}
        create_budget(actor, organisation=home, name=name, **budget)
        throw_switch(actor, organisation=home, subject="model", subject_id=name)
        channel = {"kind": "email", "recipients": ["ops@example.com"], "name": name}
        send_test(actor, channel_id=create_channel(actor, organisation=home, **channel).pk)
        rule = {"kind": "error_rate", "scope": "organisation", "name": name, "channels": [name]}
        rule = create_alert_rule(actor, organisation=home, **rule)
        ends_at = timezone.now() + timedelta(hours=1)
        create_silence(actor, organisation=home, rule=name, reason="x", ends_at=ends_at)
        note_looks(rule, [Place(home.pk, home.name)], {home.pk: 100.0}, timezone.now())
        account = create_service_account(actor, organisation=home, name=name)
        issue_token(actor, service_account=account)
        user = create_user(actor, username=name, password=PASSWORD)
        grant_role(actor, subject=user, organisation=home, role=Role.VIEWER, team=team)
        grant_role(actor, subject=account, organisation=home, role=Role.VIEWER, project=project)

    def queries() -> dict[str, int]:
        found = {}
        for path in LISTS:
            with CaptureQueriesContext(connection) as seen:
                admin.page(path)
            found[path] = len(seen)
        return found

    more("first")
    queries()
    few = queries()
    for number in range(4):
        more(f"more-{number}")
    assert queries() == few
