"""The knobs of each kind: names, types and bounds as data, so that forms and checks agree.

`ENGINE_ARGUMENTS` is the allow-list of what a console may pass to an engine. Engine arguments are
code execution, so anything that loads code or reads a path is absent here or needs a setting on
the host (`needs_host_setting`); no environment variable can be set from a console at all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from inference.contract.kinds import TaskClass

GATEWAY_DRAIN_S = 60
"""What requests under way get when a gateway's process is replaced or stopped."""

ArgumentValue = str | int | float | bool


class ArgumentType(StrEnum):
    INTEGER = "integer"
    NUMBER = "number"
    FLAG = "flag"
    CHOICE = "choice"


@dataclass(frozen=True, slots=True)
class EngineArgument:
    """One allowed argument. `minimum` and `maximum` are inclusive; None is unbounded."""

    name: str
    type: ArgumentType
    help: str
    minimum: float | None = None
    maximum: float | None = None
    choices: tuple[str, ...] = ()
    needs_host_setting: str | None = None

    @property
    def flag(self) -> str:
        """The argument as the engine's command line spells it."""
        return "--" + self.name.replace("_", "-")


_ARGUMENTS = (
    EngineArgument(
        "max_model_len", ArgumentType.INTEGER, "Context length in tokens", 16, 10_000_000
    ),
    EngineArgument("max_num_seqs", ArgumentType.INTEGER, "Requests in one batch", 1, 8192),
    EngineArgument(
        "max_num_batched_tokens", ArgumentType.INTEGER, "Tokens in one step", 16, 1_048_576
    ),
    EngineArgument(
        "max_num_queued_reqs",
        ArgumentType.INTEGER,
        "Requests that may wait in the engine",
        0,
        1_000_000,
    ),
    EngineArgument("gpu_memory_utilization", ArgumentType.NUMBER, "Share of GPU memory", 0.05, 1.0),
    EngineArgument(
        "tensor_parallel_size", ArgumentType.INTEGER, "GPUs a layer is split over", 1, 64
    ),
    EngineArgument(
        "pipeline_parallel_size", ArgumentType.INTEGER, "Stages the layers are split into", 1, 64
    ),
    EngineArgument("data_parallel_size", ArgumentType.INTEGER, "Copies inside one engine", 1, 64),
    EngineArgument("enable_expert_parallel", ArgumentType.FLAG, "Split experts over GPUs"),
    EngineArgument(
        "dtype",
        ArgumentType.CHOICE,
        "Number format of the weights",
        choices=("auto", "bfloat16", "float16", "float32", "half", "float"),
    ),
    EngineArgument(
        "kv_cache_dtype",
        ArgumentType.CHOICE,
        "Number format of the KV cache",
        choices=("auto", "bfloat16", "fp8", "fp8_e4m3", "fp8_e5m2"),
    ),
    EngineArgument(
        "quantization",
        ArgumentType.CHOICE,
        "Weight quantisation",
        choices=(
            "awq",
            "awq_marlin",
            "gptq",
            "gptq_marlin",
            "fp8",
            "bitsandbytes",
            "compressed-tensors",
        ),
    ),
    EngineArgument("block_size", ArgumentType.INTEGER, "Tokens in a KV block", 1, 1024),
    EngineArgument(
        "enforce_eager", ArgumentType.FLAG, "No compiled graphs: starts sooner, runs slower"
    ),
    EngineArgument(
        "enable_prefix_caching", ArgumentType.FLAG, "Reuse the KV blocks of equal prefixes"
    ),
    EngineArgument(
        "enable_chunked_prefill", ArgumentType.FLAG, "Mix prefill and decode in one step"
    ),
    EngineArgument(
        "scheduling_policy",
        ArgumentType.CHOICE,
        "Order of waiting requests",
        choices=("fcfs", "priority"),
    ),
    EngineArgument("seed", ArgumentType.INTEGER, "Seed of sampling", 0, 2**32 - 1),
    EngineArgument(
        "runner",
        ArgumentType.CHOICE,
        "Generate text or pool embeddings",
        choices=("auto", "generate", "pooling"),
    ),
    EngineArgument("enable_auto_tool_choice", ArgumentType.FLAG, "Let the model choose tools"),
    EngineArgument(
        "tool_call_parser",
        ArgumentType.CHOICE,
        "How tool calls are read",
        choices=("hermes", "llama3_json", "mistral", "pythonic", "qwen3_coder", "deepseek_v3"),
    ),
    EngineArgument(
        "reasoning_parser",
        ArgumentType.CHOICE,
        "How reasoning is read",
        choices=("deepseek_r1", "qwen3", "granite", "mistral"),
    ),
    EngineArgument(
        "trust_remote_code",
        ArgumentType.FLAG,
        "Run code that comes with the weights",
        needs_host_setting="HEADWORKS_ALLOW_REMOTE_CODE",
    ),
)

ENGINE_ARGUMENTS: Mapping[str, EngineArgument] = {one.name: one for one in _ARGUMENTS}


@dataclass(frozen=True, slots=True)
class Bound:
    """What a number may be, both ends included; `maximum` None is no end."""

    minimum: float
    maximum: float | None = None

    def problem_with(self, value: float) -> str | None:
        """What is wrong with a value, in words, or None."""
        if self.minimum <= value and (self.maximum is None or value <= self.maximum):
            return None
        return self.words

    @property
    def words(self) -> str:
        """What a value must be, in a sentence."""
        if self.maximum is not None:
            return f"It must be between {self.minimum:,} and {self.maximum:,}."
        return (
            "It can't be negative." if self.minimum == 0 else f"It must be at least {self.minimum}."
        )


_ONE_DAY_MS = 86_400_000
_PERCENT = Bound(0, 100)

SIMILARITY_BOUND = Bound(0.5, 1.0)
"""Of a cosine: below the least, sentences of one language about anything are near each other."""

TARGET_BOUNDS: Mapping[str, Bound] = {
    "connect_timeout_ms": Bound(1, _ONE_DAY_MS),
    "first_byte_timeout_ms": Bound(1, _ONE_DAY_MS),
    "idle_timeout_ms": Bound(1, _ONE_DAY_MS),
    "total_timeout_ms": Bound(1, _ONE_DAY_MS),
}
ROUTE_BOUNDS: Mapping[str, Bound] = {
    **TARGET_BOUNDS,
    "default_max_output_tokens": Bound(1),
    "max_attempts": Bound(1, 10),  # beyond this a retry only multiplies the load of an outage
    "retry_budget_percent": _PERCENT,
    "max_wait_penalty": Bound(0, 1_000),
    "keep_alive_ms": Bound(1_000, 600_000),
    "max_queue_wait_ms": Bound(0, _ONE_DAY_MS),
    "max_queued": Bound(0, 100_000),
    "hedge_after_ms": Bound(10, _ONE_DAY_MS),
}
POOL_BOUNDS: Mapping[str, Bound] = {
    "replicas": Bound(0, 1_000),
    "start_timeout_s": Bound(1),
    "drain_timeout_s": Bound(0),
    "restart_generation": Bound(0),
    "worker_concurrency": Bound(1, 1_000_000),
    "breaker_failure_percent": Bound(1, 100),
    "breaker_min_requests": Bound(1, 10_000),
    "breaker_open_ms": Bound(100, 600_000),
    "panic_percent": _PERCENT,
}

LIMIT_BOUNDS: Mapping[str, Bound] = {"amount": Bound(0, 10**15)}

_MOST_NANOUSD = 10**18
"""A thousand million dollars: as counters are exact up to 2**62, all that is spent fits too."""
BUDGET_BOUNDS: Mapping[str, Bound] = {
    "amount_nanousd": Bound(0, _MOST_NANOUSD),
    "raised_to_nanousd": Bound(0, _MOST_NANOUSD),
    "grace_percent": Bound(0, 100),
    "grace_nanousd": Bound(0, _MOST_NANOUSD),
    "acts_at_percent": Bound(1, 100),
    "throttle_per_minute": Bound(1, 100_000),
}
MAX_BUDGET_SCOPES = 3

MAX_CACHE_TTL_S = 30 * 86_400
"""Records of purges are kept for longer than anything can be in a cache."""
CACHE_TTL_S: Mapping[TaskClass, int] = {
    TaskClass.DEFAULT: 300,
    TaskClass.CODE: 3_600,
    TaskClass.FACTUAL: 86_400,
    TaskClass.EXTRACTION: 86_400,
    TaskClass.CREATIVE: 0,
}
"""How long answers are kept, by task class, where a policy doesn't say; 0 is never."""
CACHE_TTL_BOUND = Bound(0, MAX_CACHE_TTL_S)
CACHE_BOUNDS: Mapping[str, Bound] = {
    "similarity_min": SIMILARITY_BOUND,
    "check_percent": _PERCENT,
    "stale_s": Bound(0, MAX_CACHE_TTL_S),
    "max_entry_bytes": Bound(1_024, 16 * 1_048_576),
    "memory_percent": Bound(1, 100),
    "edge_s": Bound(0, MAX_CACHE_TTL_S),
}
MAX_BYPASS_RULES = 50
NAMESPACE_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?$"
"""Of a context version too."""

WHOLE_BP = 10_000
"""Basis points of a whole: shares, allocations and places in a layer are told in them."""
_BASIS_POINTS = Bound(0, WHOLE_BP)
VARIANT_BOUNDS: Mapping[str, Bound] = {"share_bp": _BASIS_POINTS}
EXPERIMENT_BOUNDS: Mapping[str, Bound] = {
    "phase": Bound(1, 1_000_000),
    "allocation_bp": _BASIS_POINTS,
    "layer_from_bp": _BASIS_POINTS,
    "layer_to_bp": _BASIS_POINTS,
}
MAX_VARIANTS = 10
MAX_RAMP_STEPS = 50
MAX_RUNNING_EXPERIMENTS = 10
"""On one route: each is looked at for each of its requests."""
MAX_PARAMETERS = 20
MAX_COMMENT_BYTES = 1_024
"""Of what somebody writes about an answer."""
MAX_PARAMETER_CHARS = 4_096
PARAMETER_PATTERN = r"^[a-z][a-z0-9_]{0,63}$"
FIXED_MEMBERS = frozenset(
    (
        *("model", "stream", "stream_options", "user", "store", "metadata", "safety_identifier"),
        *("messages", "prompt", "suffix", "input", "instructions", "system", "query", "documents"),
        *("text_1", "text_2", "tokens", "conversation", "previous_response_id"),
        *("tools", "functions", "n", "best_of"),
    )
)
"""Members of a body that no variant may replace: by them a request is read, routed and bounded."""
ANSWER_BOUNDS = frozenset(("max_tokens", "max_completion_tokens", "max_output_tokens"))
"""Members that bound an answer, by any endpoint's word for it: a variant only lowers what is so."""

PRICE_FIELDS = (
    "input_nanousd_per_mtok",
    "output_nanousd_per_mtok",
    "cached_input_nanousd_per_mtok",
    "reasoning_output_nanousd_per_mtok",
    "embedding_input_nanousd_per_mtok",
    "request_nanousd",
)
"""What a version of a price says, in the order in which it is told."""

MAX_WEIGHT = 1_000_000
MAX_TIERS = 8
"""A chain of more fallbacks only makes the last caller wait longer."""
MAX_RULES = 100
MAX_ALIASES = 50
MAX_TAGS = 20
TAG_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._:/=-]{0,62}[A-Za-z0-9])?$"
HEADER_PATTERN = r"^[a-z0-9!#$%&'*+.^_`|~-]{1,64}$"
MINUTES_A_DAY = 1_440
MAX_REPLICAS = 1_000
NAME_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$"
ROUTE_NAME_PATTERN = r"^[A-Za-z0-9]([A-Za-z0-9._:/-]{0,126}[A-Za-z0-9])?$"
