"""Answers to questions that ask the same in other words: through a gateway, a real helper's socket,
index and guards. Nearness is by the words two questions share, so every case says how near it is.
"""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.contract.kinds import CacheOutcome, CacheTier
from inference.contract.vitals import TierGauge
from inference.helper.embedder import WIDTH, Vector
from inference.helper.mind import SemanticMind
from inference.helper.semantic_index import SemanticIndex
from tests.inference.caches.rig import POLICY, Clock, cached_configuration, caching_gateway
from tests.inference.caches.test_exact import OTHER_TOKEN, ask, cache
from tests.inference.gateway.client import Reply
from tests.inference.gateway.rig import TOKEN, Gateway, key_record, pool_record
from tests.inference.helper.lines import serving
from tests.inference.stores import until
from tests.upstream.fixtures import Upstream
from tests.upstream.script import Behaviour

SEMANTIC = replace(
    POLICY,
    tiers=(CacheTier.LOCAL, CacheTier.SEMANTIC),
    similarity_min=0.8,
    check_percent=0.0,
)
QUESTION = "How do I reset my password today?"
REWORDED = "Please tell me how to reset my password today"


class SharedWords:
    """Two texts are as near as the words they share, but for the commonest."""

    def embed(self, text: str) -> Vector | None:
        return self.embed_long(text)

    def embed_long(self, text: str) -> Vector | None:
        made = np.zeros(WIDTH, dtype=np.float32)
        for word in re.findall(r"\w+", text.casefold()):
            weight = 0.05 if word in _COMMON else 1.0
            made[sum(map(ord, word)) * 31 % WIDTH] += weight
        length = np.float32(np.linalg.norm(made))
        return made / length if length else None


_COMMON = frozenset("how do i please tell me to what is the show a my not".split())


@dataclass
class Rig:
    """A gateway with a helper beside it."""

    gateway: Gateway
    mind: SemanticMind

    async def ask(self, text: str, headers: dict[str, str] | None = None, **fields: Any) -> Reply:
        messages = fields.pop("messages", [{"role": "user", "content": text}])
        return await ask(self.gateway, headers or {}, messages=messages, **fields)

    @property
    def gauges(self) -> Sequence[TierGauge]:
        assert self.gateway.caches is not None
        return self.gateway.caches.gauges()

    async def told(self, entries: int) -> None:
        """Return once the helper has so many entries."""
        await until(lambda: len(self.mind.index) == entries, f"{entries} entries")


@asynccontextmanager
async def rig(
    tmp_path: Path, upstream: Upstream, policy: Any = SEMANTIC, **changes: Any
) -> AsyncIterator[Rig]:
    socket = tmp_path / "helper.sock"
    mind = SemanticMind(SharedWords(), SemanticIndex(1024 * 1024))
    async with (
        serving(socket, mind),
        caching_gateway(upstream, policy=policy, helper_socket=socket, **changes) as gateway,
    ):
        caches = gateway.caches
        assert caches is not None
        await until(lambda: caches.semantic.is_up, "the helper to be up")
        yield Rig(gateway, mind)


async def test_the_same_in_other_words_is_answered_and_told(
    tmp_path: Path, upstream: Upstream
) -> None:
    async with rig(tmp_path, upstream) as made:
        first = await made.ask(QUESTION)
        await made.told(1)
        second = await made.ask(REWORDED)
        await made.gateway.wait_ended(2)
        gauge = next(one for one in made.gauges if one.tier is CacheTier.SEMANTIC)
    assert (cache(first), cache(second)) == ("miss", "hit; tier=semantic")
    assert second.json["choices"] == first.json["choices"]
    assert len(upstream.calls) == 1
    used = made.gateway.books.ends[1].cache
    assert used is not None
    assert (used.outcome, used.tier, used.refused_by) == (
        CacheOutcome.HIT,
        CacheTier.SEMANTIC,
        None,
    )
    assert used.similarity is not None
    assert used.similarity >= 0.8
    assert (gauge.is_down, gauge.errors_total) == (False, 0)


async def test_one_digit_more_or_less_is_another_question(
    tmp_path: Path, upstream: Upstream
) -> None:
    # cases: last-message matching and one-digit maths differences (C70)
    async with rig(tmp_path, upstream) as made:
        await made.ask("Please compute for me what is 17*23?")
        await made.told(1)
        other = await made.ask("Please compute for me what is 17*24?")
        negated = await made.ask(QUESTION)
        await made.told(3)
        refused = await made.ask("How do I not reset my password today?")
        await made.gateway.wait_ended(4)
    assert cache(other) == cache(negated) == cache(refused) == "miss"
    used = made.gateway.books.ends[3].cache
    assert used is not None
    assert (used.refused_by, used.tier) == ("negation", None)
    assert used.similarity is not None
    assert used.similarity > 0.95
    assert len(upstream.calls) == 4


@pytest.mark.parametrize("role", ["system", "developer"])
async def test_other_instructions_before_the_question_are_another_partition(
    tmp_path: Path, upstream: Upstream, role: str
) -> None:
    # cases: system prompt, history, tools and format (C66); only user-role text (C67)
    def after(text: str, question: str) -> list[dict[str, str]]:
        return [{"role": role, "content": text}, {"role": "user", "content": question}]

    async with rig(tmp_path, upstream) as made:
        await made.ask("", messages=after("answer in French", QUESTION))
        await made.told(1)
        german = await made.ask("", messages=after("answer in German", REWORDED))
        json_form = await made.ask(
            "",
            messages=after("answer in French", REWORDED),
            response_format={"type": "json_object"},
        )
        plain = await made.ask(REWORDED)
        same = await made.ask("", messages=after("answer in French", REWORDED))
    assert [cache(one) for one in (german, json_form, plain)] == ["miss"] * 3
    assert cache(same) == "hit; tier=semantic"


async def test_the_last_question_of_another_conversation_is_another(
    tmp_path: Path, upstream: Upstream
) -> None:
    # cases: multi-turn: the last short question decides (C68)
    def talk(company: str, leader: str, last: str) -> list[dict[str, str]]:
        return [
            {"role": "user", "content": f"who leads {company}?"},
            {"role": "assistant", "content": leader},
            {"role": "user", "content": last},
        ]

    question = "and how old is this person by now?"
    async with rig(tmp_path, upstream) as made:
        await made.ask("", messages=talk("ACME", "Ann", question))
        globex = await made.ask("", messages=talk("Globex", "Bob", question))
        long = [*talk("ACME", "Ann", question), *talk("ACME", "Ann", question)]
        await made.ask("", messages=long)
        longer = await made.ask("", messages=[*long[:-1], {"role": "user", "content": REWORDED}])
        await made.gateway.wait_ended(4)
    assert cache(globex) == cache(longer) == "miss"
    assert made.gateway.books.ends[3].cache is not None
    assert made.gateway.books.ends[3].cache.similarity is None  # the helper wasn't asked


async def test_a_tenant_is_answered_from_its_own_however_near_anothers_are(
    tmp_path: Path, upstream: Upstream
) -> None:
    # cases: entries scoped by API, not by user (C69); a hundred of them in test_semantic_index
    other = key_record(OTHER_TOKEN, project_id="proj_b", team_id="team_b")
    snapshot = cached_configuration(
        pool_record("a", upstream.base_url), policy=SEMANTIC, keys=(key_record(TOKEN), other)
    )
    upstream.play(*(Behaviour(calls=1, text=f"balance {number}") for number in range(3)))
    async with rig(tmp_path, upstream, snapshot=snapshot) as made:
        await made.ask("What is my account balance?")
        await made.told(1)
        foreign = {"authorization": f"Bearer {OTHER_TOKEN}"}
        missed = await made.ask("Please show me my account balance", foreign)
        await made.told(2)
        own = await made.ask("Please show me what is my account balance", foreign)
        again = await made.ask("please tell me what is my account balance")
    assert (cache(missed), cache(own), cache(again)) == (
        "miss",
        "hit; tier=semantic",
        "hit; tier=semantic",
    )
    texts = [one.json["choices"][0]["message"]["content"] for one in (missed, own, again)]
    assert texts == ["balance 1", "balance 1", "balance 0"]


async def test_a_hit_that_is_checked_is_asked_anew_and_compared(
    tmp_path: Path, upstream: Upstream
) -> None:
    upstream.play(
        Behaviour(calls=1, text="Click forgot password and follow 3 steps"),
        Behaviour(calls=1, text="Click forgot password, then follow 3 steps"),
        Behaviour(calls=1, text="Call 555 1234 please"),
    )
    async with rig(tmp_path, upstream, replace(SEMANTIC, check_percent=100.0)) as made:
        await made.ask(QUESTION)
        await made.told(1)
        agreeing = await made.ask(REWORDED)
        await made.told(2)
        differing = await made.ask("How can I reset my password today?")
        await made.gateway.wait_ended(3)
    assert cache(agreeing).startswith("checked")
    assert cache(differing).startswith("checked")
    uses = [end.cache for end in made.gateway.books.ends]
    assert [use.agreed for use in uses if use is not None] == [None, True, False]
    assert len(upstream.calls) == 3


async def test_what_is_gone_from_its_tier_is_not_served_and_forgotten(
    tmp_path: Path, upstream: Upstream, cache_url: str
) -> None:
    clock, policy = Clock(), replace(SEMANTIC, tiers=(CacheTier.SHARED, CacheTier.SEMANTIC))
    async with rig(tmp_path, upstream, policy, clock=clock, store_url=cache_url) as made:
        await made.ask(QUESTION)
        await made.told(1)
        clock.skipped_s = 400  # past the answer's life, which the helper's clock hasn't reached
        missed = await made.ask(REWORDED)
        await until(
            lambda: [one.text for one in made.mind.index] == [REWORDED], "the old to be forgotten"
        )
    assert cache(missed) == "miss"


async def test_without_a_helper_requests_are_served_as_ever(
    tmp_path: Path, upstream: Upstream
) -> None:
    async with caching_gateway(upstream, policy=SEMANTIC) as gateway:
        made = Rig(gateway, SemanticMind(SharedWords(), SemanticIndex(1)))
        replies = [await made.ask(text) for text in (QUESTION, REWORDED, QUESTION)]
    assert [cache(one) for one in replies] == ["miss", "miss", "hit; tier=local"]


async def test_a_helper_that_goes_away_costs_misses_and_its_successor_is_found(
    tmp_path: Path, upstream: Upstream
) -> None:
    socket = tmp_path / "helper.sock"
    first, second = (SemanticMind(SharedWords(), SemanticIndex(1024 * 1024)) for _ in range(2))
    async with AsyncExitStack() as stack:
        leaving = await stack.enter_async_context(AsyncExitStack())
        await leaving.enter_async_context(serving(socket, first))
        gateway = await stack.enter_async_context(
            caching_gateway(upstream, policy=SEMANTIC, helper_socket=socket)
        )
        made = Rig(gateway, first)
        await made.ask(QUESTION)
        await made.told(1)
        assert cache(await made.ask(REWORDED)) == "hit; tier=semantic"
        await leaving.aclose()
        assert cache(await made.ask("How can I reset my password today?")) == "miss"
        async with serving(socket, second):
            made = Rig(gateway, second)
            await made.told(1)  # what was kept meanwhile is told as soon as somebody listens
            assert cache(await made.ask(REWORDED)) == "hit; tier=semantic"
