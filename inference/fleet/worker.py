"""One worker as a gateway process sees it: where it is, how it does, what is under way there."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from inference.contract.kinds import Endpoint, WorkerState
from inference.decisions.breaker import CLOSED, Verdict
from inference.decisions.queueing import TOLD_S, Crowd, slots_of
from inference.decisions.roster import USUAL_CONCURRENCY, USUAL_PREFILL_RATE
from inference.decisions.routing.first_tokens import learned
from inference.fleet.breakers import WorkerBreaker
from inference.workers.connections import Origin

# A shorter prompt's time to the first token says more of the way there than of prefill.
LEARN_FROM_TOKENS = 512

# What one sample may say at most, as a factor, and how much of that is believed: a cache hit that
# nobody knew of looks a thousand times as fast.
_LEARNING_FACTOR = 4.0
_LEARNING_SHARE = 0.2
_SLOWEST, _FASTEST = 10.0, 1_000_000.0

_NO_BOUND = sys.maxsize


@dataclass(frozen=True, slots=True)
class Address:
    """Where a worker listens and what opens it: ready to be sent to. Never logged or shown."""

    base_url: str
    origin: Origin
    paths: Mapping[Endpoint, bytes]
    authorization: bytes

    def __repr__(self) -> str:
        return f"Address({self.base_url!r})"


class Worker:
    """One worker; `inflight` counts the leases that are out, `prefill_tokens` what they wait for.

    `peers_inflight` and `peers_prefill_tokens` are the same of all other gateway processes, about a
    second old. `kv_used` is None unless it is fresh. `salt` stands for this life of the worker.
    `first_token_s` is how long streams took to begin here of late, last seen at `first_token_at_s`.

    It takes `slots` requests at once, None if nobody said, of which this process may have `most`,
    by what the others were `told` of late that it has under way: the least of it.
    Those `promised` are about to be sent. `on_freed` is called after each lease that is given back.
    """

    __slots__ = (
        "_told",
        "address",
        "breaker",
        "concurrency",
        "first_token_at_s",
        "first_token_s",
        "id",
        "inflight",
        "kv_used",
        "life",
        "most",
        "on_freed",
        "peers_inflight",
        "peers_prefill_tokens",
        "pool_id",
        "prefill_rate",
        "prefill_tokens",
        "promised",
        "salt",
        "slots",
        "state",
        "told",
    )

    def __init__(
        self,
        worker_id: str,
        pool_id: str,
        address: Address,
        state: WorkerState,
        *,
        breaker: WorkerBreaker,
        life: str = "",
        salt: int = 0,
    ) -> None:
        self.id = worker_id
        self.pool_id = pool_id
        self.address = address
        self.state = state
        self.breaker = breaker
        self.life = life
        self.salt = salt
        self.inflight = 0
        self.prefill_tokens = 0
        self.peers_inflight = 0
        self.peers_prefill_tokens = 0
        self.prefill_rate = USUAL_PREFILL_RATE
        self.concurrency = USUAL_CONCURRENCY
        self.kv_used: float | None = None
        self.first_token_s: float | None = None
        self.first_token_at_s = 0.0
        self.slots: int | None = None
        self.most = _NO_BOUND
        self.promised = 0
        self.told = 0
        self._told: dict[int, int] = {}
        self.on_freed: Callable[[str], None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether this process may send it nothing more before something has ended."""
        return self.inflight + self.promised >= self.most

    def tell(self, now_s: float) -> None:
        """Take note that the others are just being told what is under way here.

        Of a worker that they weren't told of for so long they may think that nothing is.
        """
        second, count = int(now_s), self.inflight + self.promised
        if not self._told or max(self._told) < now_s - TOLD_S:
            self._told = {second: 0}
        self._told[second] = min(self._told.get(second, count), count)
        for old in [one for one in self._told if one < now_s - TOLD_S - 1]:
            del self._told[old]
        self.told = min(self._told.values())

    def share_slots(self, crowd: Crowd, *, is_fresh: bool = True) -> None:
        """Work out this process's part of the slots; stale figures of the others don't count."""
        if self.slots is None:
            self.most = _NO_BOUND
            return
        self.most = slots_of(
            self.slots,
            told=min(self.told, self.inflight + self.promised),
            others=self.peers_inflight if is_fresh else None,
            crowd=crowd,
            pool_id=self.pool_id,
        )

    def begin_life(self, life: str, *, salt: int, breaker: WorkerBreaker) -> None:
        """Forget what was learned of it: it was started anew, or is somewhere else now."""
        self.life = life
        self.salt = salt
        self.breaker = breaker
        self.prefill_rate = USUAL_PREFILL_RATE
        self.kv_used = None
        self.first_token_s = None

    def lease(
        self, prefill_tokens: int = 0, *, now_s: float = 0.0, teaches: bool = True
    ) -> "Lease":
        """Count one request and its prompt; its lease takes both back.

        One that `teaches` shows by its first token how fast prompts are read here.
        """
        return Lease(self, prefill_tokens, now_s=now_s, teaches=teaches)

    def learn_prefill(self, tokens: int, *, took_s: float) -> None:
        """Take note of how long a prompt and all that was before it took."""
        factor = tokens / max(took_s, 1e-6) / self.prefill_rate
        factor = min(max(factor, 1 / _LEARNING_FACTOR), _LEARNING_FACTOR)
        rate: float = self.prefill_rate * factor**_LEARNING_SHARE
        self.prefill_rate = min(max(rate, _SLOWEST), _FASTEST)

    def learn_first_token(self, now_s: float, *, took_s: float) -> None:
        """Take note of how long a stream took to begin."""
        self.first_token_s = learned(self.first_token_s, took_s)
        self.first_token_at_s = now_s


class Lease:
    """One request counted against one worker, until it is released, which counts once.

    `is_trial`: it is the one attempt that the worker's breaker lets through to see how it does.
    What it learns is of the life the worker had when it was given out.
    """

    __slots__ = (
        "_breaker",
        "_is_new",
        "_queued_tokens",
        "_started_s",
        "_teaches",
        "_tokens",
        "_was_aside",
        "_worker",
        "is_trial",
    )

    def __init__(self, worker: Worker, prefill_tokens: int, *, now_s: float, teaches: bool) -> None:
        self._worker: Worker | None = worker
        self._breaker = breaker = worker.breaker
        self._tokens = prefill_tokens
        self._started_s = now_s
        self._teaches = teaches and prefill_tokens >= LEARN_FROM_TOKENS
        self._is_new = True
        worker.inflight += 1
        worker.prefill_tokens += prefill_tokens
        self._queued_tokens = worker.prefill_tokens + worker.peers_prefill_tokens
        self._was_aside = now_s < breaker.aside_until
        self.is_trial = breaker.value is not CLOSED and breaker.begin(now_s)

    def note_content(self, now_s: float) -> None:
        """Take the prompt back, whose first token came, and learn from it; once.

        Streams alone show when that is.
        """
        if self._worker is None:
            return
        if self._is_new and self._breaker is self._worker.breaker:
            took_s = now_s - self._started_s
            self._worker.learn_first_token(now_s, took_s=took_s)
            if self._teaches:
                self._worker.learn_prefill(self._queued_tokens, took_s=took_s)
        self._is_new = False
        self._worker.prefill_tokens -= self._tokens
        self._tokens = 0
        self._take_back()
        if self.is_trial:
            self.is_trial = False
            self._breaker.note_content(now_s)

    def release(
        self, verdict: Verdict = Verdict.UNKNOWN, *, now_s: float = 0.0, aside_s: float = 0.0
    ) -> None:
        """Take everything back and say how it went; only the first call counts.

        A worker that said "not now" is set aside for `aside_s`.
        """
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.inflight -= 1
        worker.prefill_tokens -= self._tokens
        self._breaker.note_end(verdict, is_trial=self.is_trial, now_s=now_s)
        if aside_s:
            self._breaker.set_aside(now_s + aside_s)
        elif self._was_aside and verdict is Verdict.GOOD:
            self._take_back()
        if worker.on_freed is not None:
            worker.on_freed(worker.pool_id)

    def _take_back(self) -> None:
        """End that the worker is set aside, if it has answered what was sent while it was."""
        if self._was_aside:
            self._was_aside = False
            self._breaker.take_back()
