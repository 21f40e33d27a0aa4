"""A few figures are read out of whatever a server calls its metrics."""

import pytest

from inference.pools.engine_metrics import NO_LOAD, EngineLoad, load_in

NOW = b"""# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="smol"} 3.0
vllm:num_requests_waiting{engine="0",model_name="smol"} 2.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="smol",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="smol"} 0.125
vllm:prefix_cache_queries_total{engine="0",model_name="smol"} 4000.0
vllm:prefix_cache_hits_total{engine="0",model_name="smol"} 1.0e+03
vllm:prompt_tokens_total{engine="0",model_name="smol"} 1.0e+06
process_resident_memory_bytes 7.5e+08
"""


def test_they_are_found_among_the_rest() -> None:
    assert load_in(NOW) == EngineLoad(
        running=3, waiting=2, kv_used=0.125, prefix_tokens=4_000, prefix_hits=1_000
    )


def test_older_engines_call_the_cache_otherwise_and_the_newest_name_wins() -> None:
    older = NOW.replace(b"kv_cache_usage_perc", b"gpu_cache_usage_perc")
    older = older.replace(b"prefix_cache_", b"gpu_prefix_cache_")
    assert load_in(older) == load_in(NOW)
    both = NOW + b'vllm:gpu_cache_usage_perc{engine="0"} 0.9\n'
    assert load_in(both) == load_in(NOW)


def test_several_engines_behind_one_server_are_one_worker() -> None:
    second = NOW.replace(b'"0"', b'"1"').replace(b"3.0", b"4.0").replace(b"0.125", b"0.375")
    assert load_in(NOW + second) == EngineLoad(
        running=7, waiting=4, kv_used=0.25, prefix_tokens=8_000, prefix_hits=2_000
    )


@pytest.mark.parametrize(
    "line",
    [
        b"vllm:num_requests_running 3",
        b"vllm:num_requests_running{} 3",
        b'vllm:num_requests_running{model_name="a } b\\"c{ 7"} 3.0',
        b'vllm:num_requests_running{model_name="smol"} 3.0 1764500000000',
        b'vllm:num_requests_running{model_name="smol"}\t3',
        b'vllm:num_requests_running{model_name="smol"} 3.0\r\n',
    ],
)
def test_any_spelling_of_a_sample_is_read(line: bytes) -> None:
    assert load_in(line) == EngineLoad(running=3)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{}",
        b"<html>vllm:num_requests_running 3</html>",
        b"# vllm:num_requests_running 3",
        b"vllm:num_requests_running NaN",
        b"vllm:num_requests_running +Inf",
        b"vllm:num_requests_running -1",
        b"vllm:num_requests_running many",
        b"vllm:num_requests_running{model_name=",
        b"\xff\xfe\x00",
    ],
)
def test_what_says_nothing_is_not_known_and_never_zero(text: bytes) -> None:
    assert load_in(text) == NO_LOAD == EngineLoad(None, None, None)
