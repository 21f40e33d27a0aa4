"""What a cache policy would have served of requests that are over. Pure.

Only exact repeats are known, by the ids that gateways gave to what was asked; ids of one scope tell
nothing of repeats across it. Memory is taken to suffice, and nothing is served by meaning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.decisions.caches import DEFAULT_TTL_S
from inference.contract.kinds import CacheScope, TaskClass

SCOPES: Sequence[CacheScope] = (
    CacheScope.KEY,
    CacheScope.PROJECT,
    CacheScope.TEAM,
    CacheScope.ORGANISATION,
    CacheScope.SHARED,
)
"""From the narrowest to the widest."""

Ttl = Mapping[str, int]
"""Seconds by class of task; one that is absent has the default's."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that is over. Times are seconds since the epoch.

    `nanousd`, `tokens` and `ms` are what it took, or what a hit saved; None is not known.
    """

    received_s: float
    ended_s: float
    entry_id: str
    key_id: str
    project_id: str
    team_id: str
    task: str | None
    is_ok: bool
    was_served: bool
    nanousd: int | None
    prompt_tokens: int
    completion_tokens: int
    ms: float


@dataclass(frozen=True, slots=True)
class WouldHave:
    """What would have been served of `asked` requests, and what that would have saved."""

    asked: int = 0
    served: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    nanousd: int = 0
    unknown_saved: int = 0
    ms: float = 0.0

    @property
    def hit_rate(self) -> float | None:
        """The share that would have been served, None of no requests."""
        return self.served / self.asked if self.asked else None

    @property
    def saved_nanousd(self) -> int | None:
        """What is known of it; None where nothing that would have been served has a price."""
        return None if self.served and self.unknown_saved >= self.served else self.nanousd


def is_known(present: str, wanted: str) -> bool:
    """Whether repeats in a scope can be told from ids of the present one: not in a wider one."""
    return SCOPES.index(CacheScope(wanted)) <= SCOPES.index(CacheScope(present))


def would_have(requests: Sequence[Seen], ttl_s: Ttl, scope: str) -> WouldHave:
    """Go through requests in the order in which they came; equal ones in a scope are repeats.

    What ended well is kept from its end on for its class's time, also where it was a hit then: it
    says what would have been asked of a worker.
    """
    kept_until: dict[tuple[str, str], tuple[float, float]] = {}
    asked = served = prompt = completion = nanousd = unknown = 0
    ms = 0.0
    for one in sorted(requests, key=lambda one: one.received_s):
        asked += 1
        place = (one.entry_id, _holder(one, scope))
        begins, ends = kept_until.get(place, (0.0, 0.0))
        if begins <= one.received_s < ends:
            served += 1
            prompt += one.prompt_tokens
            completion += one.completion_tokens
            ms += one.ms
            nanousd += one.nanousd or 0
            unknown += one.nanousd is None
        elif one.is_ok and (life := _life_s(ttl_s, one.task)):
            kept_until[place] = (one.ended_s, one.ended_s + life)
    return WouldHave(asked, served, prompt, completion, nanousd, unknown, ms)


def _holder(one: Seen, scope: str) -> str:
    if scope == CacheScope.KEY:
        return one.key_id
    if scope == CacheScope.PROJECT:
        return one.project_id
    return one.team_id if scope == CacheScope.TEAM else ""


def _life_s(ttl_s: Ttl, task: str | None) -> int:
    name = task or TaskClass.DEFAULT.value
    default = ttl_s.get(TaskClass.DEFAULT.value, DEFAULT_TTL_S[TaskClass.DEFAULT.value])
    return ttl_s.get(name, default)
