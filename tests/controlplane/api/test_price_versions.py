"""The price book by REST: versions with a beginning, never changed, and what gateways get of it."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from controlplane.compiler import compile_configuration
from controlplane.models import AuditEntry, ConfigRevision, Price, PriceVersion
from inference.contract.snapshot import PriceRecord
from tests.controlplane.conftest import Caller

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

IN, OUT = "input_nanousd_per_mtok", "output_nanousd_per_mtok"


@pytest.fixture
def price(admin: Caller) -> Any:
    admin.made("/models/", {"name": "m"})
    return admin.made("/prices/", {"model": "m", IN: "10", OUT: "20"})


def at(**ahead: float) -> str:
    return (timezone.now() + timedelta(**ahead)).isoformat()


def records() -> list[PriceRecord]:
    return list(compile_configuration().records["prices"])


def test_a_change_is_a_version_and_a_planned_one_leaves_what_is_in_force(
    admin: Caller, price: Any
) -> None:
    path = f"/prices/{price['id']}/"
    begins = at(days=1)
    planned = admin.patch(path, {OUT: "30", "effective_from": begins}).json()
    assert (planned[OUT], planned["next"][OUT], planned["next"][IN]) == ("20", "30", "10")
    assert planned["version_id"] == price["version_id"]
    revised = admin.patch(path, {IN: "11"}).json()
    assert (revised[IN], revised["version_id"] == price["version_id"]) == ("11", False)
    # the planned one says what it said: the whole version, not a difference
    assert revised["next"][IN] == "10"
    versions = admin.get(f"{path}versions/").json()
    assert [one[IN] for one in versions] == ["10", "11", "10"]
    told = {one.id: one.effective_from for one in records()}
    assert set(told) == {revised["version_id"], revised["next"]["id"]}
    assert told[revised["next"]["id"]] == datetime.fromisoformat(begins).timestamp()


def test_gateways_have_no_more_to_learn_when_a_version_begins(admin: Caller, price: Any) -> None:
    """An edit elsewhere, later, makes the same records: nothing is published again for time."""
    admin.patch(f"/prices/{price['id']}/", {IN: "11", "effective_from": at(hours=1)})
    before, count = records(), ConfigRevision.objects.count()
    PriceVersion.objects.all()  # what is in force moves with the clock; the records don't
    admin.made("/models/", {"name": "another"})
    assert records() == before
    assert ConfigRevision.objects.count() == count + 1


def test_the_past_can_be_told_and_changes_nothing_in_force(admin: Caller, price: Any) -> None:
    path = f"/prices/{price['id']}/"
    before = admin.patch(path, {IN: "7", OUT: "8", "effective_from": at(days=-3)})
    assert before.status_code == 200, before.content
    assert (before.json()[IN], before.json()["next"]) == ("10", None)
    assert [one.id for one in records()] == [price["version_id"]]
    again = admin.patch(path, {IN: "9", "effective_from": price["effective_from"]})
    assert list(again.json()["fields"]) == ["effective_from"]
    same = admin.patch(path, {IN: "10", "effective_from": at(days=1)})
    assert list(same.json()["fields"]) == ["effective_from"]


def test_one_side_alone_is_no_price_and_neither_ends_it(admin: Caller, price: Any) -> None:
    path = f"/prices/{price['id']}/"
    assert list(admin.patch(path, {OUT: None}).json()["fields"]) == [OUT]
    ended = admin.patch(path, {IN: None, OUT: None}).json()
    assert (ended[IN], ended[OUT]) == (None, None)
    assert admin.get("/models/?is_priced=false").json()["results"][0]["name"] == "m"
    assert [one.input_nanousd_per_mtok for one in records()] == [None]
    assert list(admin.patch(path, {IN: "5"}).json()["fields"]) == [OUT]
    assert admin.patch(path, {IN: "0", OUT: "0"}).json()[IN] == "0"


def test_a_planned_version_can_be_taken_back_and_no_other(admin: Caller, price: Any) -> None:
    path = f"/prices/{price['id']}/"
    planned = admin.patch(path, {IN: "11", "effective_from": at(days=1)}).json()["next"]
    used = admin.post(f"{path}drop/", {"version_id": price["version_id"]})
    assert used.status_code == 400
    asked = {"version_id": planned["id"]}
    assert admin.post(f"{path}drop/", asked).json()["next"] is None
    assert admin.post(f"{path}drop/", asked).status_code == 404
    assert AuditEntry.objects.filter(action="drop_version", object_id=price["id"]).exists()
    assert [one.id for one in records()] == [price["version_id"]]


def test_a_version_is_never_changed_even_by_hand(admin: Caller, price: Any) -> None:
    with (
        pytest.raises(DatabaseError, match="never changed"),
        transaction.atomic(),
        connection.cursor() as cursor,
    ):
        cursor.execute(f"UPDATE {PriceVersion._meta.db_table} SET {IN} = 1")
    assert PriceVersion.objects.get().input_nanousd_per_mtok == 10


def test_a_pool_has_a_price_of_its_own_beside_its_models(admin: Caller, pool: Any) -> None:
    asked = {"model": pool["model"], IN: "1", OUT: "2"}
    admin.made("/prices/", asked)
    own = admin.made("/prices/", {**asked, "pool": pool["name"], IN: "5"})
    assert (own["pool"], own["pool_id"]) == (pool["name"], pool["id"])
    again = admin.post("/prices/", {**asked, "pool": pool["id"]})
    assert list(again.json()["fields"]) == ["model"]
    assert {(one.pool_id, one.input_nanousd_per_mtok) for one in records()} == {
        (None, 1),
        (pool["id"], 5),
    }
    assert admin.get(f"/prices/?pool={pool['name']}").json()["results"] == [own]


def test_a_removed_price_keeps_its_versions_and_can_be_given_again(
    admin: Caller, price: Any
) -> None:
    path = f"/prices/{price['id']}/"
    admin.patch(path, {IN: "11", "effective_from": at(days=1)})
    assert admin.delete(path).status_code == 204
    assert (admin.get(path).status_code, admin.patch(path, {IN: "1"}).status_code) == (404, 404)
    assert records() == []
    kept = PriceVersion.objects.order_by("effective_from")
    assert [one.input_nanousd_per_mtok for one in kept] == [10, None]
    back = admin.made("/prices/", {"model": "m", IN: "3", OUT: "4"})
    assert back["id"] == price["id"]
    assert Price.objects.count() == 1
    assert [one.input_nanousd_per_mtok for one in records()] == [3]
