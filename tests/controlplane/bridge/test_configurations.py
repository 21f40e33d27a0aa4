"""The live configuration as this plane holds it: decoded once, and never another's."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

from controlplane.bridge.configurations import DecodedConfiguration, newest_revision
from controlplane.models import Organisation
from controlplane.selectors.snapshots import get_configuration
from controlplane.services.actors import Actor
from controlplane.services.models import create_model

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


@pytest.fixture
def edit(actor: Actor, organisation: Organisation) -> Callable[[str], None]:
    """Adds a model of this name."""

    def make(name: str) -> None:
        create_model(actor, organisation=organisation, name=name)

    make("first")
    return make


def test_a_version_is_decoded_once(edit: Any, django_assert_num_queries: Any) -> None:
    held = DecodedConfiguration()
    revision = newest_revision()
    first = held.read(revision)
    assert first == get_configuration(revision)
    with django_assert_num_queries(0):
        assert held.read(revision) is first
    # whoever reads the row anew finds the same
    assert held.read(newest_revision()) is first


def test_of_the_next_version_only_what_differs_is_decoded(edit: Any) -> None:
    held = DecodedConfiguration()
    before = held.read(newest_revision())
    edit("second")
    after = held.read(newest_revision())
    assert after == get_configuration(newest_revision())
    assert {one.name for one in after.models.values()} >= {"first", "second"}
    assert after.models is not before.models
    assert after.organisations is before.organisations


def test_a_version_that_was_rolled_back_is_not_taken_for_the_one_that_came(edit: Any) -> None:
    held = DecodedConfiguration()
    held.read(newest_revision())
    with transaction.atomic():
        edit("drafted")
        drafted = newest_revision()
        held.read(drafted)
        transaction.set_rollback(True)
    edit("earnest")
    earnest = newest_revision()
    assert earnest.version == drafted.version
    names = {one.name for one in held.read(earnest).models.values()}
    assert "earnest" in names
    assert "drafted" not in names
