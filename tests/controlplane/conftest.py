"""Organisations with callers of every role, and an empty state store.

Rows that many tests of a module only look at stand for the whole module: a fixture of module scope
makes them on `standing`, by `make_standing_caller` or services. Such a module carries the mark
`django_db`, so that what a test writes is undone and the standing rows are as they were.
"""

import fcntl
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage
from django.core.management import call_command
from django.db import transaction
from django.http import HttpResponse
from django.test import Client, override_settings
from pytest_django import DjangoDbBlocker
from redis import Redis

from controlplane.bridge.store import open_store
from controlplane.models import Organisation, Role
from controlplane.services.actors import Actor, Via, system_actor
from controlplane.services.organisations import create_organisation
from controlplane.services.teams import create_team
from controlplane.services.users import create_service_account, grant_role, issue_token


@pytest.fixture(scope="session", autouse=True)
def _quick_passwords() -> Iterator[None]:
    """A hash that is slow on purpose would be most of what these tests do."""
    with override_settings(PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"]):
        yield


@dataclass
class Caller:
    """Somebody with a token who calls the API and reads JSON."""

    token: str = field(repr=False)
    organisation: Organisation
    role: str
    client: Client = field(default_factory=lambda: Client(raise_request_exception=False))

    def call(self, method: str, path: str, document: object = None, **headers: str) -> HttpResponse:
        """One call below /api/v1; header names with underscores for hyphens."""
        told = {"authorization": f"Bearer {self.token}"}
        told.update({name.replace("_", "-"): value for name, value in headers.items()})
        body = None if document is None else json.dumps(document)
        return self.client.generic(
            method,
            f"/api/v1{path}",
            data=body or "",
            content_type="application/json" if body is not None else "",
            headers=told,
        )

    def get(self, path: str, **headers: str) -> HttpResponse:
        return self.call("GET", path, **headers)

    def post(self, path: str, document: object = None, **headers: str) -> HttpResponse:
        return self.call("POST", path, {} if document is None else document, **headers)

    def patch(self, path: str, document: object, **headers: str) -> HttpResponse:
        return self.call("PATCH", path, document, **headers)

    def delete(self, path: str, **headers: str) -> HttpResponse:
        return self.call("DELETE", path, **headers)

    def made(self, path: str, document: object) -> Any:
        """What a POST made, which must have worked."""
        response = self.post(path, document)
        assert response.status_code == 201, response.content
        return response.json()


@pytest.fixture(scope="session")
def actor() -> Actor:
    return system_actor("tests", via=Via.COMMAND)


@pytest.fixture(scope="module")
def standing(django_db_setup: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """A transaction around all tests of a module: rows made in it are there in each of them."""
    with django_db_blocker.unblock(), transaction.atomic():
        yield
        transaction.set_rollback(True)


def _caller_maker(actor: Actor, prefix: str) -> Callable[..., Caller]:
    numbers = count(1)

    def make(role: str = "admin", organisation: Organisation | None = None) -> Caller:
        number = next(numbers)
        home = organisation or create_organisation(actor, name=f"{prefix} {number}")
        account = create_service_account(
            actor, organisation=home, name=f"program {number} of {prefix}"
        )
        if role != "none":
            grant_role(actor, subject=account, organisation=home, role=Role(role))
        token = issue_token(actor, service_account=account).text
        return Caller(token, home, role)

    return make


@pytest.fixture
def make_caller(db: None, actor: Actor) -> Callable[..., Caller]:
    """A caller of a role, in a new organisation unless one is given."""
    return _caller_maker(actor, "Org")


@pytest.fixture(scope="module")
def make_standing_caller(standing: None, actor: Actor) -> Callable[..., Caller]:
    """The same, for all tests of the module."""
    return _caller_maker(actor, "Standing")


@pytest.fixture
def admin(make_caller: Callable[..., Caller]) -> Caller:
    return make_caller("admin")


@pytest.fixture
def narrow(admin: Caller, actor: Actor) -> Caller:
    """A caller of the admin's organisation whose one role is in a team."""
    home = admin.organisation
    account = create_service_account(actor, organisation=home, name="narrow")
    team = create_team(actor, organisation=home, name="Narrow")
    grant_role(actor, subject=account, organisation=home, role=Role.VIEWER, team=team)
    return Caller(issue_token(actor, service_account=account).text, home, "viewer")


@pytest.fixture
def organisation(admin: Caller) -> Organisation:
    return admin.organisation


POOL = {
    "name": "mine",
    "provisioner": "static",
    "addresses": ["http://127.0.0.1:9000/v1"],
    "model": "gpt-x",
}
ROUTE = {"name": "chat", "targets": [{"pool": "mine", "weight": 1}]}


@pytest.fixture
def pool(admin: Caller) -> Any:
    return admin.made("/pools/", POOL)


@pytest.fixture
def route(admin: Caller, pool: Any) -> Any:
    return admin.made("/routes/", ROUTE)


@pytest.fixture
def state_store() -> Iterator[Redis]:
    """The state store, empty, and emptied again: an edit asks what is published there."""
    with open_store() as store:
        store.flushdb()
        yield store
        store.flushdb()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose path leaves room for the names of sockets."""
    made: Path = tmp_path_factory.mktemp("s")
    return made


@pytest.fixture(scope="session")
def collected_files() -> None:
    """The static files where pages look for them, put there by the run's first who needs them."""
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    with settings.STATIC_ROOT.resolve().with_name("static.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (settings.STATIC_ROOT / staticfiles_storage.manifest_name).exists():
            call_command("collectstatic", interactive=False, verbosity=0)
    found = staticfiles_storage.load_manifest()
    staticfiles_storage.hashed_files, staticfiles_storage.manifest_hash = found
