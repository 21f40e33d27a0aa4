"""Price lists in files, what has no price, and putting right what was booked: by REST."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.models import ConfigRevision, PriceVersion
from controlplane.services.repricings import step
from controlplane.services.usage import record_usage
from tests.controlplane.conftest import Caller
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

pytestmark = [pytest.mark.slow, pytest.mark.django_db]

IN, OUT = "input_nanousd_per_mtok", "output_nanousd_per_mtok"


@pytest.fixture
def book(admin: Caller) -> Any:
    """Two models, the first of which costs $1 in and $2 out."""
    admin.made("/models/", {"name": "a"})
    admin.made("/models/", {"name": "b"})
    return admin.made("/prices/", {"model": "a", IN: "1000000000", OUT: "2000000000"})


def states(answer: Any) -> list[tuple[int, str]]:
    return [(one["line"], one["state"]) for one in answer.json()["lines"]]


def test_a_list_is_looked_at_and_then_taken_as_one_version(admin: Caller, book: Any) -> None:
    content = (
        "model,input,output,cached_input\n"
        "a,1,2,\n"
        "b,0.25,1.5,0.025\n"
        "c,1,2,\n"
        "b,9,9,\n"
        "a,-1,2,\n"
        "a,2000000,2,\n"
        "b,x,2,\n"
    )
    count = ConfigRevision.objects.count()
    seen = admin.post("/prices/preview/", {"content": content})
    assert states(seen) == [
        (2, "same"),
        (3, "new"),
        (4, "rejected"),
        (5, "rejected"),
        (6, "rejected"),
        (7, "rejected"),
        (8, "rejected"),
    ]
    assert all(one["problem"] for one in seen.json()["lines"] if one["state"] == "rejected")
    assert PriceVersion.objects.count() == 1
    digest = seen.json()["digest"]
    done = admin.post("/prices/import/", {"content": content, "digest": digest})
    assert done.json()["counts"] == {"new": 1, "changed": 0, "same": 1, "rejected": 5}
    assert ConfigRevision.objects.count() == count + 1
    row = admin.get("/prices/?model=b").json()["results"][0]
    assert (row[IN], row["cached_input_nanousd_per_mtok"]) == ("250000000", "25000000")
    # what was looked at is not what would be done now
    late = admin.post("/prices/import/", {"content": content, "digest": digest})
    assert late.status_code == 409
    assert states(admin.post("/prices/preview/", {"content": content}))[1] == (3, "same")


def test_json_says_only_what_it_names_and_plans_ahead(admin: Caller, book: Any) -> None:
    begins = (timezone.now() + timedelta(days=3)).isoformat()
    content = json.dumps([{"model": "a", "output": 2.5, "effective_from": begins}])
    done = admin.post("/prices/import/", {"content": content}).json()
    assert done["lines"][0]["before"] == {OUT: "2000000000"}
    row = admin.get(f"/prices/{book['id']}/").json()
    assert (row[OUT], row["next"][OUT], row["next"][IN]) == (
        "2000000000",
        "2500000000",
        "1000000000",
    )


def test_a_moment_at_which_a_version_begins_is_refused_in_the_preview(
    admin: Caller, book: Any
) -> None:
    begins = (timezone.now() + timedelta(days=3)).isoformat()
    admin.patch(f"/prices/{book['id']}/", {OUT: "3000000000", "effective_from": begins})
    content = json.dumps(
        [
            {"model": "a", "output": 4, "effective_from": begins},
            {"model": "b", "input": 1, "output": 4},
        ]
    )
    assert states(admin.post("/prices/preview/", {"content": content})) == [
        (1, "rejected"),
        (2, "new"),
    ]
    done = admin.post("/prices/import/", {"content": content})
    assert done.json()["counts"] == {"new": 1, "changed": 0, "same": 0, "rejected": 1}


@pytest.mark.parametrize(
    "content",
    ["", "input,output\n1,2\n", "model,price\na,1\n", "[1]", '{"prices": 1}', "[", 'model\n"a'],
    ids=["empty", "no model", "unknown column", "no objects", "no list", "cut", "open quote"],
)
def test_a_file_that_is_no_list_is_refused_whole(admin: Caller, content: str) -> None:
    answer = admin.post("/prices/preview/", {"content": content})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["content"])


def test_what_is_exported_is_the_same_when_it_is_imported(admin: Caller, pool: Any) -> None:
    asked = {"model": pool["model"], IN: "1", OUT: "123456789"}
    price = admin.made("/prices/", asked)
    admin.made("/prices/", {**asked, "pool": pool["name"], "request_nanousd": "5"})
    begins = (timezone.now() + timedelta(days=1)).isoformat()
    admin.patch(f"/prices/{price['id']}/", {IN: None, OUT: None, "effective_from": begins})
    told = admin.get("/prices/export/").json()
    assert [one["input"] for one in told] == ["0.000000001", "", "0.000000001"]
    content = json.dumps(told)
    assert {state for _, state in states(admin.post("/prices/preview/", {"content": content}))} == {
        "same"
    }


def test_a_model_by_its_name_and_by_its_id_is_one_price(admin: Caller, pool: Any) -> None:
    model = admin.get(f"/models/?name={pool['model']}").json()["results"][0]
    for names in (("", ""), (pool["name"], pool["id"])):
        content = json.dumps(
            [
                {"model": one, "pool": place, "input": "1", "output": "2"}
                for one, place in zip((model["name"], model["id"]), names, strict=True)
            ]
        )
        answer = admin.post("/prices/preview/", {"content": content})
        assert states(answer) == [(1, "new"), (2, "rejected")]
        assert answer.json()["lines"][1]["problem"] == "Line 1 says the same price already."
        assert admin.post("/prices/import/", {"content": content}).status_code == 200


def test_a_viewer_may_look_and_not_import(admin: Caller, book: Any, make_caller: Any) -> None:
    viewer = make_caller("viewer", admin.organisation)
    assert viewer.post("/prices/import/", {"content": "model\na\n"}).status_code == 403
    assert viewer.get("/prices/export/").status_code == 200


def test_what_is_served_unpriced_is_told_and_then_priced_anew(admin: Caller, book: Any) -> None:
    model = admin.get("/models/?name=b").json()["results"][0]
    at = int((timezone.now() - timedelta(minutes=5)).timestamp() * 1000)
    unknown = {"cost_nanousd": None, "cost_max_nanousd": None, "price": None}
    origin = make_origin(organisation_id=admin.organisation.pk)
    end = make_end(
        at_ms=at,
        received_at_ms=at,
        origin=origin,
        charges=(make_charge(model_id=model["id"], **unknown),),
    )
    record_usage([end], now=timezone.now())
    (told,) = admin.get("/prices/unpriced/").json()
    assert (told["model"], told["requests"], told["is_priced_now"]) == ("b", 1, False)
    begins = (timezone.now() - timedelta(days=1)).isoformat()
    admin.made("/prices/", {"model": "b", IN: "1000000", OUT: "1000000", "effective_from": begins})
    period = {"since": begins, "until": timezone.now().isoformat(), "reason": "it had no price"}
    job = admin.made("/repricings/", {**period, "model": "b"})
    assert (job["state"], job["sums"], job["scope"]) == ("queued", None, {"model_id": model["id"]})
    path = f"/repricings/{job['id']}/"
    assert admin.post(f"{path}book/").status_code == 409
    while step(job["id"]):
        pass
    ready = admin.get(path).json()
    assert (ready["state"], ready["sums"]["total"]["after_nanousd"]) == ("ready", "2028")
    assert admin.post(f"{path}book/").json()["state"] == "booking"
    while step(job["id"]):
        pass
    assert admin.get(path).json()["corrected_nanousd"] == "2028"
    assert admin.get("/prices/unpriced/").json() == []
    (row,) = admin.get(f"/corrections/?repricing_id={job['id']}").json()["results"]
    assert (row["amount_nanousd"], row["event_id"]) == ("2028", end.event_id)


def test_a_wrong_amount_is_taken_back_from_a_key(admin: Caller) -> None:
    key = admin.made("/keys/", {"name": "k"})
    asked = {"subject": "key", "subject_id": "k", "amount_nanousd": "-5"}
    assert list(admin.post("/corrections/", asked).json()["fields"]) == ["reason"]
    made = admin.made("/corrections/", {**asked, "reason": "a price of $5 a token"})
    assert (made["amount_nanousd"], f"key_{made['key_id']}") == ("-5", key["id"])
    assert admin.get(f"/corrections/{made['id']}/").json() == made
    assert list(
        admin.post("/corrections/", {**asked, "subject_id": "x", "reason": "y"}).json()["fields"]
    ) == ["subject_id"]
