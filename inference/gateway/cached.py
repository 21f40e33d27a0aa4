"""What caches do for one request: what they say of it, and what is kept of its answer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from inference.caches.base import Asked, Entry, Found
from inference.caches.chain import Caches
from inference.contract.events import CacheUse
from inference.contract.kinds import CacheOutcome, CacheTier, PurgeKind, Scope
from inference.contract.params import MAX_CACHE_TTL_S
from inference.contract.snapshot import CachePolicyRecord
from inference.contract.values import changed
from inference.decisions.arms import cache_part_of
from inference.decisions.caching import (
    CacheWishes,
    Obstacle,
    Place,
    Said,
    entry_id_of,
    identity_of,
    key_of,
    mark,
    partition_of,
    question_of,
    read_said,
    ttl_of,
)
from inference.decisions.cost import cost_of
from inference.decisions.plan import Plan, PlannedTarget
from inference.decisions.replaying.base import ALL_SHOWN, Document
from inference.decisions.replaying.registry import FORMS
from inference.gateway.attempts import Attempt
from inference.gateway.headers import Headers
from inference.gateway.recording import Recording, frames_of
from inference.gateway.schemas import InferenceRequest

if TYPE_CHECKING:
    from inference.gateway.exchange import Exchange
    from inference.gateway.vectors import Vectors

_NO_PURGES: Mapping[tuple[PurgeKind, str], int] = {}


_encode = msgspec.json.Encoder().encode


class Caching:
    """A request whose route has a cache policy. `found` is what it was answered from, if it was.

    `leads` says that others wait for its answer, `made` is what of a fresh one was kept.
    `compared` is a semantic hit that isn't used but compared with the fresh answer. `vectors` is of
    requests for embeddings whose inputs are kept. `unbounded` is what was asked if an engine was
    told a maximum of ours, as strict limits and budgets want.
    """

    __slots__ = (
        *(
            "agreed",
            "asked",
            "caches",
            "compared",
            "compared_key",
            "entry_id",
            "found",
            "is_stale",
            "leads",
        ),
        *("made", "obstacle", "outcome", "place", "plan", "policy", "purges", "recording"),
        *("refused_by", "request", "said", "similarity", "unbounded", "vectors", "wishes"),
    )

    def __init__(
        self,
        caches: Caches,
        policy: CachePolicyRecord,
        plan: Plan,
        request: InferenceRequest,
        *,
        wishes: CacheWishes,
        place: Place,
        said: Said,
        obstacle: Obstacle | None,
        purges: Mapping[tuple[PurgeKind, str], int],
    ) -> None:
        self.caches = caches
        self.policy = policy
        self.plan = plan
        self.request = request
        self.wishes = wishes
        self.place = place
        self.said = said
        self.obstacle = obstacle
        self.purges = purges
        key = key_of(caches.secret, place, said)
        self.asked = Asked(place.tenant[0], policy, key)
        self.entry_id = entry_id_of(caches.secret, key)
        self.outcome = CacheOutcome.BYPASS if obstacle is not None else CacheOutcome.MISS
        self.found: Found | None = None
        self.is_stale = False
        self.leads = False
        self.made: Entry | None = None
        self.recording: Recording | None = None
        self.unbounded: InferenceRequest | None = None
        self.vectors: Vectors | None = None
        self.similarity: float | None = None
        self.refused_by: str | None = None
        self.compared: Entry | None = None
        self.compared_key = b""
        self.agreed: bool | None = None

    @property
    def may_read(self) -> bool:
        """Whether it may be answered from what is kept."""
        return self.obstacle is None and not self.wishes.skips_reading

    @property
    def may_keep(self) -> bool:
        """Whether its answer may be kept; a policy without tiers observes, and keeps nothing."""
        return self.obstacle is None and not self.wishes.keeps_nothing and bool(self.policy.tiers)

    @property
    def may_join(self) -> bool:
        """Whether another's answer that is being made will do, and others may wait for its own."""
        is_plain = self.wishes.max_age_s is None and self.compared is None
        return self.may_read and self.may_keep and is_plain and self.vectors is None

    def is_alive(self, entry: Entry, now_s: float) -> bool:
        """Whether an entry may be served to this request: its time isn't over, no purge bears on it
        that its own request hadn't heard of, and a purge of any of this request's tags would.
        """
        has_tags = set(self.wishes.tags) <= set(entry.tags)
        return has_tags and self._is_alive_to_anybody(entry, now_s)

    def _is_alive_to_anybody(self, entry: Entry, now_s: float) -> bool:
        return (
            now_s < entry.stale_until
            and entry.policy_id == self.policy.id
            # that it has heard of more is of purges that are forgotten by now, or not heard of here
            and entry.mark >= self.mark_of(entry.namespace, entry.tags, entry.entry_id)
        )

    def mark_of(self, namespace: str, tags: tuple[str, ...], entry_id: str) -> int:
        """What purges come to for such an entry."""
        return mark(self.purges, self.policy.id, namespace, tags, entry_id)

    async def look_up(self, exchange: "Exchange") -> Found | None:
        """The answer that may be served, if there is one; a stale one is marked as such."""
        if not self.may_read:
            self.outcome = CacheOutcome.BYPASS
            return None
        now_s = exchange.services.clock()
        found = await self.caches.find(
            self.asked, self.asked.key, lambda one: self.is_alive(one, now_s)
        )
        if found is None:
            if self.caches.is_off(self.asked):
                self.outcome = CacheOutcome.OFF
            if CacheTier.SEMANTIC in self.policy.tiers:
                found = await self._look_for_alike(exchange, now_s)
        return self._usable(found, now_s)

    def _usable(self, found: Found | None, now_s: float) -> Found | None:
        """What was found, unless it is too old for this caller; whether it is stale is noted."""
        if found is None:
            return None
        age_s = now_s - found.entry.stored_at
        if self.wishes.max_age_s is not None and age_s > self.wishes.max_age_s:
            return None
        ttl_s = ttl_of(self.policy, self.plan.standing.task)
        self.is_stale = now_s >= found.entry.expires_at or age_s >= ttl_s
        if self.is_stale and (age_s >= ttl_s + self.policy.stale_s):
            self.is_stale = False
            return None
        self.outcome = CacheOutcome.STALE if self.is_stale else CacheOutcome.HIT
        self.found = found
        return found

    async def _look_for_alike(self, exchange: "Exchange", now_s: float) -> Found | None:
        """The answer to a question that asks the same, unless it is to be checked."""
        question = question_of(self.place.endpoint, self.said)
        if question is None:
            return None
        semantic, route = self.caches.semantic, self.plan.route
        least = self.policy.similarity_min if route.similarity_min is None else route.similarity_min
        partition = partition_of(self.caches.secret, self.place, question)
        nearest = await semantic.nearest(partition, question.text, similarity_min=least)
        if nearest is None:
            return None
        self.similarity, self.refused_by = nearest.similarity, nearest.refused_by
        if nearest.key is None:
            return None
        found = await self.caches.find(
            self.asked, nearest.key, lambda one: self.is_alive(one, now_s)
        )
        if found is None:
            await self._forget_if_gone(nearest.key, now_s)
            return None
        if exchange.services.chance() * 100 < self.policy.check_percent:
            self.compared, self.compared_key = found.entry, nearest.key
            self.outcome = CacheOutcome.CHECKED
            return None
        return Found(found.entry, CacheTier.SEMANTIC)

    async def _forget_if_gone(self, key: bytes, now_s: float) -> None:
        """Have a question found no more, at no host, if its answer stands nowhere.

        Only the store can say so: what this process lacks another may have. Else it is left to
        its expiry.
        """
        if CacheTier.SHARED not in self.policy.tiers:
            return
        if await self.caches.shared.is_without(
            self.asked, key, lambda one: self._is_alive_to_anybody(one, now_s)
        ):
            self.caches.semantic.forget(key)

    def note_agreement(self, agreed: bool | None) -> None:
        """Take note whether the fresh answer says what the kept one does; if not, let that one go,
        wherever it stands: nobody else is to be answered with it.
        """
        self.agreed = agreed
        if agreed is False:
            self.caches.forget(self.asked, self.compared_key)

    def answered_with(self, entry: Entry) -> None:
        """Take note that another's answer is this one's too."""
        self.outcome = CacheOutcome.JOINED
        self.found = Found(entry, CacheTier.LOCAL)

    def make_entry(
        self, exchange: "Exchange", attempt: Attempt, whole: Document, body: bytes | None = None
    ) -> Entry | None:
        """The entry of an answer, or None if it is none to be kept; `body` is how it came, if it
        came whole. Raises one of UNREADABLE if it is like none that its dialect has.
        """
        form, charge = FORMS[self.place.endpoint], attempt.charge
        if not self.may_keep or charge is None or not form.is_fit(whole):
            return None
        if attempt.planned.stands_in:  # what others asked may not be answered by this arm's control
            return None
        if self.unbounded is not None and form.is_cut(whole):
            return None  # who has no such limit would have got more
        if form.has_tool_calls(whole) and not self.policy.stores_tool_calls:
            return None
        body = _encode(whole) if body is None else body
        if len(body) > self.policy.max_entry_bytes:
            return None
        frames_of(form, whole, ALL_SHOWN)  # raises if it can't be told as a stream
        now_s = exchange.services.clock()
        expires_at = now_s + ttl_of(self.policy, self.plan.standing.task)
        namespace, tags = self.wishes.namespace, self.wishes.tags
        entry_id = entry_id_of(self.caches.secret, self._key_of_answer(exchange, attempt))
        return Entry(
            body=body,
            endpoint=self.place.endpoint,
            stored_at=now_s,
            expires_at=expires_at,
            stale_until=min(expires_at + self.policy.stale_s, now_s + MAX_CACHE_TTL_S),
            entry_id=entry_id,
            policy_id=self.policy.id,
            route_id=self.plan.route.id,
            usage=charge.usage,
            took_ms=exchange.arrived.ms_until(exchange.services.stopwatch()),
            mark=self.mark_of(namespace, tags, entry_id),
            namespace=namespace,
            tags=tags,
            cost_nanousd=charge.cost_nanousd,
            fallbacks=attempt.planned.fallbacks,
        )

    def keep(self, exchange: "Exchange", attempt: Attempt, entry: Entry | None) -> None:
        """Keep an answer under what really gave it; who waits gets it if that was asked."""
        if entry is not None:
            key = self._key_of_answer(exchange, attempt)
            self.caches.keep(self.asked, key, entry)
            if key != self.asked.key:  # another model's, or to another body: no answer to who waits
                entry = None
            elif CacheTier.SEMANTIC in self.policy.tiers:
                self._remember(key, entry)
        self.made = entry
        self._land(entry)

    def abandon(self) -> None:
        """Have the next of those who wait lead; called at the end of every request."""
        if self.leads:
            self.leads = False
            self.caches.shared.land(self.asked)
            self.caches.flights.pass_on(self.asked.key)

    def _land(self, entry: Entry | None) -> None:
        if self.leads:
            self.leads = False
            self.caches.shared.land(self.asked)
            self.caches.flights.land(self.asked.key, entry)

    def _remember(self, key: bytes, entry: Entry) -> None:
        question = question_of(self.place.endpoint, self.said)
        if question is not None:
            partition = partition_of(self.caches.secret, self.place, question)
            self.caches.semantic.remember(
                partition, question.text, key=key, expires_at=entry.expires_at
            )

    def _key_of_answer(self, exchange: "Exchange", attempt: Attempt) -> bytes:
        """The key of what was really sent, to what really answered."""
        # a maximum that is ours is no part of what was asked: what it cut short isn't kept
        sent = exchange.request if self.unbounded is None else self.unbounded
        identity = (*identity_of(attempt.planned), cache_part_of(self.plan.assignments))
        if identity == self.place.identity and sent is self.request:
            return self.asked.key
        said = self.said
        if sent is not None and sent is not self.request:
            said = read_said(sent.members, sent.replaced)
        return key_of(self.caches.secret, changed(self.place, identity=identity), said)

    def is_of(self, planned: PlannedTarget) -> bool:
        """Whether a target answers as the intended one does."""
        part = cache_part_of(self.plan.assignments)
        return not planned.stands_in and (*identity_of(planned), part) == self.place.identity

    def use(self, exchange: "Exchange") -> CacheUse:
        """What the books say of it."""
        found, vectors = self.found, self.vectors
        told = CacheUse(
            self.policy.id,
            self.outcome,
            similarity=self.similarity,
            refused_by=self.refused_by,
            agreed=self.agreed,
        )
        if self.outcome is not CacheOutcome.BYPASS:
            told = changed(told, entry_id=self._told_id())
        if vectors is not None:
            return vectors.told(told, self.plan)
        if found is None:
            return told
        entry = found.entry
        return changed(
            told,
            tier=found.tier,
            age_ms=self.age_ms(exchange, entry),
            saved_prompt_tokens=entry.usage.prompt_tokens,
            saved_completion_tokens=entry.usage.completion_tokens,
            saved_nanousd=cost_of(entry.usage, self.plan.targets[0].price),
            saved_ms=entry.took_ms,
        )

    def _told_id(self) -> str | None:
        """The entry that it came to: the one served or compared, else that of its own answer.

        Of embeddings it is none, since each input has its own.
        """
        if self.vectors is not None:
            return None
        entry = self.compared if self.found is None else self.found.entry
        return self.entry_id if entry is None else entry.entry_id

    def age_ms(self, exchange: "Exchange", entry: Entry) -> int:
        """How old an answer is."""
        return max(int((exchange.services.clock() - entry.stored_at) * 1000), 0)

    def headers(self, exchange: "Exchange") -> Headers:
        """What the answer's headers tell of it."""
        found, identity = self.found, exchange.identity
        told = self.outcome.value
        if found is not None:
            told = f"{told}; tier={found.tier.value}"
        elif self.obstacle is not None:
            told = f"{told}; reason={self.obstacle.value}"
        headers: Headers = ((b"x-headworks-cache", told.encode()),)
        if found is not None:
            headers += ((b"age", b"%d" % (self.age_ms(exchange, found.entry) // 1000)),)
            if found.entry.fallbacks:
                headers += ((b"x-headworks-fallbacks", b"%d" % found.entry.fallbacks),)
        if identity is None or Scope.DEBUG not in identity.scopes:
            return headers
        if self.similarity is not None:
            headers += ((b"x-headworks-cache-similarity", b"%.4f" % self.similarity),)
        entry_id = self._told_id()
        if self.obstacle is None and entry_id is not None:
            headers += ((b"x-headworks-cache-entry", entry_id.encode()),)
        return headers

    def record(self) -> dict[str, object]:
        """What the decision record says of it."""
        told: dict[str, object] = {"policy": self.policy.id, "outcome": self.outcome.value}
        if self.obstacle is not None:
            told["obstacle"] = self.obstacle.value
        else:
            told["entry"] = self._told_id()
        if self.found is not None:
            told["tier"] = self.found.tier.value
        return told
