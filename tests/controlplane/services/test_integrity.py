"""What the database itself refuses, whoever writes."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from django.utils import timezone

from controlplane.models import (
    AuditEntry,
    Channel,
    Delivery,
    Installation,
    Key,
    KeyRoute,
    Organisation,
    Pool,
    Price,
    Project,
    RoleBinding,
    Route,
    RouteTarget,
    RuleChannel,
    ServiceAccount,
    Silence,
    User,
)
from controlplane.services.actors import Actor
from controlplane.services.organisations import create_organisation
from tests.controlplane.conftest import Caller

pytestmark = pytest.mark.slow


def refused(write: Any) -> None:
    """Assert that the database refuses a write, deferred constraints included."""
    with pytest.raises(IntegrityError):
        write_and_check(write)


def write_and_check(write: Any) -> None:
    with transaction.atomic():
        write()
        with connection.cursor() as cursor:
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")


@pytest.mark.parametrize("statement", ["UPDATE {} SET reason = 'x'", "DELETE FROM {}"])
def test_the_audit_trail_only_grows(statement: str, admin: Caller) -> None:
    table = AuditEntry._meta.db_table
    count = AuditEntry.objects.count()
    with (
        pytest.raises(DatabaseError, match="never changed"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(statement.format(table))
    assert AuditEntry.objects.count() == count > 0


def test_rows_of_two_organisations_cannot_refer_to_each_other(
    actor: Actor, admin: Caller, route: dict[str, Any]
) -> None:
    other = create_organisation(actor, name="Other")
    key = admin.made("/keys/", {"name": "k"})
    channel = {"name": "ops", "kind": "email", "recipients": ["ops@example.com"]}
    admin.made("/channels/", channel)
    admin.made("/deliveries/", {"channel": "ops"})
    rule = {"name": "down", "kind": "pool_down", "scope": "pool", "channels": ["ops"]}
    admin.made("/alert-rules/", rule)
    amounts = {"input_nanousd_per_mtok": "1", "output_nanousd_per_mtok": "1"}
    admin.made("/prices/", {"model": Pool.objects.get().model.pk, **amounts})
    ends_at = (timezone.now() + timedelta(hours=1)).isoformat()
    admin.made("/silences/", {"rule": "down", "reason": "works", "ends_at": ends_at})
    moved = [
        lambda: Pool.objects.update(organisation=other),
        lambda: Route.objects.update(organisation=other),
        lambda: RouteTarget.objects.update(organisation=other),
        lambda: Project.objects.filter(organisation=admin.organisation).update(organisation=other),
        lambda: Key.objects.filter(pk=key["id"]).update(organisation=other),
        lambda: KeyRoute.objects.create(organisation=other, key_id=key["id"], route_id=route["id"]),
        lambda: Price.objects.create(organisation=other, model=Pool.objects.get().model),
        lambda: Price.objects.update(organisation=other),
        lambda: RoleBinding.objects.update(organisation=other),
        lambda: RuleChannel.objects.update(organisation=other),
        lambda: Channel.objects.update(organisation=other),
        lambda: Silence.objects.update(organisation=other),
        lambda: Delivery.objects.update(organisation=other),
    ]
    for write in moved:
        refused(write)


def test_numbers_and_names_are_held_to_their_bounds(route: dict[str, Any]) -> None:
    writes = [
        lambda: RouteTarget.objects.update(weight=-1),
        lambda: RouteTarget.objects.update(weight=1_000_001),
        lambda: Pool.objects.update(replicas=1_001),
        lambda: Pool.objects.update(port_base=70_000),
        lambda: Pool.objects.update(credential_last4="1234"),
        lambda: Pool.objects.update(name="Not A Name"),
        lambda: Pool.objects.update(name="trailing\n"),
        lambda: Route.objects.update(max_attempts=0),
        lambda: Route.objects.update(total_timeout_ms=0),
        lambda: Organisation.objects.update(name=" padded"),
        lambda: Organisation.objects.update(name=""),
        lambda: Installation.objects.create(pk=2, lineage="x"),
    ]
    for write in writes:
        refused(write)


def test_a_binding_has_one_subject_and_a_known_role(admin: Caller) -> None:
    account = ServiceAccount.objects.get()
    user = User.objects.create(username="u")
    home = admin.organisation
    writes = [
        lambda: RoleBinding.objects.create(organisation=home, role="viewer"),
        lambda: RoleBinding.objects.create(
            organisation=home, user=user, service_account=account, role="viewer"
        ),
        lambda: RoleBinding.objects.create(organisation=home, user=user, role="emperor"),
        lambda: RoleBinding.objects.create(
            organisation=home, service_account=account, role="admin"
        ),
    ]
    for write in writes:
        refused(write)


def test_names_of_people_are_unique_whatever_their_case(db: None) -> None:
    User.objects.create(username="Ann", email="ann@example.com")
    refused(lambda: User.objects.create(username="ann", email="other@example.com"))
    refused(lambda: User.objects.create(username="bob", email="ANN@example.com"))
    User.objects.create(username="carl")
    User.objects.create(username="dora")


def test_an_organisation_has_one_default_project(admin: Caller) -> None:
    home = admin.organisation
    refused(
        lambda: Project.objects.create(
            organisation=home, team=home.teams.get(), name="Second", is_default=True
        )
    )


def test_a_revoked_key_is_disabled(admin: Caller) -> None:
    key = admin.made("/keys/", {"name": "k"})
    admin.post(f"/keys/{key['id']}/revoke/")
    refused(lambda: Key.objects.update(is_enabled=True))
