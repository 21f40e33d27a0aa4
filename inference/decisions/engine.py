"""What an engine may be told, and its whole start line.

Engine arguments are code execution, so only what `params.ENGINE_ARGUMENTS` lists gets through, by
type and bounds, and weights come from one folder of the host or from a listed id.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

import msgspec

from inference.contract.kinds import Backend, Provisioner, Task
from inference.contract.params import ENGINE_ARGUMENTS, ArgumentType, ArgumentValue, EngineArgument
from inference.contract.sealing import content_digest
from inference.contract.snapshot import PoolRecord

Problem = tuple[str, str, str]
Arguments = Mapping[str, ArgumentValue]

LISTED_MODELS: Mapping[str, str] = {
    "smollm2-135m-instruct": "smollm2-135m-instruct",
    "all-minilm-l6-v2": "all-minilm-l6-v2",
}
"""Model ids anyone may name, and the folders below the models folder that hold them."""

MAX_DEVICES = 64
"""A process pool's engine lives on one machine, and no machine has more accelerators than that."""

_SERVED_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,254}")
_SOURCE_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+-]{0,254}")
_CHAT_ONLY = ("enable_auto_tool_choice", "tool_call_parser", "reasoning_parser")
_UNREADABLE_NAME = "None"

# HEADWORKS_VAR is no secret: it marks a process as one of this installation's.
_INHERITED = frozenset(
    (
        "HEADWORKS_VAR",
        "HOME",
        "LANG",
        "LD_LIBRARY_PATH",
        "LD_PRELOAD",
        "PATH",
        "TMPDIR",
        "TZ",
        "USER",
    )
)
_INHERITED_PREFIXES = (
    "LC_",
    "XDG_",
    "CUDA_",
    "NVIDIA_",
    "NCCL_",
    "ROCR_",
    "HIP_",
    "OMP_",
    "MKL_",
    "TORCH_",
    "TRITON_",
    "HF_",
    "VLLM_",
)
_DEFAULT_ENVIRONMENT: Mapping[str, str] = {"VLLM_CPU_KVCACHE_SPACE": "1"}
# The argument spares the model alone: vLLM would still stop to compile, for seconds on a CPU, at
# the first request that asks for something rare such as log probabilities.
_EAGER_ENVIRONMENT: Mapping[str, str] = {"TORCHDYNAMO_DISABLE": "1"}
# On a CPU vLLM gives the model a process of its own so as to bind its threads to all cores but one.
# Where that leaves one thread, the process costs a third of the start and 0.7 GB for nothing.
_FEW_CORES = 2
_FEW_CORES_ENVIRONMENT: Mapping[str, str] = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "OMP_NUM_THREADS": "1",
}
_FIXED_ENVIRONMENT: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "PYTHONUNBUFFERED": "1",
    # of an engine that is told where: those requests alone that the gateway has sampled
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
    "OTEL_TRACES_SAMPLER": "parentbased_always_off",
    "OTEL_SERVICE_NAME": "vllm",
}

START_MARK = "=== headworks starts this worker ==="

_LAST_ERROR = re.compile(r"\b([A-Z]\w*(?:Error|Exception|Interrupt): .+|error: .+)")
_HARMLESS = re.compile(r"\b(WARNING|INFO|DEBUG)\b|Engine core initialization failed")
_REASON_CHARACTERS = 300


def problems_with(pool: PoolRecord, allow_remote_code: bool = False) -> tuple[Problem, ...]:
    """Return what keeps a pool's engine from being started, as (field, code, message).

    Empty for pools whose workers we do not start as processes. Fields are the pool's, with
    `engine_arguments.<name>` for one argument. Codes: required, unknown, wrong_type, out_of_range,
    not_a_choice, not_allowed, conflict, needs.
    """
    if pool.provisioner is not Provisioner.PROCESS:
        return ()
    return (
        *_backend_problems(pool),
        *_name_problems(pool),
        *_source_problems(pool),
        *_argument_problems(pool, allow_remote_code),
    )


def model_folder(source: str) -> str | None:
    """The folder, relative to the models folder, that a model source names; None if it may not."""
    listed = LISTED_MODELS.get(source)
    if listed is not None:
        return listed
    parts = source.split("/")
    if not all(_SOURCE_PART.fullmatch(part) for part in parts):
        return None
    return source


def _backend_problems(pool: PoolRecord) -> Iterator[Problem]:
    if pool.backend is not Backend.VLLM:
        yield "backend", "conflict", "A pool whose engines we start runs vLLM."


def _name_problems(pool: PoolRecord) -> Iterator[Problem]:
    name = pool.served_model_name
    if name == _UNREADABLE_NAME or not _SERVED_NAME.fullmatch(name):
        yield (
            "served_model_name",
            "not_allowed",
            "Use letters, digits and . _ : / @ + -, beginning with a letter or a digit.",
        )


def _source_problems(pool: PoolRecord) -> Iterator[Problem]:
    if not pool.model_source:
        yield "model_source", "required", "Say which model the engines load."
    elif model_folder(pool.model_source) is None:
        yield (
            "model_source",
            "not_allowed",
            "Name a listed model, or a folder below the models folder by its relative path.",
        )


def _argument_problems(pool: PoolRecord, allow_remote_code: bool) -> Iterator[Problem]:
    sound: dict[str, ArgumentValue] = {}
    for name, value in pool.engine_arguments.items():
        problem = _value_problem(name, value, allow_remote_code)
        if problem is None:
            sound[name] = value
        else:
            yield f"engine_arguments.{name}", *problem
    for check in _TOGETHER:
        for name, code, message in check(sound):
            yield f"engine_arguments.{name}", code, message


def _value_problem(
    name: str, value: ArgumentValue, allow_remote_code: bool
) -> tuple[str, str] | None:
    argument = ENGINE_ARGUMENTS.get(name)
    if argument is None:
        return "unknown", "This argument is not on the list of what may be set here."
    if not _is_of_type(argument, value):
        return "wrong_type", f"Expected {_TYPE_WORDS[argument.type]}."
    if argument.type is ArgumentType.CHOICE and value not in argument.choices:
        return "not_a_choice", f"Choose one of {', '.join(argument.choices)}."
    if isinstance(value, int | float) and not _is_within(argument, value):
        return "out_of_range", f"Must be {_bounds_words(argument)}."
    if argument.needs_host_setting and value is True and not allow_remote_code:
        return "not_allowed", f"The host does not allow this; see {argument.needs_host_setting}."
    return None


_TYPE_WORDS: Mapping[ArgumentType, str] = {
    ArgumentType.INTEGER: "a whole number",
    ArgumentType.NUMBER: "a number",
    ArgumentType.FLAG: "true or false",
    ArgumentType.CHOICE: "one of the choices",
}


def _is_of_type(argument: EngineArgument, value: ArgumentValue) -> bool:
    if argument.type is ArgumentType.FLAG:
        return isinstance(value, bool)
    if argument.type is ArgumentType.CHOICE:
        return isinstance(value, str)
    if isinstance(value, bool):
        return False
    if argument.type is ArgumentType.INTEGER:
        return isinstance(value, int)
    return isinstance(value, int | float) and math.isfinite(value)


def _is_within(argument: EngineArgument, value: float) -> bool:
    if argument.type not in (ArgumentType.INTEGER, ArgumentType.NUMBER):
        return True
    above = argument.minimum is None or value >= argument.minimum
    return above and (argument.maximum is None or value <= argument.maximum)


def _bounds_words(argument: EngineArgument) -> str:
    low, high = argument.minimum, argument.maximum
    if low is None:
        return f"at most {high:,g}"
    if high is None:
        return f"at least {low:,g}"
    if argument.type is ArgumentType.INTEGER:
        return f"between {int(low):,} and {int(high):,}"
    return f"between {low:g} and {high:g}"


def _batch_problems(arguments: Arguments) -> Iterator[Problem]:
    batched = _whole(arguments, "max_num_batched_tokens")
    if batched is None:
        return
    length = _whole(arguments, "max_model_len")
    is_pooling = arguments.get("runner") == "pooling"
    is_chunked = arguments.get("enable_chunked_prefill", not is_pooling)
    if length is not None and batched < length and not is_chunked:
        yield (
            "max_num_batched_tokens",
            "conflict",
            f"Without chunked prefill it must be at least max_model_len, {length:,}.",
        )
    sequences = _whole(arguments, "max_num_seqs")
    if sequences is not None and batched < sequences:
        yield (
            "max_num_batched_tokens",
            "conflict",
            f"It must be at least max_num_seqs, {sequences:,}.",
        )


def _whole(arguments: Arguments, name: str) -> int | None:
    value = arguments.get(name)
    return value if isinstance(value, int) else None


def _parallel_problems(arguments: Arguments) -> Iterator[Problem]:
    tensor = _whole(arguments, "tensor_parallel_size") or 1
    pipeline = _whole(arguments, "pipeline_parallel_size") or 1
    data = _whole(arguments, "data_parallel_size") or 1
    devices = tensor * pipeline * data
    if devices > MAX_DEVICES:
        yield (
            "tensor_parallel_size",
            "conflict",
            f"All parallel sizes multiplied need {devices} GPUs; the most is {MAX_DEVICES}.",
        )
    if arguments.get("enable_expert_parallel") is True and tensor * data == 1:
        yield (
            "enable_expert_parallel",
            "needs",
            "Experts are split over tensor and data parallel; set one of them above 1.",
        )


def _tool_problems(arguments: Arguments) -> Iterator[Problem]:
    chooses = arguments.get("enable_auto_tool_choice") is True
    if chooses and "tool_call_parser" not in arguments:
        yield "enable_auto_tool_choice", "needs", "Set tool_call_parser too."
    if "tool_call_parser" in arguments and not chooses:
        yield "tool_call_parser", "needs", "Switch on enable_auto_tool_choice too."


def _pooling_problems(arguments: Arguments) -> Iterator[Problem]:
    if arguments.get("runner") != "pooling":
        return
    for name in _CHAT_ONLY:
        if arguments.get(name, False) is not False:
            yield name, "conflict", "An engine that pools embeddings has no chat."


_TOGETHER: tuple[Callable[[Arguments], Iterator[Problem]], ...] = (
    _batch_problems,
    _parallel_problems,
    _tool_problems,
    _pooling_problems,
)


def engine_command(
    pool: PoolRecord,
    *,
    task: Task,
    python: str,
    models_folder: str,
    port: int,
    traces_url: str | None = None,
) -> tuple[str, ...]:
    """The start line of one engine of a sound pool: loopback only, its key in the environment.

    `models_folder` is absolute. `--allowed-media-domains` names a domain that cannot exist, since
    an empty list would allow every one of them. Requests running at SIGTERM may go on for the
    pool's drain time. `traces_url` is where its spans go, if anywhere.
    """
    return (
        *_engine_line(pool, task, python, models_folder, traces_url),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--shutdown-timeout",
        str(pool.drain_timeout_s),
    )


def _engine_line(
    pool: PoolRecord, task: Task, python: str, models_folder: str, traces_url: str | None
) -> tuple[str, ...]:
    folder = model_folder(pool.model_source or "")
    if folder is None:
        raise ValueError("the pool's model source may not be loaded")
    arguments = dict(pool.engine_arguments)
    if task is Task.EMBED:
        arguments.setdefault("runner", "pooling")
    return (
        python,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        str(PurePosixPath(models_folder) / folder),
        "--served-model-name",
        pool.served_model_name,
        "--allowed-media-domains",
        "none.invalid",
        # a line for every health check, several a second, buries what a worker's log is read for
        "--disable-uvicorn-access-log",
        *(() if traces_url is None else ("--otlp-traces-endpoint", traces_url)),
        *_argument_words(arguments),
    )


def _argument_words(arguments: Arguments) -> Iterator[str]:
    for name in sorted(arguments):
        argument, value = ENGINE_ARGUMENTS[name], arguments[name]
        if argument.type is ArgumentType.FLAG:
            yield argument.flag if value else argument.flag.replace("--", "--no-", 1)
        else:
            yield argument.flag
            yield str(value)


def engine_digest(
    pool: PoolRecord,
    *,
    task: Task,
    python: str,
    models_folder: str,
    traces_url: str | None = None,
) -> str:
    """Name what a worker runs on: a worker of another digest has to be restarted.

    The drain time is left out on purpose: to change it is no reason to restart an engine.
    """
    line = _engine_line(pool, task, python, models_folder, traces_url)
    return content_digest(msgspec.json.encode((line, pool.port_base, pool.restart_generation)))


def engine_environment(
    inherited: Mapping[str, str], *, api_key: str, is_eager: bool, cpu_cores: int | None
) -> Mapping[str, str]:
    """The environment of an engine: what the host set for engines, never our own secrets.

    `is_eager` is whether it shall compile nothing, and `cpu_cores` the number of cores that a
    build for CPUs may run on; None for any other build.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)
    }
    defaults = dict(_DEFAULT_ENVIRONMENT)
    if cpu_cores is not None and is_eager:
        defaults.update(_EAGER_ENVIRONMENT)
    if cpu_cores is not None and cpu_cores <= _FEW_CORES:
        defaults.update(_FEW_CORES_ENVIRONMENT)
    return {**defaults, **kept, **_FIXED_ENVIRONMENT, "VLLM_API_KEY": api_key}


def reason_in(log_tail: str) -> str | None:
    """The last error an engine named first-hand since its start, on one line; None if none.

    Each start is preceded by `START_MARK` on a line of its own.
    """
    found = None
    for line in log_tail.rpartition(START_MARK)[2].splitlines():
        match = _LAST_ERROR.search(line)
        if match and not _HARMLESS.search(line):
            found = match.group(1).strip()[:_REASON_CHARACTERS]
    return found
