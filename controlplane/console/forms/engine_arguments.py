"""Fields for the engine's arguments, made of what `contract.params` knows of each."""

from collections.abc import Mapping
from typing import Any

from django.forms import ChoiceField, Field, FloatField, IntegerField

from controlplane.console.formats import UNKNOWN
from inference.contract.params import (
    ENGINE_ARGUMENTS,
    ArgumentType,
    ArgumentValue,
    EngineArgument,
)

PREFIX = "arg_"
ON, OFF = "on", "off"

DEFAULTS: Mapping[str, str] = {
    "max_model_len": "the model's own",
    "max_num_seqs": "256, or what the device suits",
    "max_num_batched_tokens": "2,048, or what the device suits",
    "max_num_queued_reqs": "no bound",
    "gpu_memory_utilization": "0.92",
    "tensor_parallel_size": "1",
    "pipeline_parallel_size": "1",
    "data_parallel_size": "1",
    "enable_expert_parallel": OFF,
    "dtype": "auto",
    "kv_cache_dtype": "auto",
    "quantization": "as the weights say",
    "block_size": "what the device suits",
    "enforce_eager": OFF,
    "enable_prefix_caching": ON,
    "enable_chunked_prefill": ON,
    "scheduling_policy": "fcfs",
    "seed": "0",
    "runner": "auto",
    "enable_auto_tool_choice": OFF,
    "tool_call_parser": "none",
    "reasoning_parser": "none",
    "trust_remote_code": OFF,
}
"""What vLLM 0.32 does where an argument isn't given; the engine decides, this only tells."""


def argument_fields() -> dict[str, Field]:
    """One optional field an argument, by its prefixed name."""
    return {f"{PREFIX}{name}": _field(one) for name, one in ENGINE_ARGUMENTS.items()}


def initial_of_arguments(arguments: Mapping[str, ArgumentValue]) -> dict[str, Any]:
    """Arguments of a pool as the fields show them."""
    return {f"{PREFIX}{name}": _as_shown(value) for name, value in arguments.items()}


def arguments_in(cleaned: Mapping[str, Any]) -> dict[str, ArgumentValue]:
    """The arguments that were given, as a pool keeps them."""
    found: dict[str, ArgumentValue] = {}
    for name, argument in ENGINE_ARGUMENTS.items():
        value = cleaned.get(f"{PREFIX}{name}")
        if value not in (None, ""):
            found[name] = value == ON if argument.type is ArgumentType.FLAG else value
    return found


def _as_shown(value: ArgumentValue) -> object:
    if isinstance(value, bool):
        return ON if value else OFF
    return value


def _field(argument: EngineArgument) -> Field:
    shared: dict[str, Any] = {
        "label": argument.help,
        "required": False,
        "help_text": _help_of(argument),
    }
    if argument.type is ArgumentType.FLAG:
        return ChoiceField(choices=[("", _unset(argument)), (ON, ON), (OFF, OFF)], **shared)
    if argument.type is ArgumentType.CHOICE:
        listed = [(choice, choice) for choice in argument.choices]
        return ChoiceField(choices=[("", _unset(argument)), *listed], **shared)
    bounds = {"min_value": argument.minimum, "max_value": argument.maximum}
    kind = IntegerField if argument.type is ArgumentType.INTEGER else FloatField
    field = kind(**bounds, **shared)
    field.widget.attrs["placeholder"] = DEFAULTS.get(argument.name, UNKNOWN)
    return field


def _unset(argument: EngineArgument) -> str:
    return f"default: {DEFAULTS.get(argument.name, UNKNOWN)}"


def _help_of(argument: EngineArgument) -> str:
    """The argument's own spelling, its default and bounds, and what the host must allow."""
    told = [f"{argument.flag}, default {DEFAULTS.get(argument.name, UNKNOWN)}"]
    if argument.minimum is not None and argument.maximum is not None:
        told.append(f"{argument.minimum:,g} to {argument.maximum:,}")
    if argument.needs_host_setting:
        told.append(f"needs {argument.needs_host_setting} on the host")
    return "; ".join(told)
