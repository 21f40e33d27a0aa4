"""What a request may cost and what it did cost, in whole nano-USD.

Upper bounds hold before anything is sent; costs come from the usage an engine reported. A price
that is None is unknown, and then so is every cost: unknown is never zero.
"""

from collections.abc import Mapping

from inference.contract.events import PriceUsed, Usage
from inference.contract.kinds import Endpoint
from inference.contract.snapshot import PriceRecord

# No token is shorter than a byte, and a chat template wraps each message in fewer than this many.
TEMPLATE_TOKENS_PER_MESSAGE = 16

# Ledgers keep 64-bit integers; nothing an engine or a caller writes may overflow them.
MAX_TOKENS = 2**31 - 1
MAX_NANOUSD = 2**63 - 1

_TOKENS_PER_PRICE = 1_000_000
_HALF = _TOKENS_PER_PRICE // 2


def bound_prompt_tokens(body_bytes: int, messages: int) -> int:
    """The most tokens a prompt of this many bytes and messages can have."""
    most = body_bytes + TEMPLATE_TOKENS_PER_MESSAGE * messages
    return most if most < MAX_TOKENS else MAX_TOKENS


def bound_output_tokens(requested_tokens: int | None, *, answers: int, default_tokens: int) -> int:
    """The most tokens so many answers can have; `default_tokens` each if none were named."""
    each = default_tokens if requested_tokens is None else requested_tokens
    most = each * answers if each > 0 and answers > 0 else 0
    return most if most < MAX_TOKENS else MAX_TOKENS


def price_used(record: PriceRecord | None, endpoint: Endpoint = Endpoint.CHAT) -> PriceUsed | None:
    """The price as a charge keeps it; None of one that has ended."""
    if record is None:
        return None
    into, out = record.input_nanousd_per_mtok, record.output_nanousd_per_mtok
    if into is None or out is None:
        return None
    if endpoint is Endpoint.EMBEDDINGS and record.embedding_input_nanousd_per_mtok is not None:
        into = record.embedding_input_nanousd_per_mtok
    return PriceUsed(
        price_id=record.id,
        input_nanousd_per_mtok=into,
        output_nanousd_per_mtok=out,
        cached_input_nanousd_per_mtok=record.cached_input_nanousd_per_mtok,
        reasoning_output_nanousd_per_mtok=record.reasoning_output_nanousd_per_mtok,
        request_nanousd=record.request_nanousd or 0,
    )


def cost_of(usage: Usage, price: PriceUsed | None) -> int | None:
    """Price a usage: prompt and completion, rounded half up once, and what a request costs.

    Tokens not reported add nothing, so the result is a lower bound when some are missing. Cached
    tokens are part of the prompt and reasoning tokens of the completion: what is beyond is cut, and
    without a price of their own they cost what the others do.
    """
    if price is None:
        return None
    prompt, each = usage.prompt_tokens or 0, price.input_nanousd_per_mtok
    completion, out = usage.completion_tokens or 0, price.output_nanousd_per_mtok
    total = prompt * each + completion * out
    cached_price = price.cached_input_nanousd_per_mtok
    if usage.cached_tokens and cached_price is not None:
        total += min(usage.cached_tokens, prompt) * (cached_price - each)
    if usage.reasoning_tokens and price.reasoning_output_nanousd_per_mtok is not None:
        dearer = price.reasoning_output_nanousd_per_mtok - out
        total += min(usage.reasoning_tokens, completion) * dearer
    # half up, from nano-USD a million tokens
    cost = (total + _HALF) // _TOKENS_PER_PRICE + price.request_nanousd
    return cost if cost < MAX_NANOUSD else MAX_NANOUSD


def cost_at_most(prompt_tokens: int, output_tokens: int, price: PriceUsed | None) -> int | None:
    """The cost of these upper bounds, at the dearer prices of both sides; None is unknown."""
    if price is None:
        return None
    dearest, cached = price.input_nanousd_per_mtok, price.cached_input_nanousd_per_mtok
    if cached is not None and cached > dearest:
        dearest = cached
    out, reasoning = price.output_nanousd_per_mtok, price.reasoning_output_nanousd_per_mtok
    if reasoning is not None and reasoning > out:
        out = reasoning
    total = prompt_tokens * dearest + output_tokens * out
    cost = (total + _HALF) // _TOKENS_PER_PRICE + price.request_nanousd
    return cost if cost < MAX_NANOUSD else MAX_NANOUSD


def is_complete(usage: Usage) -> bool:
    """Whether a usage says all that a bill needs."""
    return usage.prompt_tokens is not None and usage.completion_tokens is not None


def usage_from(member: Mapping[str, object]) -> Usage:
    """Read an engine's usage object; what isn't a whole number of tokens counts as not said."""
    prompt = member.get("prompt_tokens_details")
    completion = member.get("completion_tokens_details")
    return Usage(
        read_tokens(member.get("prompt_tokens")),
        read_tokens(member.get("completion_tokens")),
        None if prompt is None else read_detail(prompt, "cached_tokens"),
        None if completion is None else read_detail(completion, "reasoning_tokens"),
    )


def merge_usage(earlier: Usage, later: Usage) -> Usage:
    """Put two parts of one usage together; what the later one says wins."""
    return Usage(
        prompt_tokens=_first(later.prompt_tokens, earlier.prompt_tokens),
        completion_tokens=_first(later.completion_tokens, earlier.completion_tokens),
        cached_tokens=_first(later.cached_tokens, earlier.cached_tokens),
        reasoning_tokens=_first(later.reasoning_tokens, earlier.reasoning_tokens),
    )


def tokens_not_generated(
    usage: Usage, *, output_tokens_requested: int | None, output_tokens_max: int
) -> int | None:
    """The most tokens an engine was spared by a request that ended before its answer did.

    `output_tokens_max` is of all its answers. None where nobody named a maximum: how long the
    answer would have been is then not known.
    """
    if output_tokens_requested is None:
        return None
    return max(output_tokens_max - (usage.completion_tokens or 0), 0)


def read_tokens(value: object) -> int | None:
    """A whole number of tokens; None is anything else."""
    if type(value) is not int or value < 0:  # a bool is an int to isinstance
        return None
    return value if value <= MAX_TOKENS else MAX_TOKENS


def read_detail(details: object, name: str) -> int | None:
    """One count of a details object; None if it isn't said."""
    return read_tokens(details.get(name)) if isinstance(details, dict) else None


def _first(preferred: int | None, other: int | None) -> int | None:
    return other if preferred is None else preferred
