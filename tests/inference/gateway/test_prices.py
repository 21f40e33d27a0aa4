"""What a charge is made at: the version in force when its request came, of pool or model."""

from dataclasses import replace

from inference.contract.kinds import ChargeKind, Task
from inference.contract.snapshot import PriceRecord
from tests.inference.gateway.client import chat, post, streaming
from tests.inference.gateway.rig import MODEL, PRICE, configuration, pool_record, running_gateway
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

BEGINS = 1_900_000_000.5
USAGE = {
    "prompt_tokens": 1000,
    "completion_tokens": 10,
    "prompt_tokens_details": {"cached_tokens": 900},
    "completion_tokens_details": {"reasoning_tokens": 4},
}


class Clock:
    """A clock that is set by hand."""

    def __init__(self, at: float) -> None:
        self.at = at

    def __call__(self) -> float:
        return self.at


def version(name: str, dollars_per_thousand: int | None, **more: object) -> PriceRecord:
    amount = None if dollars_per_thousand is None else dollars_per_thousand * 10**12
    price = replace(PRICE, input_nanousd_per_mtok=amount, output_nanousd_per_mtok=amount)
    return replace(price, id=name, **more)  # type: ignore[arg-type]


async def test_a_planned_version_counts_from_its_moment_without_another_snapshot(
    upstream: Upstream,
) -> None:
    clock = Clock(BEGINS - 1)
    prices = (
        version("prv_old", 1, effective_from=1.0),
        version("prv_new", 2, effective_from=BEGINS),
        version("prv_end", None, effective_from=BEGINS + 10),
    )
    snapshot = configuration(pool_record("a", upstream.base_url), prices=prices)
    found = []
    async with running_gateway(snapshot, clock=clock) as gateway:
        for number, at in enumerate((BEGINS - 0.001, BEGINS, BEGINS + 9.9, BEGINS + 10), start=1):
            clock.at = at
            assert (await chat(gateway.port)).status == 200
            await gateway.wait_ended(number)
            charge = gateway.books.ends[-1].charges[0]
            found.append((charge.price and charge.price.price_id, charge.cost_nanousd))
        clock.at = BEGINS - 1  # set back: what was in force then is again
        await chat(gateway.port)
        await gateway.wait_ended(5)
        assert gateway.books.ends[-1].charges[0].cost_nanousd == 15_000_000
    assert found == [
        ("prv_old", 15_000_000),
        ("prv_new", 30_000_000),
        ("prv_new", 30_000_000),
        (None, None),
    ]


async def test_a_request_under_way_keeps_the_price_it_was_planned_with(upstream: Upstream) -> None:
    upstream.play(Behaviour(gap_ms=20))
    clock = Clock(BEGINS - 1)
    prices = (version("prv_old", 1), version("prv_new", 2, effective_from=BEGINS))
    snapshot = configuration(pool_record("a", upstream.base_url), prices=prices)
    async with running_gateway(snapshot, clock=clock) as gateway:
        async with streaming(gateway.port) as call:
            clock.at = BEGINS + 1
            gateway.apply(replace(snapshot, version=8, prices={"prv_new": prices[1]}))
            await call.read_rest()
        await gateway.wait_ended(1)
        charge = gateway.books.ends[-1].charges[0]
        assert charge.price is not None
        assert (charge.price.price_id, charge.kind) == ("prv_old", ChargeKind.FINAL)
        assert gateway.books.openings[0].price == charge.price


async def test_a_pools_own_price_goes_before_its_models_until_it_ends(upstream: Upstream) -> None:
    clock = Clock(BEGINS - 1)
    prices = (
        version("prv_model", 1),
        version("prv_pool", 5, pool_id="pool_a"),
        version("prv_other", 7, pool_id="pool_b"),
        version("prv_pool_end", None, pool_id="pool_a", effective_from=BEGINS),
    )
    snapshot = configuration(pool_record("a", upstream.base_url), prices=prices)
    async with running_gateway(snapshot, clock=clock) as gateway:
        await chat(gateway.port)
        await gateway.wait_ended(1)
        assert gateway.books.ends[-1].charges[0].cost_nanousd == 75_000_000
        clock.at = BEGINS
        await chat(gateway.port)
        await gateway.wait_ended(2)
        assert gateway.books.ends[-1].charges[0].cost_nanousd == 15_000_000


async def test_cached_reasoning_request_and_embeddings_each_have_their_price(
    upstream: Upstream,
) -> None:
    upstream.play(Behaviour(usage=USAGE))
    price = replace(
        PRICE,
        cached_input_nanousd_per_mtok=10**11,
        reasoning_output_nanousd_per_mtok=3 * 10**12,
        embedding_input_nanousd_per_mtok=5 * 10**12,
        request_nanousd=10**7,
    )
    snapshot = configuration(pool_record("a", upstream.base_url), prices=(price,))
    async with running_gateway(snapshot) as gateway:
        await chat(gateway.port)
        await gateway.wait_ended(1)
        assert gateway.books.ends[-1].charges[0].cost_nanousd == 224_000_000
    embedding = replace(MODEL, task=Task.EMBED)
    snapshot = replace(snapshot, models={embedding.id: embedding})
    async with running_gateway(snapshot) as gateway:
        assert (await post(gateway.port, "/v1/embeddings", input="a")).status == 200
        await gateway.wait_ended(1)
        charge = gateway.books.ends[-1].charges[0]
        assert charge.price is not None
        assert charge.price.input_nanousd_per_mtok == 5 * 10**12
        assert charge.price.request_nanousd == 10**7
