"""Questions that ask the same in other words, as far as the gateway goes: what the helper is asked,
and what is done with what it finds. Here it is a real one whose mind is scripted.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from inference.contract.events import CacheUse
from inference.contract.kinds import CacheOutcome, CacheTier
from inference.contract.snapshot import CachePolicyRecord
from inference.helper.messages import HelperGauge, Nearest, SemanticEntry, SemanticQuery
from tests.inference.caches.rig import (
    POLICY,
    TTL_S,
    Clock,
    cached_configuration,
    caching_gateway,
    has_kept,
)
from tests.inference.caches.test_exact import cache
from tests.inference.gateway.client import Reply, chat
from tests.inference.gateway.rig import DEBUG_TOKEN, TOKEN, Gateway, key_record, pool_record
from tests.inference.helper.lines import serving
from tests.inference.stores import OwnStore, until
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

SEMANTIC = replace(
    POLICY, tiers=(CacheTier.LOCAL, CacheTier.SEMANTIC), check_percent=0.0, similarity_min=0.9
)
STORED = replace(SEMANTIC, tiers=(CacheTier.SHARED, CacheTier.SEMANTIC))
OTHER_TOKEN = "hw_otherp789abcdefghjkmnpqrs.secret-of-another-key"


class Mind:
    """A mind to which all questions of a partition are near each other."""

    def __init__(self) -> None:
        self.entries: list[SemanticEntry] = []
        self.similarity = 0.97
        self.refused_by: str | None = None
        self.least: list[float] = []
        self.agrees: bool | None = True

    def nearest(self, query: SemanticQuery) -> Nearest | None:
        self.least.append(query.similarity_min)
        near = [one for one in self.entries if one.partition == query.partition]
        if not near:
            return None
        if self.refused_by is not None:
            return Nearest(None, self.similarity, self.refused_by)
        return Nearest(near[-1].key, self.similarity, None)

    def agree(self, one: str, other: str) -> bool | None:
        return self.agrees

    def gauge(self) -> HelperGauge:
        return HelperGauge(entries=len(self.entries))

    def remember(self, entry: SemanticEntry) -> None:
        self.entries.append(entry)

    def forget(self, key: bytes) -> None:
        self.entries = [one for one in self.entries if one.key != key]


@pytest.fixture
def mind() -> Mind:
    return Mind()


@asynccontextmanager
async def minded(
    upstream: Upstream,
    mind: Mind,
    folder: Path,
    policy: CachePolicyRecord = SEMANTIC,
    clock: Clock | None = None,
    store_url: str | None = None,
    **route: object,
) -> AsyncIterator[Gateway]:
    """A gateway whose helper has this mind, and is in time."""
    socket = folder / "helper.sock"
    keys = (
        key_record(TOKEN),
        key_record(OTHER_TOKEN, project_id="proj_b"),
        key_record(DEBUG_TOKEN, scopes=("inference", "debug")),
    )
    snapshot = cached_configuration(pool_record("a", upstream.base_url), policy=policy, keys=keys)
    if route:
        [one] = snapshot.routes.values()
        routes = (replace(one, **route),)
        snapshot = cached_configuration(
            pool_record("a", upstream.base_url), policy=policy, keys=keys, routes=routes
        )
    async with (
        serving(socket, mind),  # type: ignore[arg-type]
        caching_gateway(
            upstream, snapshot=snapshot, helper_socket=socket, clock=clock, store_url=store_url
        ) as gateway,
    ):
        assert gateway.caches is not None
        semantic = gateway.caches.semantic
        await gateway.wait_for(lambda: semantic.is_up)
        yield gateway


async def say(gateway: Gateway, text: str, *before: dict[str, str], **fields: object) -> Reply:
    """Ask something, after what was said before."""
    messages = [*before, {"role": "user", "content": text}]
    return await chat(gateway.port, messages=messages, **fields)


async def until_known(gateway: Gateway, mind: Mind, entries: int = 1) -> None:
    await gateway.wait_for(lambda: len(mind.entries) >= entries)


def last(gateway: Gateway) -> CacheUse:
    """What caches did for the request that ended last."""
    used = gateway.books.ends[-1].cache
    assert used is not None
    return used


FIRST, SECOND = "What is the capital of France?", "Which city is the capital of France?"


async def test_a_question_that_asks_the_same_is_answered_from_the_other(
    upstream: Upstream, mind: Mind, tmp_path: Path
) -> None:
    async with minded(upstream, mind, tmp_path) as gateway:
        first = await say(gateway, FIRST)
        await until_known(gateway, mind)
        second = await say(gateway, SECOND, token=DEBUG_TOKEN)
    assert (cache(second), len(upstream.calls)) == ("hit; tier=semantic", 1)
    assert second.json["choices"] == first.json["choices"]
    assert second.headers["x-headworks-cache-similarity"] == "0.9700"
    used = last(gateway)
    assert (used.outcome, used.tier, used.similarity) == (
        CacheOutcome.HIT,
        CacheTier.SEMANTIC,
        pytest.approx(0.97),
    )


async def test_what_is_said_around_a_question_must_be_the_same(
    upstream: Upstream, mind: Mind, tmp_path: Path
) -> None:
    french = {"role": "system", "content": "answer in French"}
    german = {"role": "system", "content": "answer in German"}
    async with minded(upstream, mind, tmp_path) as gateway:
        await say(gateway, FIRST, french)
        await until_known(gateway, mind)
        told = [
            cache(await say(gateway, SECOND, german)),
            cache(await say(gateway, SECOND, {**french, "role": "developer"})),
            cache(await say(gateway, SECOND, french, response_format={"type": "json_object"})),
            cache(await say(gateway, SECOND, french, token=OTHER_TOKEN)),
            cache(await say(gateway, SECOND, french)),
        ]
    assert told == ["miss"] * 4 + ["hit; tier=semantic"]


async def test_a_refused_or_distant_question_is_told_and_asked(
    upstream: Upstream, mind: Mind, tmp_path: Path
) -> None:
    async with minded(upstream, mind, tmp_path) as gateway:
        await say(gateway, FIRST)
        await until_known(gateway, mind)
        mind.refused_by = "numbers"
        assert cache(await say(gateway, SECOND)) == "miss"
    used = last(gateway)
    assert (used.refused_by, used.similarity, used.tier) == ("numbers", pytest.approx(0.97), None)


async def test_the_least_that_was_calibrated_for_a_route_is_the_routes(
    upstream: Upstream, mind: Mind, tmp_path: Path
) -> None:
    async with minded(upstream, mind, tmp_path, similarity_min=0.99) as gateway:
        await say(gateway, FIRST)
        await say(gateway, SECOND)
    assert mind.least == [pytest.approx(0.99)] * 2


async def test_an_expired_answer_is_not_served_though_it_is_the_nearest(
    upstream: Upstream, mind: Mind, tmp_path: Path
) -> None:
    clock = Clock()
    async with minded(upstream, mind, tmp_path, clock=clock) as gateway:
        await say(gateway, FIRST)
        await until_known(gateway, mind)
        clock.skipped_s = TTL_S + 1
        assert cache(await say(gateway, SECOND)) == "miss"


async def test_what_a_question_leads_to_is_forgotten_only_if_the_store_says_that_it_is_gone(
    upstream: Upstream, mind: Mind, tmp_path: Path
) -> None:
    store = OwnStore(tmp_path)
    try:
        async with minded(
            upstream, mind, tmp_path, policy=STORED, store_url=store.admin_url
        ) as gateway:
            assert gateway.caches is not None
            shared = gateway.caches.shared
            await say(gateway, FIRST)
            await until_known(gateway, mind)
            first = mind.entries[0].key
            await until(lambda: has_kept(store.admin_url), "an entry")
            store.stop()
            assert cache(await say(gateway, SECOND)) == "off"
            await until_known(gateway, mind, 2)  # what is told comes in its order
            assert mind.entries[0].key == first
            assert len(mind.least) == 2
            mind.entries = mind.entries[:1]
            store.restart()  # empty
            await gateway.wait_for(lambda: shared.is_up)
            assert cache(await say(gateway, SECOND)) == "miss"
            await gateway.wait_for(lambda: first not in {one.key for one in mind.entries})
    finally:
        store.stop()


async def test_what_this_process_lacks_is_not_forgotten_at_the_host(
    upstream: Upstream, mind: Mind, tmp_path: Path
) -> None:
    async with minded(upstream, mind, tmp_path) as gateway:
        await say(gateway, FIRST)
        await until_known(gateway, mind)
        elsewhere = replace(mind.entries[0], key=bytes(32))
        mind.entries.append(elsewhere)
        assert cache(await say(gateway, SECOND)) == "miss"
        await until_known(gateway, mind, 3)  # what is told comes in its order
        assert elsewhere in mind.entries


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("agrees", [True, False, None])
async def test_a_hit_that_is_checked_is_answered_anew_and_compared(
    upstream: Upstream, mind: Mind, tmp_path: Path, agrees: bool | None, is_stream: bool
) -> None:
    upstream.play(Behaviour(calls=1, text="Paris"), Behaviour(text="It is Paris"))
    mind.agrees = agrees
    policy = replace(SEMANTIC, check_percent=100.0)
    async with minded(upstream, mind, tmp_path, policy=policy) as gateway:
        await say(gateway, FIRST)
        await until_known(gateway, mind)
        second = await say(gateway, SECOND, stream=is_stream)
        await gateway.wait_ended(2)
        third = await say(gateway, FIRST)
        assert ("hit; tier=local" == cache(third)) is (agrees is not False)
    assert cache(second) == "checked"
    assert b"It" in second.body
    used = gateway.books.ends[1].cache
    assert used is not None
    assert (used.outcome, used.agreed, used.tier) == (CacheOutcome.CHECKED, agrees, None)
    kept = gateway.books.ends[0].cache
    assert kept is not None
    assert used.entry_id == kept.entry_id
    assert len(gateway.books.ends[1].charges) == 1


async def test_without_its_helper_the_tier_is_off_and_all_is_served(
    upstream: Upstream, tmp_path: Path
) -> None:
    async with caching_gateway(
        upstream, policy=SEMANTIC, helper_socket=tmp_path / "nobody.sock"
    ) as gateway:
        told = [cache(await say(gateway, text)) for text in (FIRST, SECOND, FIRST)]
        gauges = gateway.caches.gauges()  # type: ignore[union-attr]
    assert told == ["miss", "miss", "hit; tier=local"]
    [gauge] = [one for one in gauges if one.tier is CacheTier.SEMANTIC]
    assert gauge.is_down
    assert gauge.errors_total > 0
