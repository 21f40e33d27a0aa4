"""Old versions leave: by number and by time both, and never the one gateways are given."""

from datetime import timedelta

import pytest
from django.conf import settings
from redis import Redis

from controlplane.models import ConfigRevision, ConfigSection, Organisation
from controlplane.services import pruning
from controlplane.services.actors import Actor
from controlplane.services.models import create_model
from controlplane.services.organisations import create_organisation
from controlplane.services.pruning import KEPT_FOR, prune_revisions
from controlplane.tasks.configuration import prune_revisions as prune_revisions_task
from inference.contract import wire

pytestmark = pytest.mark.slow


@pytest.fixture
def home(db: None, actor: Actor, monkeypatch: pytest.MonkeyPatch) -> Organisation:
    """An organisation with versions 1 to 6; two are kept by number, one goes at a time."""
    monkeypatch.setattr(pruning, "KEPT_REVISIONS", 2)
    monkeypatch.setattr(pruning, "BATCH", 1)
    home = create_organisation(actor, name="Home")
    for number in range(5):
        create_model(actor, organisation=home, name=f"model-{number}")
    return home


def versions() -> list[int]:
    return list(ConfigRevision.objects.order_by("id").values_list("version", flat=True))


def test_what_is_old_by_number_and_by_time_goes_with_what_only_it_had(home: Organisation) -> None:
    assert versions() == [1, 2, 3, 4, 5, 6]
    now = ConfigRevision.objects.get(version=4).created_at + KEPT_FOR
    assert prune_revisions(now, None) == 3
    assert versions() == [4, 5, 6]
    named = {digest for one in ConfigRevision.objects.all() for digest in one.manifest.values()}
    assert set(ConfigSection.objects.values_list("digest", flat=True)) == named
    # by time all would go, by number the newest two stay
    assert prune_revisions(now + KEPT_FOR, None) == 1
    assert versions() == [5, 6]


def test_what_gateways_are_given_stays(
    home: Organisation, state_store: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "KEPT_FOR", timedelta(0))
    second = ConfigRevision.objects.get(version=2)
    state_store.hset(wire.MANIFEST, mapping={"lineage": second.lineage, "version": 2})
    assert prune_revisions_task() == 3
    assert versions() == [2, 5, 6]
    assert ConfigSection.objects.filter(digest__in=second.manifest.values()).exists()


def test_nothing_goes_while_nobody_can_tell_what_is_published(
    home: Organisation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pruning, "KEPT_FOR", timedelta(0))
    gone = type(settings.HEADWORKS)(state_url="unix:///nowhere.sock?db=0")
    monkeypatch.setattr(settings, "HEADWORKS", gone)
    assert prune_revisions_task() == 0
    assert len(versions()) == 6
