"""What the helper knows and thinks: messages by nearness, and guards that look at them again."""

from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import Protocol

from inference.contract.kinds import GuardKind
from inference.decisions.guarding.agreement import have_same_facts
from inference.decisions.guarding.reading import Reading, read
from inference.decisions.guarding.registry import refusing
from inference.helper.embedder import Vector
from inference.helper.messages import (
    THRESHOLD,
    TOO_LONG,
    HelperGauge,
    Nearest,
    SemanticEntry,
    SemanticQuery,
)
from inference.helper.semantic_index import Near, SemanticIndex

CANDIDATES = 8
"""So many of the nearest are shown to the guards."""

AGREE_MIN = 0.8
"""Answers that say the same in other words are at least so near."""

_KEPT = 1024  # vectors of texts that were just asked for: most are told to remember next


class Embeds(Protocol):
    """Texts as unit vectors."""

    def embed(self, text: str) -> Vector | None: ...

    def embed_long(self, text: str) -> Vector | None: ...


class SemanticMind:
    """Finds messages that ask the same."""

    def __init__(self, embedder: Embeds, index: SemanticIndex) -> None:
        self.index = index
        self.embeds_total = 0
        self.hits_total = 0
        self.refusals_total: Counter[str] = Counter()
        self._embedder = embedder
        self._told: Callable[[SemanticEntry, Vector], None] | None = None
        self._gone: Callable[[bytes], None] | None = None
        self._vectors: OrderedDict[str, Vector | None] = OrderedDict()

    def share(
        self, *, told: Callable[[SemanticEntry, Vector], None], gone: Callable[[bytes], None]
    ) -> None:
        """Have other hosts told of what is new here, and of what is gone."""
        self._told, self._gone = told, gone

    def nearest(self, query: SemanticQuery) -> Nearest | None:
        """The nearest message that no guard refuses; else the nearest, and why not."""
        vector = self._vector(query.text)
        if vector is None:
            return self._refused(0.0, TOO_LONG)
        near = self.index.nearest(query.partition, vector, CANDIDATES)
        if not near:
            return None
        if near[0].similarity < query.similarity_min:
            return self._refused(near[0].similarity, THRESHOLD)
        return self._let_pass(read(query.text), near, query.similarity_min)

    def _let_pass(self, asked: Reading, near: list[Near], similarity_min: float) -> Nearest:
        first: GuardKind | None = None
        for one in near:
            if one.similarity < similarity_min:
                break
            refused = refusing(asked, read(one.entry.text))
            if refused is None:
                self.hits_total += 1
                self.index.use(one.entry)
                return Nearest(one.entry.key, one.similarity, None)
            first = first or refused
        return self._refused(near[0].similarity, first.value if first else THRESHOLD)

    def _refused(self, similarity: float, why: str) -> Nearest:
        self.refusals_total[why] += 1
        return Nearest(None, similarity, why)

    def agree(self, one: str, other: str) -> bool | None:
        """Whether two answers say the same: near each other, with the same numbers and yes or no.

        None if one says nothing. Changes nothing, so it may be called in a thread.
        """
        first, second = self._embedder.embed_long(one), self._embedder.embed_long(other)
        if first is None or second is None:
            return None
        return float(first @ second) >= AGREE_MIN and have_same_facts(one, other)

    def remember(self, entry: SemanticEntry) -> None:
        """Have a message found, and others told of it; one that is too long is not."""
        if (vector := self._vector(entry.text)) is not None:
            self.take(entry, vector)
            if self._told is not None:
                self._told(entry, vector)

    def take(self, entry: SemanticEntry, vector: Vector) -> None:
        """Have a message found that another host tells of."""
        self.index.put(entry.partition, entry.key, entry.text, vector, entry.expires_at)

    def forget(self, key: bytes) -> None:
        """Have the message of this key found no more, and others told."""
        self.index.remove(key)
        if self._gone is not None:
            self._gone(key)

    def gauge(self) -> HelperGauge:
        """How it is."""
        index = self.index
        return HelperGauge(
            entries=len(index),
            bytes=index.bytes,
            bytes_max=index.bytes_max,
            partitions=index.partitions,
            evictions_total=index.evictions_total,
            embeds_total=self.embeds_total,
            hits_total=self.hits_total,
            refusals_total=dict(self.refusals_total),
        )

    def _vector(self, text: str) -> Vector | None:
        if text in self._vectors:
            self._vectors.move_to_end(text)
            return self._vectors[text]
        self.embeds_total += 1
        vector = self._vectors[text] = self._embedder.embed(text)
        if len(self._vectors) > _KEPT:
            self._vectors.popitem(last=False)
        return vector
