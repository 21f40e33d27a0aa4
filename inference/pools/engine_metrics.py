"""What a vLLM server says of its load: a few figures out of the long text of its /metrics."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

_RUNNING = ("vllm:num_requests_running",)
_WAITING = ("vllm:num_requests_waiting",)
_KV_USED = ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc")
_PREFIX_TOKENS = ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total")
_PREFIX_HITS = ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total")
"""Names by version, the newest first. The second of the caches' is what older engines call it."""

_ALL = (*_RUNNING, *_WAITING, *_KV_USED, *_PREFIX_TOKENS, *_PREFIX_HITS)
ENGINE_NAMES = frozenset(_ALL)
"""All that is read of an engine, by every name there is for it."""

_SAMPLE = re.compile(
    rb"^(%s)(?=[ {])(?:.*\})?[ \t]+(\S+)" % b"|".join(re.escape(name.encode()) for name in _ALL),
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """Requests running and waiting, and the share of the KV cache in use (0 to 1).

    `prefix_tokens` are prompt tokens looked up in the prefix cache since the start, `prefix_hits`
    those found. None is what the server doesn't say. A server with several engines counts as one:
    requests and tokens are summed, the shares of caches averaged.
    """

    running: int | None = None
    waiting: int | None = None
    kv_used: float | None = None
    prefix_tokens: int | None = None
    prefix_hits: int | None = None


NO_LOAD = EngineLoad()


def load_in(metrics: bytes) -> EngineLoad:
    """Read a Prometheus text of any size; what is not one, or not vLLM's, says nothing.

    A general parser takes 60 times as long, for series we don't want.
    """
    found: dict[str, list[float]] = {}
    for match in _SAMPLE.finditer(metrics):
        value = _number(match[2])
        if value is not None:
            found.setdefault(match[1].decode(), []).append(value)
    running, waiting = _first(found, _RUNNING), _first(found, _WAITING)
    kv_used = _first(found, _KV_USED)
    return EngineLoad(
        running=_sum(running),
        waiting=_sum(waiting),
        kv_used=None if kv_used is None else sum(kv_used) / len(kv_used),
        prefix_tokens=_sum(_first(found, _PREFIX_TOKENS)),
        prefix_hits=_sum(_first(found, _PREFIX_HITS)),
    )


def _sum(values: list[float] | None) -> int | None:
    return None if values is None else round(sum(values))


def _first(found: Mapping[str, list[float]], names: tuple[str, ...]) -> list[float] | None:
    return next((found[name] for name in names if name in found), None)


def _number(text: bytes) -> float | None:
    """A finite number that isn't negative; engines that know none say NaN."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None
