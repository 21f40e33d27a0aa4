"""What may reach an engine's start line, and what may not."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from inference.contract.kinds import Backend, Provisioner, Task
from inference.contract.params import ENGINE_ARGUMENTS, ArgumentType
from inference.contract.snapshot import PoolRecord
from inference.decisions.engine import (
    LISTED_MODELS,
    START_MARK,
    engine_command,
    engine_digest,
    engine_environment,
    model_folder,
    problems_with,
    reason_in,
)

POOL = PoolRecord(
    id="pool_a",
    organisation_id="org_a",
    name="smol",
    model_id="mdl_a",
    provisioner=Provisioner.PROCESS,
    backend=Backend.VLLM,
    served_model_name="smollm2",
    model_source="smollm2-135m-instruct",
    drain_timeout_s=45,
)


def pool_with(**arguments: str | int | float | bool) -> PoolRecord:
    return replace(POOL, engine_arguments=arguments)


def codes(pool: PoolRecord, **options: bool) -> list[tuple[str, str]]:
    return [(field, code) for field, code, _ in problems_with(pool, **options)]


def command(pool: PoolRecord, task: Task = Task.GENERATE) -> tuple[str, ...]:
    return engine_command(
        pool, task=task, python="/engine/bin/python", models_folder="/models", port=8501
    )


def test_a_plain_pool_has_no_problem() -> None:
    assert problems_with(POOL) == ()


def test_pools_whose_workers_are_not_processes_are_not_judged() -> None:
    static = replace(pool_with(middleware="os.system"), provisioner=Provisioner.STATIC)
    assert problems_with(static) == ()


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"middleware": "evil.module"}, ("middleware", "unknown")),
        ({"tool_parser_plugin": "/tmp/evil.py"}, ("tool_parser_plugin", "unknown")),
        ({"worker_cls": "evil.Worker"}, ("worker_cls", "unknown")),
        ({"max_model_len": "2048"}, ("max_model_len", "wrong_type")),
        ({"max_model_len": 2048.0}, ("max_model_len", "wrong_type")),
        ({"max_model_len": True}, ("max_model_len", "wrong_type")),
        ({"max_model_len": 15}, ("max_model_len", "out_of_range")),
        ({"max_model_len": 10_000_001}, ("max_model_len", "out_of_range")),
        ({"gpu_memory_utilization": 1.01}, ("gpu_memory_utilization", "out_of_range")),
        ({"gpu_memory_utilization": float("nan")}, ("gpu_memory_utilization", "wrong_type")),
        ({"gpu_memory_utilization": "0.9"}, ("gpu_memory_utilization", "wrong_type")),
        ({"enforce_eager": 1}, ("enforce_eager", "wrong_type")),
        ({"enforce_eager": "true"}, ("enforce_eager", "wrong_type")),
        ({"dtype": "bfloat16 --middleware x"}, ("dtype", "not_a_choice")),
        ({"dtype": 16}, ("dtype", "wrong_type")),
        ({"trust_remote_code": True}, ("trust_remote_code", "not_allowed")),
        (
            {"max_num_batched_tokens": 1024, "max_num_seqs": 2048},
            ("max_num_batched_tokens", "conflict"),
        ),
        (
            {
                "max_num_batched_tokens": 1024,
                "max_model_len": 2048,
                "enable_chunked_prefill": False,
            },
            ("max_num_batched_tokens", "conflict"),
        ),
        (
            {"max_num_batched_tokens": 256, "max_model_len": 512, "runner": "pooling"},
            ("max_num_batched_tokens", "conflict"),
        ),
        (
            {"tensor_parallel_size": 8, "pipeline_parallel_size": 4, "data_parallel_size": 4},
            ("tensor_parallel_size", "conflict"),
        ),
        ({"enable_expert_parallel": True}, ("enable_expert_parallel", "needs")),
        ({"tool_call_parser": "hermes"}, ("tool_call_parser", "needs")),
        (
            {"tool_call_parser": "hermes", "enable_auto_tool_choice": False},
            ("tool_call_parser", "needs"),
        ),
        ({"enable_auto_tool_choice": True}, ("enable_auto_tool_choice", "needs")),
        ({"runner": "pooling", "reasoning_parser": "qwen3"}, ("reasoning_parser", "conflict")),
    ],
)
def test_a_wrong_argument_is_named_with_its_fault(
    arguments: dict[str, str | int | float | bool], found: tuple[str, str]
) -> None:
    name, code = found
    assert codes(pool_with(**arguments)) == [(f"engine_arguments.{name}", code)]


@pytest.mark.parametrize(
    "arguments",
    [
        {"max_model_len": 16, "max_num_seqs": 8192, "gpu_memory_utilization": 1},
        {"max_num_batched_tokens": 1024, "max_model_len": 2048},
        {"max_num_batched_tokens": 2048, "max_num_seqs": 2048},
        {"tensor_parallel_size": 8, "pipeline_parallel_size": 8},
        {"enable_expert_parallel": True, "data_parallel_size": 2},
        {"enable_auto_tool_choice": True, "tool_call_parser": "hermes"},
        {"runner": "pooling", "enable_auto_tool_choice": False},
        {"trust_remote_code": False},
    ],
)
def test_sound_arguments_pass(arguments: dict[str, str | int | float | bool]) -> None:
    assert problems_with(pool_with(**arguments)) == ()


def test_remote_code_passes_where_the_host_allows_it() -> None:
    assert codes(pool_with(trust_remote_code=True), allow_remote_code=True) == []


def test_a_wrong_value_is_not_compared_with_others() -> None:
    pool = pool_with(max_num_batched_tokens="many", max_model_len=2048)
    assert codes(pool) == [("engine_arguments.max_num_batched_tokens", "wrong_type")]


@pytest.mark.parametrize(
    "source",
    [
        "/etc",
        "../secrets",
        "models/../../etc",
        "models/./x",
        "models//x",
        "models/",
        "~/models",
        "-rf",
        "a\\b",
        "a b",
        "a\nb",
        "a\0b",
        "https://example.com/model",
        "модель",
    ],
)
def test_a_model_outside_the_models_folder_is_refused(source: str) -> None:
    assert codes(replace(POOL, model_source=source)) == [("model_source", "not_allowed")]


@pytest.mark.parametrize("source", [None, ""])
def test_a_process_pool_needs_a_model(source: str | None) -> None:
    assert codes(replace(POOL, model_source=source)) == [("model_source", "required")]


def test_listed_models_and_relative_folders_are_found() -> None:
    assert {name: model_folder(name) for name in LISTED_MODELS} == dict(LISTED_MODELS)
    assert model_folder("team-a/Llama-3.1_8B.v2") == "team-a/Llama-3.1_8B.v2"


@pytest.mark.parametrize("name", ["--middleware", "None", "", "two words", "a,b"])
def test_a_served_name_that_a_start_line_would_misread_is_refused(name: str) -> None:
    pool = replace(POOL, served_model_name=name)
    assert codes(pool) == [("served_model_name", "not_allowed")]


def test_a_process_pool_runs_vllm() -> None:
    assert codes(replace(POOL, backend=Backend.OPENAI)) == [("backend", "conflict")]


def test_the_start_line_word_for_word() -> None:
    pool = pool_with(
        max_num_seqs=64, max_model_len=2048, enforce_eager=True, enable_prefix_caching=False
    )
    assert command(pool) == (
        "/engine/bin/python",
        *("-m", "vllm.entrypoints.openai.api_server"),
        *("--model", "/models/smollm2-135m-instruct"),
        *("--served-model-name", "smollm2"),
        *("--allowed-media-domains", "none.invalid"),
        "--disable-uvicorn-access-log",
        "--no-enable-prefix-caching",
        "--enforce-eager",
        *("--max-model-len", "2048"),
        *("--max-num-seqs", "64"),
        *("--host", "127.0.0.1"),
        *("--port", "8501"),
        *("--shutdown-timeout", "45"),
    )


def test_an_embedding_model_gets_the_pooling_runner_unless_told_otherwise() -> None:
    words = command(POOL, Task.EMBED)
    assert words[words.index("--runner") + 1] == "pooling"
    words = command(pool_with(runner="auto"), Task.EMBED)
    assert words[words.index("--runner") + 1] == "auto"


def test_no_start_line_without_a_model_that_may_be_loaded() -> None:
    with pytest.raises(ValueError, match="may not be loaded"):
        command(replace(POOL, model_source="../x"))


def test_the_digest_changes_with_what_an_engine_runs_on_and_with_nothing_else() -> None:
    def digest(pool: PoolRecord, python: str = "/engine/bin/python") -> str:
        return engine_digest(pool, task=Task.GENERATE, python=python, models_folder="/models")

    same = replace(POOL, name="other", replicas=5, drain_timeout_s=1)
    others = [
        replace(POOL, restart_generation=1),
        replace(POOL, port_base=8501),
        replace(POOL, served_model_name="other"),
        replace(POOL, model_source="other"),
        pool_with(max_num_seqs=64),
    ]
    assert digest(same) == digest(POOL)
    assert len({digest(pool) for pool in [POOL, *others]}) == len(others) + 1
    assert digest(POOL, "/newer/bin/python") != digest(POOL)


def environment_of(
    inherited: Mapping[str, str],
    *,
    api_key: str = "k",
    is_eager: bool = True,
    cpu_cores: int | None = None,
) -> Mapping[str, str]:
    return engine_environment(inherited, api_key=api_key, is_eager=is_eager, cpu_cores=cpu_cores)


def test_an_engine_sees_the_hosts_engine_settings_and_none_of_our_secrets() -> None:
    inherited = {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "1",
        "VLLM_CPU_KVCACHE_SPACE": "4",
        "VLLM_API_KEY": "the host's",
        "HF_HUB_OFFLINE": "0",
        "HEADWORKS_VAR": "/var/lib/headworks",
        "HEADWORKS_DATA_KEY": "secret",
        "HEADWORKS_STATE_URL": "unix:///run/state.sock",
        "HEADWORKS_OTLP_HEADERS": "authorization=secret",
        "OTEL_EXPORTER_OTLP_HEADERS": "authorization=secret",
        "DATABASE_URL": "postgresql://secret",
        "PYTHONPATH": "/console",
    }
    assert environment_of(inherited, api_key="worker's") == {
        "PATH": "/bin",
        "CUDA_VISIBLE_DEVICES": "1",
        "VLLM_CPU_KVCACHE_SPACE": "4",
        "VLLM_API_KEY": "worker's",
        "HEADWORKS_VAR": "/var/lib/headworks",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
        "OTEL_TRACES_SAMPLER": "parentbased_always_off",
        "OTEL_SERVICE_NAME": "vllm",
    }


def test_without_a_setting_of_the_host_the_kv_cache_on_a_cpu_is_small() -> None:
    assert environment_of({})["VLLM_CPU_KVCACHE_SPACE"] == "1"


def test_an_eager_engine_on_a_cpu_compiles_nothing_for_a_rare_request_either() -> None:
    assert environment_of({}, cpu_cores=8)["TORCHDYNAMO_DISABLE"] == "1"
    for others in (environment_of({}), environment_of({}, is_eager=False, cpu_cores=8)):
        assert "TORCHDYNAMO_DISABLE" not in others


def test_where_one_thread_computes_the_model_has_no_process_of_its_own() -> None:
    names = ("VLLM_ENABLE_V1_MULTIPROCESSING", "OMP_NUM_THREADS")
    few = environment_of({}, cpu_cores=2)
    assert [few[name] for name in names] == ["0", "1"]
    assert not set(names) & set(environment_of({}, cpu_cores=3))
    assert not set(names) & set(environment_of({}))
    hosts = {"VLLM_ENABLE_V1_MULTIPROCESSING": "1", "OMP_NUM_THREADS": "2"}
    assert [environment_of(hosts, cpu_cores=1)[name] for name in names] == ["1", "2"]


def test_the_reason_of_a_death_is_the_last_error_at_first_hand() -> None:
    log = "\n".join(
        [
            "INFO 11-30 12:00:00 [api_server.py:1] vLLM API server version 0.32.0",
            "(EngineCore pid=7) ValueError: No available memory for the cache blocks.",
            "(APIServer pid=1) RuntimeError: Engine core initialization failed. See root cause.",
        ]
    )
    assert reason_in(log) == "ValueError: No available memory for the cache blocks."
    assert reason_in("INFO all is well\n") is None
    older = f"ValueError: of the life before\n{START_MARK}\nINFO all is well\n"
    assert reason_in(older) is None
    advice = "WARNING 11-30 if you see `OSError: [Errno 24] Too many open files`, raise ulimit"
    assert reason_in(advice) is None
    usage = "api_server.py: error: argument --max-num-seqs: invalid int value: 'x'"
    assert reason_in(usage) == "error: argument --max-num-seqs: invalid int value: 'x'"


def test_every_flag_can_be_switched_off_and_every_choice_is_one_word() -> None:
    for argument in ENGINE_ARGUMENTS.values():
        if argument.type is ArgumentType.CHOICE:
            assert all(not choice.startswith("-") for choice in argument.choices)
        assert argument.flag == "--" + argument.name.replace("_", "-")
