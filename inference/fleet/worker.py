"""One worker as a gateway process sees it: where it is, how it does, what is under way there."""

from collections.abc import Mapping
from dataclasses import dataclass

from inference.contract.kinds import Endpoint, WorkerState
from inference.decisions.breaker import Verdict
from inference.fleet.breakers import WorkerBreaker
from inference.workers.connections import Origin

# A model of 8 thousand million parameters on one middling GPU. It only weighs prompts against
# requests until the first streams have shown the worker's own.
USUAL_PREFILL_RATE = 4_000.0

# vLLM's own default lies between 128 and 1,024 by device; too low a guess only spreads sooner.
USUAL_CONCURRENCY = 128

# A shorter prompt's time to the first token says more of the way there than of prefill.
LEARN_FROM_TOKENS = 512
_LEARNING_SHARE = 0.2
_SLOWEST, _FASTEST = 10.0, 1_000_000.0


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
    """

    __slots__ = (
        "address",
        "breaker",
        "concurrency",
        "id",
        "inflight",
        "kv_used",
        "life",
        "peers_inflight",
        "peers_prefill_tokens",
        "pool_id",
        "prefill_rate",
        "prefill_tokens",
        "salt",
        "state",
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

    def begin_life(self, life: str, *, salt: int, breaker: WorkerBreaker) -> None:
        """Forget what was learned of it: it was started anew, or is somewhere else now."""
        self.life = life
        self.salt = salt
        self.breaker = breaker
        self.prefill_rate = USUAL_PREFILL_RATE
        self.kv_used = None

    def lease(self, prefill_tokens: int = 0, *, now_s: float = 0.0) -> "Lease":
        """Count one request and its prompt; its lease takes both back."""
        return Lease(self, prefill_tokens, now_s=now_s)

    def learn_prefill(self, tokens: int, *, took_s: float) -> None:
        """Take note of how long a prompt and all that was before it took."""
        seen = min(max(tokens / max(took_s, 1e-6), _SLOWEST), _FASTEST)
        if self.prefill_rate == USUAL_PREFILL_RATE:
            self.prefill_rate = seen
        else:
            self.prefill_rate += _LEARNING_SHARE * (seen - self.prefill_rate)


class Lease:
    """One request counted against one worker, until it is released, which counts once.

    `is_trial`: it is the one attempt that the worker's breaker lets through to see how it does.
    """

    __slots__ = ("_breaker", "_queued_tokens", "_started_s", "_tokens", "_worker", "is_trial")

    def __init__(self, worker: Worker, prefill_tokens: int, *, now_s: float) -> None:
        self._worker: Worker | None = worker
        self._breaker = worker.breaker
        self._tokens = prefill_tokens
        self._started_s = now_s
        worker.inflight += 1
        worker.prefill_tokens += prefill_tokens
        self._queued_tokens = worker.prefill_tokens
        self.is_trial = worker.breaker.begin(now_s)

    def note_content(self, now_s: float) -> None:
        """Take the prompt back, whose first token came, and learn from it; once."""
        if self._worker is None:
            return
        if self._tokens >= LEARN_FROM_TOKENS:
            self._worker.learn_prefill(self._queued_tokens, took_s=now_s - self._started_s)
        self._worker.prefill_tokens -= self._tokens
        self._tokens = 0
        if self.is_trial:
            self.is_trial = False
            self._breaker.note_content(now_s)

    def release(self, verdict: Verdict = Verdict.UNKNOWN, *, now_s: float = 0.0) -> None:
        """Take everything back and say how it went; only the first call counts."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        worker.inflight -= 1
        worker.prefill_tokens -= self._tokens
        self._breaker.note_end(verdict, is_trial=self.is_trial, now_s=now_s)
