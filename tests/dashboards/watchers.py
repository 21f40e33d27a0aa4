"""People who watch live pages, on a real channel layer."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest
from channels.layers import get_channel_layer
from django.conf import settings
from django.db import connection
from django.test import Client
from redis import Redis

from controlplane.models import Organisation, Role, User
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation
from controlplane.services.users import create_user, grant_role
from dashboards.kinds import Page
from dashboards.routing import open_watches
from dashboards.scopes import LiveScope
from dashboards.watching import Watches
from tests.controlplane.bridge.conftest import wait_until


@dataclass(frozen=True)
class Watcher:
    """A person with a role in an organisation, signed in."""

    organisation: Organisation
    user: User
    client: Client

    @property
    def session(self) -> str:
        return self.client.cookies[settings.SESSION_COOKIE_NAME].value

    @property
    def scope(self) -> LiveScope:
        return LiveScope(self.organisation.pk, Page.OVERVIEW, "", "5m")


def held_by_others() -> int:
    """How many connections of the pool are with other threads than this one."""
    told = connection.pool.get_stats()
    own = connection.connection is not None
    return told.get("pool_size", 0) - told.get("pool_available", 0) - own


@pytest.fixture
def watchers(transactional_db: None, state_store: Redis, actor: Actor) -> Iterator[list[Watcher]]:
    """Two, of two organisations. No thread may keep a session of the database afterwards."""
    made = []
    for name in ("Nordhavn", "Sydhavn"):
        organisation = create_organisation(actor, name=name)
        user = create_user(actor, username=name.lower(), password="a-long-enough-passphrase-4")
        grant_role(actor, subject=user, organisation=organisation, role=Role.VIEWER)
        client = Client()
        client.force_login(user)
        made.append(Watcher(organisation, user, client))
    yield made
    wait_until(lambda: held_by_others() == 0, "every connection to be back in the pool")


@pytest.fixture
async def layer() -> AsyncIterator[object]:
    found = get_channel_layer()
    yield found
    await found.flush()


@pytest.fixture
async def watches() -> AsyncIterator[Watches]:
    found = open_watches()
    yield found
    await found.close()
