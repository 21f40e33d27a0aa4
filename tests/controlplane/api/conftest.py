"""An admin stands for all tests of a module; what a test writes is undone."""

from collections.abc import Callable

import pytest

from controlplane.models import Organisation
from tests.controlplane.conftest import Caller


@pytest.fixture(autouse=True)
def _undone(db: None) -> None:
    """Every test is in a transaction of its own, inside that of its module."""


@pytest.fixture(scope="module")
def admin(make_standing_caller: Callable[..., Caller]) -> Caller:
    return make_standing_caller("admin")


@pytest.fixture
def organisation(admin: Caller) -> Organisation:
    return Organisation.objects.get(pk=admin.organisation.pk)
