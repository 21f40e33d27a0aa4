"""What a cache did for one request, in words. Pure: a row's value in, words out."""

from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.console.details import Fact
from controlplane.console.formats import NO_PRICE, UNKNOWN, count, dollars, duration, tokens
from controlplane.console.nouns import CACHES
from controlplane.decisions.cache_rollups import SERVED
from controlplane.models import Request
from inference.contract.kinds import CacheOutcome

_WORDS: Mapping[str, str] = {
    CacheOutcome.HIT.value: "served from the cache",
    CacheOutcome.STALE.value: "served from the cache past its time, and renewed",
    CacheOutcome.MISS.value: "not in the cache",
    CacheOutcome.BYPASS.value: "passed over the cache",
    CacheOutcome.CHECKED.value: "a hit by meaning, answered anew to check it",
    CacheOutcome.JOINED.value: "waited for another's identical request",
    CacheOutcome.OFF.value: "the cache could not be asked",
}


def cache_words(use: Mapping[str, Any]) -> str:
    """What the cache did, in a sentence."""
    words = _WORDS.get(use["outcome"], use["outcome"])
    return f"{words} ({use['tier']})" if use.get("tier") else words


def is_served(use: Mapping[str, Any] | None) -> bool:
    """Whether the answer came without asking a worker anew."""
    return use is not None and use["outcome"] in SERVED


def has_entry(use: Mapping[str, Any] | None) -> bool:
    """Whether one entry was served that can be taken out; vectors are one an input."""
    return use is not None and is_served(use) and bool(use.get("entry_id")) and not is_vectors(use)


def is_vectors(use: Mapping[str, Any]) -> bool:
    """Whether it is of embeddings."""
    return use.get("inputs") is not None


def saved_words(use: Mapping[str, Any]) -> str:
    """What it saved in dollars; what has no price has none here either."""
    saved = use.get("saved_nanousd")
    return NO_PRICE if saved is None else dollars(saved)


def cost_saved_words(use: Mapping[str, Any]) -> str:
    """What stands in place of a cost: `saved $0.0004872`."""
    return f"saved, {NO_PRICE}" if use.get("saved_nanousd") is None else f"saved {saved_words(use)}"


def cache_facts(row: Request, policy_name: str | None) -> Sequence[Fact]:
    """A line for all that is known of the cache's part in a request; none without one."""
    use = row.cache
    if use is None:
        return ()
    policy = use["policy_id"]
    url = CACHES.detail_url(policy) if policy_name else ""
    found = [
        Fact("Outcome", cache_words(use)),
        Fact("Policy", policy_name or f"{policy} (gone since)", url=url),
    ]
    if use.get("entry_id"):
        found.append(Fact("Entry", use["entry_id"], is_mono=True))
    if use.get("age_ms") is not None:
        found.append(Fact("Age", duration(use["age_ms"])))
    found += _by_meaning(use)
    if use.get("inputs") is not None:
        hits = f"{count(use.get('inputs_hit') or 0)} of {count(use['inputs'])}"
        found.append(Fact("Inputs kept", hits))
    if is_served(use) or use.get("inputs_hit"):
        found += _saved(use)
    return found


def _by_meaning(use: Mapping[str, Any]) -> Sequence[Fact]:
    if use.get("similarity") is None:
        return ()
    found = [Fact("Similarity of the nearest", f"{use['similarity']:.3f}")]
    if use.get("refused_by"):
        found.append(Fact("Refused by", str(use["refused_by"]).replace("_", " ")))
    if use["outcome"] == CacheOutcome.CHECKED:
        told = {True: "said the same", False: "said something else: a false hit"}
        found.append(Fact("The fresh answer", told.get(use.get("agreed"), "could not be compared")))
    return found


def _saved(use: Mapping[str, Any]) -> Sequence[Fact]:
    ms, is_unknown = use.get("saved_ms"), use.get("saved_nanousd") is None
    sums = tokens(use.get("saved_prompt_tokens"), use.get("saved_completion_tokens"))
    return (
        Fact("Saved", saved_words(use), unit="" if is_unknown else "at today's price"),
        Fact("Tokens saved, in / out", sums),
        Fact("Time saved", UNKNOWN if ms is None else duration(ms)),
    )
