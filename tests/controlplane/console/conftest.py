"""People who read pages, and requests for them to read."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

import pytest
from django.http import HttpResponse
from django.test import Client

from controlplane.models import Organisation, Role
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation
from controlplane.services.usage import record_usage
from controlplane.services.users import create_user, grant_role
from inference.contract.events import End
from tests.controlplane.ledger_events import NOON

PASSWORD = "a-long-enough-passphrase-4"


@dataclass
class Reader:
    """Somebody signed in to the console, with a role in one organisation."""

    client: Client
    organisation: Organisation

    def get(self, path: str, **headers: str) -> HttpResponse:
        return self.client.get(path, headers=headers)

    def page(self, path: str) -> str:
        """A page's text, which must be there."""
        response = self.get(path)
        assert response.status_code == 200, response.content[:500]
        return response.content.decode()

    def poll(self, path: str) -> HttpResponse:
        """Ask as the page's own polling does."""
        return self.get(path, HX_Request="true", HX_Target="results")

    def record(self, *ends: End, now: datetime = NOON) -> None:
        """Record ends as the reader's organisation's."""
        mine = [
            replace(end, origin=replace(end.origin, organisation_id=self.organisation.pk))
            for end in ends
        ]
        record_usage(mine, now=now)


@pytest.fixture
def make_reader(
    db: None, collected_files: None, state_store: object, actor: Actor
) -> Callable[..., Reader]:
    def make(name: str, role: Role = Role.VIEWER) -> Reader:
        organisation = create_organisation(actor, name=f"Org of {name}")
        user = create_user(actor, username=name, password=PASSWORD)
        grant_role(actor, subject=user, organisation=organisation, role=role)
        client = Client()
        client.force_login(user)
        return Reader(client, organisation)

    return make


@pytest.fixture
def reader(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("mira")
