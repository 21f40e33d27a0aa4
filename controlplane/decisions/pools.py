"""What an edit of a pool does to its workers: in place, one after another, or all at once.

The supervisor decides by the digest of a worker's start line; what is said here beforehand is held
to that digest by a test.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from inference.contract.kinds import PoolPower, Provisioner

USUAL_START_S = 45
"""A small model's engine took 36 s to its first token, and a busy worker needs some to drain."""


class Acting(StrEnum):
    """How a change reaches the workers."""

    LIVE = "live"
    ROLLING = "rolling"
    RESTART = "restart"


ACTING_WORDS: Mapping[Acting, str] = {
    Acting.LIVE: "Acts in about a second; no worker restarts.",
    Acting.ROLLING: "Workers are replaced one after another; each finishes its requests first.",
    Acting.RESTART: "All workers end, and others start in their place.",
}

_OF_THE_START_LINE = frozenset(
    (
        *("served_model_name", "model_source", "engine_arguments", "port_base"),
        *("restart_generation", "worker_restarts"),
    )
)


@dataclass(frozen=True, slots=True)
class PoolFacts:
    """The pool as it is: what the words about an edit are made of.

    `cordoned` are the numbers of its drained workers, `restarts` how often others were restarted.
    """

    provisioner: str
    power: str
    replicas: int
    cordoned: tuple[int, ...] = ()
    restarts: Mapping[str, int] = field(default_factory=dict)

    @property
    def starts_workers(self) -> bool:
        """Whether its workers are ours to start, rather than addresses of others."""
        return self.provisioner != Provisioner.STATIC

    @property
    def running(self) -> int:
        """How many workers of ours it should have now, drained ones among them."""
        is_on = self.starts_workers and self.power != PoolPower.STOPPED
        return self.replicas if is_on else 0


def acting_of(name: str, provisioner: str) -> Acting:
    """How a change of this field acts on a pool of that provisioner."""
    if name == "provisioner":
        return Acting.RESTART
    if provisioner != Provisioner.STATIC and name in _OF_THE_START_LINE:
        return Acting.ROLLING
    return Acting.LIVE


def impact_of(
    facts: PoolFacts, changes: Mapping[str, object], routes: Collection[str]
) -> list[str]:
    """Say in words what these changes do, the gravest first; names of routes that send here."""
    told = [*_power_words(facts, changes), *_replica_words(facts, changes)]
    told += [*_restart_words(facts, changes), *_cordon_words(facts, changes)]
    if not told:
        told.append(_live_words(facts, changes))
    is_off = changes.get("power") in (PoolPower.STOPPED, PoolPower.DRAINED)
    is_felt = is_off or changes.get("replicas") == 0 or "cordoned" in changes
    if routes and (is_felt or _is_grave(facts, changes)):
        told.append(_route_words(routes))
    return told


def _is_grave(facts: PoolFacts, changes: Mapping[str, object]) -> bool:
    ways = {acting_of(name, facts.provisioner) for name in changes}
    return bool(ways - {Acting.LIVE}) or "addresses" in changes


def _power_words(facts: PoolFacts, changes: Mapping[str, object]) -> list[str]:
    power = changes.get("power")
    if power == facts.power or power is None:
        return []
    if not facts.starts_workers:
        way = "in use again" if power == PoolPower.RUNNING else "out of use"
        return [f"Its addresses are {way} within a second."]
    is_one = facts.replicas == 1
    if power == PoolPower.DRAINED and facts.power == PoolPower.RUNNING:
        way = "runs on and is" if is_one else "run on and are"
        told = f"{_workers(facts.replicas)} {way} sent nothing new."
        return [f"{told} Nothing is served from here."]
    if facts.power == PoolPower.DRAINED and power == PoolPower.RUNNING:
        return [f"{_workers(facts.replicas)} {'is' if is_one else 'are'} sent requests again."]
    if power == PoolPower.STOPPED:
        way = "stops; it finishes" if is_one else "stop; each finishes"
        told = f"{_workers(facts.replicas)} {way} its requests first."
        return [f"{told} Nothing is served from here."]
    way = "starts" if is_one else "start, all at once"
    told = f"{_workers(facts.replicas)} {way}: usually about {USUAL_START_S} s."
    sent = "it" if is_one else "them"
    return [f"{told} Nothing is sent to {sent}." if power == PoolPower.DRAINED else told]


def _replica_words(facts: PoolFacts, changes: Mapping[str, object]) -> list[str]:
    wanted = changes.get("replicas")
    if not isinstance(wanted, int) or wanted == facts.replicas or not facts.starts_workers:
        return []
    if facts.power == PoolPower.STOPPED:
        return [f"The pool is stopped; {_workers(wanted)} will start with it."]
    more = wanted - facts.replicas
    if more > 0:
        return [f"{_workers(more)} more, usually ready in about {USUAL_START_S} s."]
    return [f"{_workers(-more)} less; each finishes its requests first, then ends."]


def _restart_words(facts: PoolFacts, changes: Mapping[str, object]) -> list[str]:
    if "provisioner" in changes:
        return ["All workers end, and others start in their place. Expect a gap in service."]
    fields = [one for one in changes if acting_of(one, facts.provisioner) is Acting.ROLLING]
    if not fields:
        return []
    if not facts.running:
        return ["No worker of it runs now; the next start uses the new values."]
    if fields == ["worker_restarts"]:
        return _worker_restart_words(facts, changes["worker_restarts"])
    about_s = facts.running * USUAL_START_S
    gap = " There is one only, so nothing is served meanwhile." if facts.running == 1 else ""
    return [f"Rolling restart of {_workers(facts.running)}, usually about {about_s:,} s.{gap}"]


def _worker_restart_words(facts: PoolFacts, asked: object) -> list[str]:
    """Of the workers whose count grows; what is sent by hand may name others as they are."""
    given = asked if isinstance(asked, Mapping) else {}
    grown = [one for one, count in given.items() if count != facts.restarts.get(one, 0)]
    gap = " There is one only, so nothing is served meanwhile." if facts.running == 1 else ""
    return [
        f"Worker {one} finishes its requests, ends, and starts again: usually about "
        f"{USUAL_START_S} s.{gap}"
        for one in grown
    ]


def _cordon_words(facts: PoolFacts, changes: Mapping[str, object]) -> list[str]:
    asked = changes.get("cordoned")
    if not isinstance(asked, list | tuple):
        return []
    told = [
        f"Worker {one} finishes its requests and is sent nothing new; it runs on."
        for one in asked
        if one not in facts.cordoned
    ]
    told += [f"Worker {one} is sent requests again." for one in facts.cordoned if one not in asked]
    if facts.starts_workers and facts.power == PoolPower.RUNNING:
        left = facts.replicas - sum(one < facts.replicas for one in asked)
        if left <= 0 < facts.replicas:
            told.append("No other worker is left, so nothing is served from here.")
    return told


def _live_words(facts: PoolFacts, changes: Mapping[str, object]) -> str:
    if "addresses" in changes:
        return "Gateways send to the new addresses within a second."
    return ACTING_WORDS[Acting.LIVE]


def _route_words(routes: Collection[str]) -> str:
    named = sorted(routes)
    more = f" and {len(named) - 5} more" if len(named) > 5 else ""
    if len(named) == 1:
        return f"Route {named[0]} sends here."
    return f"Routes {', '.join(named[:5])}{more} send here."


def _workers(count: int) -> str:
    return f"{count:,} worker{'' if count == 1 else 's'}"
