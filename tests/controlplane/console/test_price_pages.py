"""The pages of the price book: versions, lists from files, and putting right what was booked."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from controlplane.models import Repricing, Role, SpendCorrection
from controlplane.services.actors import Actor
from controlplane.services.models import create_model
from controlplane.services.prices import create_price, update_price
from controlplane.services.repricings import step
from controlplane.services.usage import record_usage
from tests.controlplane.console.conftest import Reader
from tests.controlplane.console.flows import Flow, words_of
from tests.controlplane.ledger_events import make_charge, make_end, make_origin

pytestmark = [pytest.mark.slow, pytest.mark.django_db]


@pytest.fixture
def finance(make_reader: Callable[..., Reader]) -> Reader:
    return make_reader("fina", Role.FINANCE)


@pytest.fixture
def model(finance: Reader, actor: Actor) -> Any:
    return create_model(actor, organisation=finance.organisation, name="m")


def test_a_planned_version_is_shown_and_taken_back(
    finance: Reader, model: Any, actor: Actor
) -> None:
    price = create_price(
        actor, model=model, input_nanousd_per_mtok=10**9, output_nanousd_per_mtok=0
    )
    begins = timezone.now() + timedelta(days=2)
    changes = {"input_nanousd_per_mtok": 2 * 10**9, "effective_from": begins}
    update_price(actor, price_id=price.pk, changes=changes)
    assert "$2.00 / $0.00 from" in words_of(finance.page("/prices/"))
    page = words_of(finance.page(f"/prices/{price.pk}/"))
    assert "planned $2.00 $0.00 Input $1.00 \N{RIGHTWARDS ARROW} $2.00" in page
    assert "in force $1.00 $0.00 the first" in page
    flow = Flow(finance.client, f"/prices/{price.pk}/take-back/")
    assert "Nothing was charged at it yet" in flow.words
    flow.send("save", reason="too soon")
    assert price.versions.count() == 1


def test_an_unusual_price_is_asked_about_in_the_form(finance: Reader, model: Any) -> None:
    flow = Flow(finance.client, f"/prices/new/?model={model.pk}")
    dear = {"input_nanousd_per_mtok": "2000000", "output_nanousd_per_mtok": "1"}
    flow.send("review", model=model.pk, **dear)
    assert "Above a dollar a token: it must be confirmed." in flow.words
    flow.send("review", model=model.pk, is_confirmed="on", **dear)
    assert "Input $2,000,000.00 per 1M tokens" in flow.words


def test_a_file_is_shown_line_by_line_before_anything_changes(finance: Reader, model: Any) -> None:
    text = b"model,input,output\nm,1,2\nx,1,2\n"
    upload = SimpleUploadedFile("list.csv", text, "text/csv")
    answer = finance.client.post("/prices/import/", {"step": "preview", "file": upload})
    page = words_of(answer.content.decode())
    assert "1 new, 0 changed, 0 same, 1 rejected" in page
    assert "There is no such model." in page
    assert model.price is None
    told = {"step": "apply", "content": text.decode(), "digest": answer.context["planned"].digest}
    assert "Give a reason" in finance.client.post("/prices/import/", told).content.decode()
    done = finance.client.post("/prices/import/", {**told, "reason": "the list"})
    assert done.status_code == 302
    assert model.price.input_nanousd_per_mtok == 10**9
    late = finance.client.post("/prices/import/", {**told, "reason": "again"})
    assert "The price book has changed since" in late.content.decode()
    exported = finance.client.get("/prices/export/").content.decode()
    assert exported.splitlines()[1].startswith("m,,1,2,,")
    assert finance.client.post("/prices/import/", {"step": "preview"}).status_code == 200


def test_what_has_no_price_is_listed_and_priced_anew(
    finance: Reader, model: Any, actor: Actor
) -> None:
    at = int((timezone.now() - timedelta(minutes=5)).timestamp() * 1000)
    unknown = {"cost_nanousd": None, "cost_max_nanousd": None, "price": None}
    charge = make_charge(model_id=model.pk, **unknown)
    origin = make_origin(organisation_id=finance.organisation.pk)
    end = make_end(at_ms=at, received_at_ms=at, origin=origin, charges=(charge,))
    record_usage([end], now=timezone.now())
    assert "Served without a price" in words_of(finance.page("/prices/"))
    before = timezone.now() - timedelta(days=1)
    create_price(
        actor,
        model=model,
        input_nanousd_per_mtok=10**9,
        output_nanousd_per_mtok=10**9,
        effective_from=before,
    )
    assert "Price them anew" in words_of(finance.page("/prices/"))
    flow = Flow(finance.client, f"/repricings/new/?model={model.pk}")
    until = timezone.now()
    zone = finance.organisation.time_zone
    assert zone in flow.words
    flow.send(
        "save",
        since=before.strftime("%Y-%m-%dT%H:%M"),
        until=until.strftime("%Y-%m-%dT%H:%M"),
        model=model.pk,
        reason="it had no price",
    )
    job = Repricing.objects.get()
    while step(job.pk):
        pass
    page = words_of(finance.page(f"/repricings/{job.pk}/"))
    assert "Review and book the corrections" in page
    assert "All $0.00 $0.002028 +$0.002028 1 of 1 1 \N{RIGHTWARDS ARROW} 0" in page
    assert "Model m $0.00" in page
    flow = Flow(finance.client, f"/repricings/{job.pk}/book/")
    flow.send("save", reason="as seen")
    while step(job.pk):
        pass
    assert "+$0.002028" in words_of(finance.page("/corrections/"))
    assert "Booked" in words_of(finance.page("/repricings/"))
    assert "Served without a price" not in words_of(finance.page("/prices/"))


def test_an_amount_is_taken_back_by_hand(finance: Reader, make_reader: Any) -> None:
    flow = Flow(finance.client, "/corrections/new/")
    flow.send("save", subject="organisation", amount_nanousd="-1.5", reason="a wrong price")
    row = SpendCorrection.objects.get()
    assert (row.amount_nanousd, row.created_by) == (-1_500_000_000, "fina")
    assert "\N{MINUS SIGN}$1.50 the organisation a wrong price" in words_of(
        finance.page("/corrections/")
    )
    viewer = make_reader("vera", Role.VIEWER)
    assert viewer.get("/corrections/new/").status_code == 403
